"""Schemes that decide which labels, and how many, a client holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from duotone.data.dataset import Dataset
from duotone.errors import PartitionError
from duotone.partition.partition import Rows
from duotone.partition.scheme import MOST, HeldOutSettings, Scheme, Share
from duotone.partition.shares import (
    count_members,
    deal_classes,
    dealt_in_turn,
    nobody,
    numbered,
    require_classes,
    require_rows,
    shares_of,
    whole_numbers,
)


class Iid(Scheme[HeldOutSettings]):
    """Deal the samples out blindly: all clients have the same distribution and the same size."""

    name = "iid"
    Config = HeldOutSettings

    def assign(
        self, dataset: Dataset, config: HeldOutSettings, rng: np.random.Generator
    ) -> Sequence[Share]:
        """Give each client the same number of random rows."""
        who = numbered(config)
        require_rows(dataset, config)
        return dealt_in_turn(dataset, who, rng)


class DirichletSettings(HeldOutSettings):
    """Settings of the ``dirichlet`` scheme."""

    alpha: float = Field(default=0.3, gt=0, allow_inf_nan=False)
    """Concentration: 100 is nearly iid, 0.1 gives most clients only a few classes."""


class Dirichlet(Scheme[DirichletSettings]):
    """Split each class over the clients in proportions drawn from a Dirichlet distribution.

    Mixes and sizes differ from client to client.
    """

    name = "dirichlet"
    Config = DirichletSettings
    redraws = True
    advice = "lower partition.clients, raise partition.alpha"

    def assign(
        self, dataset: Dataset, config: DirichletSettings, rng: np.random.Generator
    ) -> Sequence[Share]:
        """Draw one vector of proportions per class and deal the class out by it."""
        require_classes(dataset, self.name)
        who = numbered(config)
        require_rows(dataset, config)
        proportions = rng.dirichlet(np.full(config.clients, config.alpha), dataset.classes).T
        return shares_of(dataset, deal_classes(dataset, proportions, rng), who)


class PathologicalSettings(HeldOutSettings):
    """Settings of the ``pathological`` scheme."""

    classes_per_client: int = Field(default=2, ge=1, le=MOST)
    """How many classes each client holds."""


class Pathological(Scheme[PathologicalSettings]):
    """Give each client a few classes only, and split each class evenly among its holders.

    All classes have the same number of holders, give or take one. Where the clients together hold
    fewer classes than there are, the other classes are not used.
    """

    name = "pathological"
    Config = PathologicalSettings
    redraws = True
    advice = "lower partition.clients"

    def assign(
        self, dataset: Dataset, config: PathologicalSettings, rng: np.random.Generator
    ) -> Sequence[Share]:
        """Let the clients choose classes in turn, then split each class among its holders."""
        require_classes(dataset, self.name)
        sizes = np.bincount(dataset.y[dataset.train_rows], minlength=dataset.classes)
        classes = np.flatnonzero(sizes)
        k = config.classes_per_client
        if k > len(classes):
            raise PartitionError(
                f"partition.classes_per_client = {k}, but {dataset.name!r} has training samples "
                f"of {len(classes)} classes only; lower it to {len(classes)} or less."
            )
        members = count_members(config)
        if config.newcomers and members * k < len(classes):
            raise PartitionError(
                f"{members} members with {k} classes each cannot hold all {len(classes)} classes, "
                "so newcomers would hold classes that nobody learns; raise "
                "partition.classes_per_client or partition.clients, or set partition.newcomers = 0."
            )
        require_rows(dataset, config)
        holds = np.zeros((config.clients, dataset.classes))
        holds[:, classes] = choose_classes(config.clients, len(classes), k, rng)
        holders = holds.sum(axis=0)
        scarce = np.flatnonzero(holders > sizes)
        if len(scarce):
            label = int(scarce[0])
            raise PartitionError(
                f"Class {label} of {dataset.name!r} has {sizes[label]} training samples for "
                f"{holders[label]:.0f} clients that are to hold it; lower partition.clients or "
                "partition.classes_per_client."
            )
        proportions = holds / np.maximum(holders, 1)
        groups = ["+".join(map(str, np.flatnonzero(row))) for row in holds]
        owner = deal_classes(dataset, proportions, rng)
        return shares_of(dataset, owner, numbered(config, groups))


def choose_classes(
    clients: int, classes: int, per_client: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Let each client in turn choose the classes with the fewest holders, ties at random.

    The numbers of holders never differ by more than one, so the first clients (the members) hold
    every class as soon as they can.

    Returns:
        ``(clients, classes)``: who holds what.
    """
    holds = np.zeros((clients, classes), bool)
    holders = np.zeros(classes, np.int64)
    for row, tie_break in zip(holds, rng.random((clients, classes)), strict=True):
        row[np.argsort(holders + tie_break)[:per_client]] = True
        holders += row
    return holds


class QuantitySettings(HeldOutSettings):
    """Settings of the ``quantity`` scheme."""

    alpha: float = Field(default=0.5, gt=0, allow_inf_nan=False)
    """Concentration: 100 gives nearly equal sizes, 0.1 a few large clients and many small ones."""


class Quantity(Scheme[QuantitySettings]):
    """Give all clients the same mix of labels, but very different numbers of samples.

    Sizes follow a Dirichlet distribution above a floor: what the minimum sizes leave over is dealt
    out in the drawn proportions.
    """

    name = "quantity"
    Config = QuantitySettings

    def assign(
        self, dataset: Dataset, config: QuantitySettings, rng: np.random.Generator
    ) -> Sequence[Share]:
        """Draw one vector of sizes, the same for training and test samples."""
        who = numbered(config)
        require_rows(dataset, config)
        splits: list[tuple[Rows, int]] = [
            (dataset.train_rows, config.min_train),
            (dataset.test_rows, config.min_test),
        ]
        # The scarcer split sets the floor, so that one vector of proportions serves both.
        floor = max(least / len(rows) for rows, least in splits if least)
        drawn = rng.dirichlet(np.full(config.clients, config.alpha))
        proportions = floor + (1 - config.clients * floor) * drawn
        owner = nobody(dataset)
        for rows, least in splits:
            extra = np.maximum(proportions * len(rows) - least, 0)
            left = len(rows) - config.clients * least
            counts = least + (whole_numbers(extra, left, rng) if left else 0)
            owner[rng.permutation(rows)] = np.repeat(np.arange(config.clients), counts)
        return shares_of(dataset, owner, who)
