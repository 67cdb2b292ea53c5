"""Slow and absent members, for studies: ``--set system.dropout=0.2``.

Devices differ: some take longer (stragglers), some drop out of a round. Members are dealt into
speed classes by the run's seed, and whether one drops out is drawn for each round and client, so
every backend and every resumed run sees the same.

Time is simulated. Its unit is what a member of the speed 1 with the mean number of training samples
needs for a round; a member with twice as many samples, or of speed class 2, takes twice as long. A
round lasts until its slowest member answers. With a deadline, members that need longer are late:
they are waited for until then and their work is lost; a member that dropped out is waited for just
as long, since nobody can tell. Without one, who drops out says so at once.

An absent member is not computed: it sends nothing and keeps the state that it had. Statistics that
a method collects when a round is over are told by all, and newcomers and evaluations are not
touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from duotone.config import Settings, validated
from duotone.partition.partition import Population
from duotone.seeding import stream

Absence: TypeAlias = Literal["dropped_out", "late"]
ABSENCES: tuple[Absence, Absence] = ("dropped_out", "late")


class SystemSettings(Settings):
    """How members' devices differ."""

    dropout: float = Field(0.0, ge=0, lt=1)
    """Chance that a member that was drawn drops out of the round."""
    speeds: tuple[Annotated[float, Field(ge=1, le=1e6)], ...] = Field((1.0,), min_length=1)
    """Speed classes: how many times as long as speed 1 their members take, such as [1, 4]."""
    shares: tuple[Annotated[float, Field(gt=0, le=1)], ...] | None = None
    """Share of the members in each speed class, such as [0.8, 0.2]; by default equal shares."""
    deadline: float | None = Field(None, gt=0)
    """Time after which a round waits no longer; 1 is the mean time at speed 1. By default never."""

    @model_validator(mode="after")
    def _shares_fit(self) -> SystemSettings:
        if self.shares is not None and len(self.shares) != len(self.speeds):
            raise ValueError(
                f"system.shares has {len(self.shares)} entries and system.speeds "
                f"{len(self.speeds)}; give one share for each speed class."
            )
        if self.shares is not None and abs(sum(self.shares) - 1) > 1e-6:
            raise ValueError(f"system.shares add up to {sum(self.shares):g}; they must give 1.")
        return self


@dataclass(frozen=True, slots=True)
class System:
    """The devices of a run's members.

    Attributes:
        settings: How they differ.
        seed: The seed of the run.
        speed: By member, its speed class.
        time: By member, how long a round takes it.
        fastest: By member, how long it would take at speed 1.
    """

    settings: SystemSettings
    seed: int
    speed: Mapping[str, float]
    time: Mapping[str, float]
    fastest: Mapping[str, float]

    def absent(self, drawn: Iterable[str], round: int) -> dict[str, Absence]:
        """Return which of the members drawn for a round send nothing, and why."""
        found: dict[str, Absence] = {}
        deadline = self.settings.deadline
        for client in drawn:
            if stream(self.seed, "dropout", round, client).random() < self.settings.dropout:
                found[client] = "dropped_out"
            elif deadline is not None and self.time[client] > deadline:
                found[client] = "late"
        return found

    def lasted(self, answered: Iterable[str], absent: Iterable[str]) -> float:
        """Return how long a round lasted, by who answered and who did not."""
        deadline = self.settings.deadline
        if deadline is not None and list(absent):
            return deadline
        return max((self.time[client] for client in answered), default=0.0)


def system_of(values: Mapping[str, Any] | None, population: Population, seed: int) -> System | None:
    """Return the devices that a run's settings describe; ``None`` if all are alike.

    Raises:
        ConfigError: A setting is wrong.
    """
    if values is None:
        return None
    settings = validated(SystemSettings, values, owner="a system", prefix="system.")
    members = population.partition.members
    sizes = np.array([len(population.rows(member)) for member in members], np.float64)
    fastest = dict(zip(members, (sizes / sizes.mean()).tolist(), strict=True))
    speed = _dealt(members, settings, seed)
    time = {member: fastest[member] * speed[member] for member in members}
    return System(settings, seed, speed, time, fastest)


def _dealt(members: Sequence[str], settings: SystemSettings, seed: int) -> dict[str, float]:
    """Deal members into speed classes: by chance who, but not how many."""
    classes = len(settings.speeds)
    shares = settings.shares or (1 / classes,) * classes
    ends = np.rint(np.cumsum(shares) * len(members)).astype(int)
    order = stream(seed, "speeds").permutation(len(members))
    place = np.searchsorted(ends, np.arange(len(members)), side="right")
    dealt = {members[who]: settings.speeds[own] for who, own in zip(order, place, strict=True)}
    return {member: dealt[member] for member in members}
