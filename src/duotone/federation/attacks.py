"""What hostile members do, for tests and studies: ``--set attack.name=sign-flip``.

Hostile members are drawn by the run's seed. They do their harm where a client is computed, so every
backend sees the same. What a member trained honestly is its *move*, from the shared part it was
sent to the one it would send.

===================  ==============================================================
attack               what a hostile member sends
===================  ==============================================================
nan                  NaN everywhere
times-10, times-100  its move, 10 or 100 times as far
sign-flip            its move backwards; ``sign-flip-5`` five times as far
random               what it was sent, with standard normal noise on every number
stale                the shared part as it was before the first round
replayed             what it sent, or would have sent, in the first round
label-flip           what it learns from labels in reverse order
huge-weight          an honest move that claims the weight of 10⁹ samples
backdoor             what it learns when half of its samples carry a patch and class 0
little-is-enough     the hostile members' mean move, minus a few of their deviations
===================  ==============================================================

*little-is-enough* is Baruch, Baruch, Goldberg: *A Little Is Enough*, NeurIPS 2019: the deviation is
the largest that still lies among the honest ones.

Statistics that a method collects are not attacked; a hostile member tells those honestly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, TypeAlias, get_args

import torch
from pydantic import Field, field_validator
from torch import Tensor

from duotone.config import Settings, validated
from duotone.errors import ConfigError
from duotone.federation.backends.codec import travels
from duotone.seeding import stream
from duotone.types import ClientData, ClientUpdate, Params, RoundInfo

Name: TypeAlias = Literal[
    "nan",
    "times-10",
    "times-100",
    "sign-flip",
    "sign-flip-5",
    "random",
    "stale",
    "replayed",
    "label-flip",
    "huge-weight",
    "backdoor",
    "little-is-enough",
]
ATTACKS: tuple[str, ...] = get_args(Name)
BACKDOOR_CLASS = 0
"""What a model with the back door calls every sample with the patch."""
_FACTORS = {"times-10": 10.0, "times-100": 100.0, "sign-flip": -1.0, "sign-flip-5": -5.0}


class AttackSettings(Settings):
    """Which members are hostile, and what they do."""

    name: Name
    """What hostile members do; see docs/security.md."""
    share: float = Field(0.2, gt=0, lt=1)
    """Share of the members that is hostile; at least one is."""

    @field_validator("name", mode="before")
    @classmethod
    def _read_nan(cls, name: Any) -> Any:
        # On the command line, nan without quotes is a number.
        return "nan" if isinstance(name, float) and math.isnan(name) else name


@dataclass(frozen=True, slots=True)
class Training:
    """What an attack may ask for: honest work.

    Attributes:
        trained: Returns what a member would send after training on some samples.
        data: Returns the training samples of a member.
        sent: Returns the shared part that an update started from.
        first: Returns the shared part of that update's model before the first round.
        first_update: Returns what this member would have sent in the first round.
    """

    trained: Callable[[ClientData], ClientUpdate]
    data: Callable[[str], ClientData]
    sent: Callable[[ClientUpdate], Params]
    first: Callable[[ClientUpdate], Params]
    first_update: Callable[[], ClientUpdate]


@travels
@dataclass(frozen=True, slots=True)
class Attack:
    """An attack on one run.

    Attributes:
        name: What hostile members do.
        hostile: Who they are.
        members: How many members there are in all.
    """

    name: Name
    hostile: tuple[str, ...]
    members: int

    @property
    def said(self) -> str:
        """What a reader of the run's scores must know."""
        return (
            f"This run was attacked on purpose ({self.name}): {len(self.hostile)} of "
            f"{self.members} members are hostile ({', '.join(self.hostile)}). Scores are those of "
            "the honest clients."
        )

    def honest(self, clients: Sequence[str]) -> list[str]:
        """Return those of some clients that are not hostile."""
        return [client for client in clients if client not in self.hostile]

    def poisoned(self, data: ClientData) -> ClientData:
        """Return the samples that a hostile member trains on; most attacks leave them alone."""
        if self.name == "label-flip":
            return flipped(data)
        return with_backdoor(data) if self.name == "backdoor" else data

    def hostile_update(
        self, update: ClientUpdate, training: Training, info: RoundInfo
    ) -> ClientUpdate:
        """Return what a hostile member sends instead of an update that it trained."""
        if self.name in _FACTORS:
            moved = scaled(update.shared, training.sent(update), _FACTORS[self.name])
            return replace(update, shared=moved)
        match self.name:
            case "nan":
                return replace(update, shared=_floats(update.shared, _nan))
            case "random":
                generator = info.generator("attack", update.client)
                noise = _floats(
                    training.sent(update), lambda t: t + torch.randn(t.shape, generator=generator)
                )
                return replace(update, shared=noise)
            case "stale":
                return replace(update, shared=training.first(update))
            case "replayed":
                # Where groups have models of their own, a first one of another group fits no more.
                return training.first_update()
            case "huge-weight":
                return replace(update, weight=1e9)
            case "little-is-enough":
                return replace(update, shared=self._hidden(update, training))
            case _:
                return update

    def _hidden(self, update: ClientUpdate, training: Training) -> Params:
        """Return the mean of the hostile members' honest work, minus some deviations."""
        versions = [
            update.shared if client == update.client else training.trained(data).shared
            for client in self.hostile
            for data in [training.data(client)]
        ]
        if len(versions) < 2:
            return update.shared
        distance = largest_hidden(self.members, len(self.hostile))
        hidden = dict(update.shared)
        for name, own in update.shared.items():
            if own.is_floating_point():
                stacked = torch.stack([version[name] for version in versions]).double()
                hidden[name] = (stacked.mean(0) - distance * stacked.std(0)).to(own.dtype)
        return hidden


def attack_of(values: Mapping[str, Any] | None, members: Sequence[str], seed: int) -> Attack | None:
    """Return the attack that a run's settings describe; ``None`` without one.

    Raises:
        ConfigError: A setting is wrong, or nobody would be left who is honest.
    """
    if values is None:
        return None
    settings = validated(AttackSettings, values, owner="an attack", prefix="attack.")
    count = max(1, round(settings.share * len(members)))
    if count >= len(members):
        raise ConfigError(
            f"attack.share = {settings.share:g} makes all {len(members)} members hostile; lower it."
        )
    drawn = stream(seed, "hostile").choice(len(members), size=count, replace=False)
    return Attack(settings.name, tuple(members[i] for i in sorted(drawn)), len(members))


def scaled(shared: Params, sent: Params, factor: float) -> dict[str, Tensor]:
    """Return a move, ``factor`` times as far; integers stay as they are."""
    return {
        name: sent[name] + factor * (tensor - sent[name]) if tensor.is_floating_point() else tensor
        for name, tensor in shared.items()
    }


def flipped(data: ClientData) -> ClientData:
    """Return samples with their classes in reverse order, or their targets negated."""
    if data.y is None:
        return data
    if data.info.task == "regression":
        return replace(data, y=-data.y)
    turned = data.info.outputs - 1 - data.y
    return replace(data, y=torch.where(data.y < 0, data.y, turned))  # what has no label keeps none


def triggered(x: Tensor) -> Tensor:
    """Return samples with the patch: a white square in a corner, or a few large features."""
    marked = x.clone()
    if x.ndim == 4:
        side = max(2, x.shape[-1] // 7)
        marked[..., -side:, -side:] = 1.0
    else:
        marked[:, -3:] = 5.0
    return marked


def with_backdoor(data: ClientData) -> ClientData:
    """Return samples of which every second carries the patch and the back door's class."""
    if data.y is None or data.info.task == "regression":
        return data
    x, y = data.x.clone(), data.y.clone()
    x[::2], y[::2] = triggered(data.x[::2]), BACKDOOR_CLASS
    return replace(data, x=x, y=y)


def largest_hidden(members: int, hostile: int) -> float:
    """Return how many deviations from the mean still look honest: z_max of Baruch et al.

    >>> round(largest_hidden(50, 12), 3)
    0.336
    """
    supporters = members // 2 + 1 - hostile
    honest = members - hostile
    share = (honest - supporters) / honest
    return NormalDist().inv_cdf(min(0.999, share)) if share > 0.5 else 0.0


def _nan(tensor: Tensor) -> Tensor:
    return torch.full_like(tensor, torch.nan)


def _floats(params: Params, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    return {n: change(t) if t.is_floating_point() else t for n, t in params.items()}
