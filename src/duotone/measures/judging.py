"""The judges of a run, and what they learn from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from duotone.config import RunConfig
from duotone.data import load_dataset
from duotone.federation.protocols import Decodes, Generates
from duotone.measures.judges import Judges, Untrained, untrained_judges
from duotone.measures.measure import Course, InPieces, Scene
from duotone.partition.build import styled_population
from duotone.partition.partition import Holding, Partition, Population, Rows
from duotone.seeding import stream


def _of_members(scene: Scene) -> Untrained:
    return untrained_judges(scene.population, scene.seed)


def _course(wanted: Untrained) -> Course[Judges]:
    return Course(wanted.lessons, wanted.trained)


@InPieces
def judges(scene: Scene) -> Course[Judges]:
    """Return judges that learnt from the members' training samples."""
    return _course(scene.once(_of_members))


def every_class_in_every_style(scene: Scene) -> Population | None:
    """Return the members' samples dealt out anew, where some member lacks a class.

    ``None`` where nothing is missing, where judges are only asked about reconstructions, or where
    the samples cannot be had in other styles.
    """
    is_read = isinstance(scene.method, Generates) or not isinstance(scene.method, Decodes)
    if not is_read or not lacks_labels(scene.population):
        return None
    return dealt_anew(scene.config, scene.population.partition)


def untrained_of_made(scene: Scene) -> Untrained:
    """Return judges for samples that a method made, before they have learnt anything."""
    dealt = scene.once(every_class_in_every_style)
    if dealt is None:
        return scene.once(_of_members)
    return _of_unseen(scene.config, scene.population.partition, dealt)


@InPieces
def judges_of_made(scene: Scene) -> Course[Judges]:
    """Return judges for samples that a method made: they know every class in every style."""
    wanted = scene.once(untrained_of_made)
    if wanted is scene.once(_of_members):
        return Course((), lambda _: scene.once(judges), (judges,))
    return _course(wanted)


def dealt_anew(config: RunConfig, partition: Partition) -> Population | None:
    """Return the members' samples dealt out anew, one client for each style that members have.

    Judges that have only seen a class in some styles can read it in these alone; whether a model
    draws it in another one they could not tell. ``None`` without a style, or if the samples cannot
    be had in another one.
    """
    if config.style == "none" or config.data.startswith("object:"):
        return None
    styles = sorted({style_of(partition, client) for client in partition.members})
    dealt: list[list[Rows]] = []
    rng = stream(config.seed, "judges", "looks")
    for split in ("train", "test"):
        rows = np.concatenate([getattr(partition[c], split) for c in partition.members])
        dealt.append(np.array_split(rng.permutation(rows), len(styles)))
    nothing = np.zeros(0, np.int64)
    holdings = [
        Holding(style, style, "member", train, nothing, test)
        for style, train, test in zip(styles, *dealt, strict=True)
    ]
    anew = Partition.from_holdings(holdings)
    own = {style: style for style in styles}
    return styled_population(load_dataset(config.data), anew, config.style, own, seed=config.seed)


def judges_of_unseen(config: RunConfig, partition: Partition, dealt: Population) -> Judges:
    """Train judges on every class in every style, to be asked about the run's own clients."""
    return _of_unseen(config, partition, dealt).taught_here()


def _of_unseen(config: RunConfig, partition: Partition, dealt: Population) -> Untrained:
    of_clients = {client: style_of(partition, client) for client in partition}
    return replace(untrained_judges(dealt, config.seed), style_of=of_clients)


@InPieces
def judges_of_newcomers(scene: Scene) -> Course[Judges]:
    """Return judges that know every newcomer's style: those of the members, if they know them all.

    Judges are no part of a method, so they may learn from samples that no method has seen. Where
    clients have no style but themselves there is nothing to learn about a newcomer's.
    """
    known, partition = scene.once(untrained_of_made), scene.population.partition
    newcomers = [client for client in partition.of_role("newcomer") if partition.size(client)]
    styles = {known.style_of[client] for client in newcomers if known.style_of[client] != client}
    if styles <= set(known.styles):
        return Course((), lambda _: scene.once(judges_of_made), (judges_of_made,))
    everybody = [*partition.members, *newcomers]
    return _course(untrained_judges(scene.population, scene.seed, everybody))


def style_of(partition: Partition, client: str) -> str:
    """Return a client's style, which ends the name of its group."""
    return partition[client].group.rpartition("+")[2]


def lacks_labels(population: Population) -> bool:
    """Say whether some member has no training sample of some class."""
    classes = set(range(population.info.outputs))
    y = population.dataset.y
    return any(
        set(y[population.partition[client].train].tolist()) < classes
        for client in population.partition.members
    )
