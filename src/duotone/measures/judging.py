"""The judges of a run, and what they learn from."""

from __future__ import annotations

import numpy as np

from duotone.config import RunConfig
from duotone.data import apply_style, load_dataset, style_kinds
from duotone.federation.protocols import Decodes, Generates
from duotone.measures.judges import Judges, train_judges
from duotone.measures.measure import Scene
from duotone.partition.partition import Holding, Partition, Population, Rows
from duotone.seeding import stream


def judges(scene: Scene) -> Judges:
    """Return judges that learnt from the members' training samples."""
    return train_judges(scene.population, scene.seed)


def every_class_in_every_style(scene: Scene) -> Population | None:
    """Return the members' samples dealt out anew, where some member lacks a class.

    ``None`` where nothing is missing, where judges are only asked about reconstructions, or where
    the samples cannot be had in other styles.
    """
    is_read = isinstance(scene.method, Generates) or not isinstance(scene.method, Decodes)
    if not is_read or not lacks_labels(scene.population):
        return None
    return dealt_anew(scene.config, scene.population.partition)


def judges_of_made(scene: Scene) -> Judges:
    """Return judges for samples that a method made: they know every class in every style."""
    dealt = scene.once(every_class_in_every_style)
    if dealt is None:
        return scene.once(judges)
    return judges_of_unseen(scene.config, scene.population.partition, dealt)


def dealt_anew(config: RunConfig, partition: Partition) -> Population | None:
    """Return the members' samples dealt out anew, one client for each look that members wear.

    Judges that have only seen a label in some looks can read it in these alone; whether a model
    draws it in another one they could not tell. ``None`` without a style, or if the samples cannot
    be dressed again.
    """
    if config.style == "none" or config.data.startswith("object:"):
        return None
    kinds = style_kinds(config.style)
    looks = sorted({look_of(partition, client) for client in partition.members})
    dataset = load_dataset(config.data)
    worn = np.full(len(dataset), -1, np.int64)
    dealt: list[list[Rows]] = []
    rng = stream(config.seed, "judges", "looks")
    for split in ("train", "test"):
        rows = np.concatenate([getattr(partition[c], split) for c in partition.members])
        parts = np.array_split(rng.permutation(rows), len(looks))
        for look, part in zip(looks, parts, strict=True):
            worn[part] = kinds.index(look)
        dealt.append(parts)
    nothing = np.zeros(0, np.int64)
    holdings = [
        Holding(look, look, "member", train, nothing, test)
        for look, train, test in zip(looks, *dealt, strict=True)
    ]
    styled = apply_style(dataset, config.style, worn, seed=config.seed)
    return Population(styled, Partition.from_holdings(holdings))


def judges_of_unseen(config: RunConfig, partition: Partition, dealt: Population) -> Judges:
    """Train judges on every class in every style, to be asked about the run's own clients."""
    found = train_judges(dealt, config.seed)
    return found.asked_about({client: look_of(partition, client) for client in partition})


def judges_of_newcomers(scene: Scene) -> Judges:
    """Return judges that know every newcomer's style: those of the members, if they know them all.

    Judges are no part of a method, so they may learn from samples that no method has seen. Where
    clients have no style but themselves there is nothing to learn about a newcomer's.
    """
    judges, partition = scene.once(judges_of_made), scene.population.partition
    newcomers = [client for client in partition.of_role("newcomer") if partition.size(client)]
    styles = {judges.style_of[client] for client in newcomers if judges.style_of[client] != client}
    if styles <= set(judges.styles):
        return judges
    everybody = [*partition.members, *newcomers]
    return train_judges(scene.population, scene.seed, everybody)


def look_of(partition: Partition, client: str) -> str:
    """Return the look a client wears, which ends the name of its group."""
    return partition[client].group.rpartition("+")[2]


def lacks_labels(population: Population) -> bool:
    """Say whether some member has no training sample of some class."""
    classes = set(range(population.info.outputs))
    y = population.dataset.y
    return any(
        set(y[population.partition[client].train].tolist()) < classes
        for client in population.partition.members
    )
