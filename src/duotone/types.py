"""The types that cross the boundary between a client and the server.

The whole privacy model of duotone is visible here: a :class:`ClientState` never leaves its client,
a :class:`ClientUpdate` is everything that does, and a :class:`ServerState` is everything the server
knows. Nothing else moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from duotone.seeding import derive

if TYPE_CHECKING:  # looking at finished runs needs these words, and no torch
    import torch
    from torch import Tensor

Params: TypeAlias = "Mapping[str, Tensor]"
"""Flat, named, detached tensors: parameters and buffers alike."""

Role: TypeAlias = Literal["member", "newcomer"]
ROLES: tuple[Role, Role] = ("member", "newcomer")
Split: TypeAlias = Literal["train", "val", "test"]
NewcomerRule: TypeAlias = Literal["zero-shot", "label-free", "few-shot"]
Task: TypeAlias = Literal["classes", "regression"]
Unit: TypeAlias = Literal[
    "share",
    "R²",
    "cosine",
    "index",
    "nats",
    "count",
    "distance",
    "absolute error",
    "squared error",
    "number",
]
"""What a score counts in. A share is of 1 and shown in percent; an index has its own scale, whose
ends docs/metrics.md names; "number" is what nobody has said more about."""


def _float32() -> torch.dtype:
    import torch

    return torch.float32


@dataclass(frozen=True, slots=True)
class Form:
    """The declared form of a tensor that leaves a client.

    Attributes:
        shape: Its sizes.
        dtype: Its number type.
        values: What its values must be besides finite.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = field(default_factory=_float32)
    values: Literal["any", "nonnegative", "covariance"] = "any"

    @classmethod
    def of(cls, tensor: Tensor) -> Form:
        """Return the form of a tensor."""
        return cls(tuple(tensor.shape), tensor.dtype)


@dataclass(frozen=True, slots=True)
class DataInfo:
    """The form of the samples, known to everybody: what a network must fit.

    Attributes:
        shape: One sample as a network sees it: ``(channels, height, width)``, ``(features,)``, or
            for text ``(characters,)``.
        task: Whether labels are classes or real numbers.
        outputs: Number of classes; for regression the number of targets.
        alphabet: Of text, the characters in the order of their numbers, from 1; 0 stands for the
            time before a text begins and for a character that is not in it.
    """

    shape: tuple[int, ...]
    task: Task
    outputs: int
    alphabet: str = ""

    @property
    def is_image(self) -> bool:
        """Whether samples are images."""
        return len(self.shape) == 3

    @property
    def is_text(self) -> bool:
        """Whether samples are characters by number."""
        return bool(self.alphabet)

    def blank(self, samples: int) -> Tensor:
        """Return samples of nothing but zeros, to try a network on."""
        import torch

        return torch.zeros(samples, *self.shape, dtype=torch.int64 if self.is_text else None)


NO_LABEL = -1
"""The class of a sample whose label is not known."""


@dataclass(frozen=True, slots=True)
class ClientData:
    """One split of one client's samples, as tensors.

    Attributes:
        client: Whose samples these are.
        x: Images as float32 in [0, 1], channels first; feature vectors; or characters as int64.
        y: Labels, or ``None`` where a method must do without them. Single samples without a label
            have :data:`NO_LABEL`, or NaN for regression; only methods that say they use such
            samples are given any.
        info: The form of the samples.
    """

    client: str
    x: Tensor
    y: Tensor | None
    info: DataInfo

    def __len__(self) -> int:
        return len(self.x)

    @property
    def labels(self) -> Tensor:
        """The labels, where they must be there."""
        if self.y is None:
            raise ValueError(f"client {self.client!r} was given without labels")
        return self.y

    def without_labels(self) -> ClientData:
        """Return the same samples with their labels hidden."""
        return replace(self, y=None)

    def to(self, device: str) -> ClientData:
        """Return the samples on a device."""
        y = None if self.y is None else self.y.to(device)
        return replace(self, x=self.x.to(device), y=y)

    def first(self, count: int) -> ClientData:
        """Return the first ``count`` samples; clients' samples are in random order."""
        y = None if self.y is None else self.y[:count]
        return replace(self, x=self.x[:count], y=y)


@dataclass(frozen=True, slots=True)
class ServerState:
    """Everything the server knows after a round."""

    shared: Params
    extra: Params = field(default_factory=dict)

    def copied(self) -> ServerState:
        """Return a copy: what a client does to it does not reach the server."""
        return ServerState(_copied(self.shared), _copied(self.extra))


@dataclass(frozen=True, slots=True)
class ClientState:
    """Everything that never leaves a client: its local parameters, and what it remembers."""

    local: Params = field(default_factory=dict)
    extra: Params = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.local or self.extra)

    def copied(self) -> ClientState:
        """Return a copy, to be changed without changing this one."""
        return ClientState(_copied(self.local), _copied(self.extra))


@dataclass(frozen=True, slots=True)
class FarState(ClientState):
    """A state that stays with its client: known here only by the round in which it arose."""

    round: int = 0

    def __bool__(self) -> bool:
        return True

    def copied(self) -> ClientState:
        """Return the same: there is nothing here to be changed."""
        return self


def _copied(params: Params) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in params.items()}


@dataclass(frozen=True, slots=True)
class ClientUpdate:
    """Everything that leaves a client in a round.

    Attributes:
        client: Who sends it.
        shared: The client's version of the shared part.
        weight: Its say in the average, usually its number of training samples.
        extra: What a method sends besides: statistics, prototypes.
        metrics: Scalars about local training, for display only.
    """

    client: str
    shared: Params
    weight: float
    extra: Params = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Latents:
    """The representation of some samples in the two inks; a part may have no dimensions.

    Attributes:
        shared: What should say nothing about the client, ``(samples, shared dimensions)``.
        local: What should say what is special about the client, ``(samples, local dimensions)``.
        shared_std: Posterior standard deviations where the encoder is probabilistic.
        local_std: Likewise.
    """

    shared: Tensor
    local: Tensor
    shared_std: Tensor | None = None
    local_std: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Draws:
    """What a generator makes samples of: latents drawn from standard normal distributions.

    Attributes:
        content: What to draw, ``(samples, content dimensions)``; means the same to every client.
        style: How to draw it, ``(samples, style dimensions)``; means to each client its own.
    """

    content: Tensor
    style: Tensor


@dataclass(frozen=True, slots=True)
class RoundInfo:
    """Where in the run we are; the source of every random draw a method makes.

    Attributes:
        round: The current round, from 1; 0 is the time before the first.
        rounds: How many rounds the run has.
        seed: The seed of the run.
        data: The form of the samples.
        participation: Share of the members that is drawn in each round.
        asking: Which time in this round members are asked for statistics, from 1; 0 in training.
    """

    round: int
    rounds: int
    seed: int
    data: DataInfo
    participation: float = 1.0
    asking: int = 0

    def generator(self, *name: str | int) -> torch.Generator:
        """Return the torch generator of a stream that belongs to this round."""
        import torch

        generator = torch.Generator()
        generator.manual_seed(derive(self.seed, "round", self.round, *name))
        return generator
