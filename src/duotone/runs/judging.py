"""The judges of a run, and what they learn from."""

from __future__ import annotations

import numpy as np

from duotone.data import load_dataset
from duotone.measures.judges import Judges, train_judges
from duotone.partition.build import styled_population
from duotone.partition.partition import Holding, Partition, Population, Rows
from duotone.runs.plan import Plan
from duotone.seeding import stream


def every_label_in_every_look(plan: Plan) -> Population | None:
    """Return the members' samples dealt out anew, one client for each look that members wear.

    Judges that have only seen a label in some looks can read it in these alone; whether a model
    draws it in another one they could not tell. ``None`` without a style, or if the samples cannot
    be dressed again.
    """
    config, partition = plan.config, plan.population.partition
    if config.style == "none" or config.data.startswith("object:"):
        return None
    looks = sorted({look_of(partition, client) for client in partition.members})
    dealt: list[list[Rows]] = []
    rng = stream(config.seed, "judges", "looks")
    for split in ("train", "test"):
        rows = np.concatenate([getattr(partition[c], split) for c in partition.members])
        dealt.append(np.array_split(rng.permutation(rows), len(looks)))
    nothing = np.zeros(0, np.int64)
    holdings = [
        Holding(look, look, "member", train, nothing, test)
        for look, train, test in zip(looks, *dealt, strict=True)
    ]
    style_of = {look: look for look in looks}
    partition = Partition.from_holdings(holdings)
    dataset = load_dataset(config.data)
    return styled_population(dataset, partition, config.style, style_of, seed=config.seed)


def judges_of_unseen(plan: Plan, dealt: Population) -> Judges:
    """Train judges on every label in every look, to be asked about the run's own clients."""
    found = train_judges(dealt, plan.config.seed)
    partition = plan.population.partition
    return found.asked_about({client: look_of(partition, client) for client in partition})


def judges_of_newcomers(plan: Plan, judges: Judges) -> Judges:
    """Return judges that know every newcomer's style: the given ones, if they know them all.

    Judges are no part of a method, so they may learn from samples that no method has seen. Where
    clients have no style but themselves there is nothing to learn about a newcomer's.
    """
    partition = plan.population.partition
    newcomers = [client for client in partition.of_role("newcomer") if partition.size(client)]
    styles = {judges.style_of[client] for client in newcomers if judges.style_of[client] != client}
    if styles <= set(judges.styles):
        return judges
    everybody = [*partition.members, *newcomers]
    return train_judges(plan.population, plan.config.seed, everybody)


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
