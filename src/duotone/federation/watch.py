"""Who is unlike the rest: the moves of a round compared, and members that are refused too often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from duotone.federation.aggregate import as_vector
from duotone.types import ClientUpdate, Params

FAR = 3.0
"""A move this many times as long as the median one is far from the rest."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a client's move compares with the others' of its round.

    Attributes:
        length: Its length over the median length.
        agreement: The cosine between it and the sum of the others' directions.
    """

    length: float
    agreement: float

    @property
    def is_far(self) -> bool:
        """Whether it is unlike the rest: far longer, or pointing against the others."""
        return self.length > FAR or self.agreement < 0


def standings(
    updates: Sequence[ClientUpdate], sent: Callable[[ClientUpdate], Params]
) -> dict[str, Standing]:
    """Compare the moves of one round; a move alone has nothing to be compared with.

    Args:
        updates: The updates.
        sent: Returns the shared part that an update started from.
    """
    names = [n for u in updates[:1] for n, tensor in u.shared.items() if tensor.is_floating_point()]
    if len(updates) < 2 or not names:
        return {}
    moves = [as_vector(update.shared, names) - as_vector(sent(update), names) for update in updates]
    lengths = torch.stack([move.norm() for move in moves])
    middle = float(lengths.median()) or 1.0
    directions = [functional.normalize(move, dim=0) for move in moves]
    whole = torch.stack(directions).sum(dim=0)
    return {
        update.client: Standing(float(length) / middle, _cosine(own, whole - own))
        for update, length, own in zip(updates, lengths, directions, strict=True)
    }


def _cosine(a: Tensor, b: Tensor) -> float:
    return float(functional.cosine_similarity(a, b, dim=0))


@dataclass(slots=True)
class Refusals:
    """How often members were refused, and who is therefore not asked any more.

    Attributes:
        most: Refusals after which a member is set aside; ``None`` for never.
        counts: Refusals so far.
    """

    most: int | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, clients: Iterable[str]) -> None:
        """Count the refusals of a round."""
        self.counts.update(list(clients))  # a mapping would be added up by its values

    def aside(self) -> frozenset[str]:
        """Return who is not asked any more."""
        if self.most is None:
            return frozenset()
        return frozenset(client for client, count in self.counts.items() if count >= self.most)
