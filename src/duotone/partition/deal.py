"""What was dealt out, before each client's rows are shuffled, cut and split.

A client's shuffle has a stream of its own, so it can wait until somebody asks for the client. In a
round a few hundred of a million are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from duotone.seeding import stream
from duotone.types import Split

Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Deal:
    """The rows that a scheme gave each client, one client after the other.

    Attributes:
        train: Rows to train on, validation rows among them.
        test: Rows to test on.
        train_ends: Where each client's rows to train on begin; one entry more than clients.
        test_ends: Likewise.
        seed: The seed of the run.
        validation: Share of the training samples that is kept as the validation set.
        max_train: At most this many training samples.
        max_test: At most this many test samples.
    """

    train: Rows
    test: Rows
    train_ends: Rows
    test_ends: Rows
    seed: int
    validation: float
    max_train: int | None
    max_test: int | None

    def of(self, position: int, client: str) -> dict[Split, Rows]:
        """Shuffle a client's rows, apply the caps and set the validation rows aside."""
        rng = stream(self.seed, "partition", "rows", client)
        train: Rows = rng.permutation(_part(self.train, self.train_ends, position))
        test: Rows = rng.permutation(_part(self.test, self.test_ends, position))
        train, test = train[: self.max_train], test[: self.max_test]
        aside = int(self._held_back(np.array([len(train)]))[0])
        return {"train": train[aside:], "val": train[:aside], "test": test}

    def shuffled(self, clients: Sequence[str]) -> dict[Split, Rows]:
        """Return the rows of all clients, one after the other."""
        found = [self.of(position, client) for position, client in enumerate(clients)]
        splits: tuple[Split, ...] = ("train", "val", "test")
        return {split: np.concatenate([rows[split] for rows in found]) for split in splits}

    def offsets(self) -> dict[Split, Rows]:
        """Return where each client's rows of a split begin, once they are shuffled and cut."""
        train, test = np.diff(self.train_ends), np.diff(self.test_ends)
        train = train if self.max_train is None else np.minimum(train, self.max_train)
        test = test if self.max_test is None else np.minimum(test, self.max_test)
        aside = self._held_back(train)
        sizes: dict[Split, Rows] = {"train": train - aside, "val": aside, "test": test}
        return {split: np.cumsum(np.append(0, each)) for split, each in sizes.items()}

    def _held_back(self, sizes: Rows) -> Rows:
        """Return how many of so many training samples are kept for validation."""
        wanted = np.rint(self.validation * sizes).astype(np.int64)
        held = np.minimum(np.maximum(1, wanted), sizes - 1)
        return np.where((self.validation > 0) & (sizes > 1), held, 0)


def _part(rows: Rows, ends: Rows, position: int) -> Rows:
    return rows[ends[position] : ends[position + 1]]
