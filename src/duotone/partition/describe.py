"""How different the clients of a partition are, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import entr

from duotone.data.dataset import Dataset
from duotone.partition.partition import SPLITS, Partition, Rows


@dataclass(frozen=True, slots=True)
class GroupSize:
    """One group of a partition: its clients and their training samples, validation included."""

    group: str
    members: int
    newcomers: int
    samples: int


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition in numbers; training samples are counted with the validation samples.

    Attributes:
        members: Number of clients that train.
        newcomers: Number of clients that do not.
        smallest: Training samples of the smallest client.
        median: Training samples of the client in the middle.
        largest: Training samples of the largest client.
        unused: Samples of the data set that nobody holds.
        label_distance: Mean total variation distance between the class shares of a client and
            those of all clients together: 0 if all are alike, towards 1 the more they differ.
            ``None`` for regression.
        effective_classes: Mean over clients of exp(entropy of the class shares): 1 if every client
            has a single class, the number of classes if all have them evenly. ``None`` for
            regression.
        groups: The groups in order of their first client.
        table: Columns ``client, group, kind, class, count``, where kind is the role: one row for
            each class a client holds training samples of. For regression there is one row per
            client, whose class is null.
        fingerprint: Equal partitions, equal fingerprint.
    """

    members: int
    newcomers: int
    smallest: int
    median: float
    largest: int
    unused: int
    label_distance: float | None
    effective_classes: float | None
    groups: tuple[GroupSize, ...]
    table: pl.DataFrame
    fingerprint: str


def describe(dataset: Dataset, partition: Partition) -> PartitionDescription:
    """Measure how different the clients of a partition are."""
    sizes = training_sizes(partition)
    counts = class_counts(partition, dataset.y, dataset.classes) if dataset.classes else None
    return PartitionDescription(
        members=len(partition.members),
        newcomers=len(partition.newcomers),
        smallest=int(sizes.min()),
        median=float(np.median(sizes)),
        largest=int(sizes.max()),
        unused=len(dataset.y) - sum(len(rows) for rows in partition.rows.values()),
        label_distance=None if counts is None else _label_distance(counts),
        effective_classes=None if counts is None else _effective_classes(counts),
        groups=_group_sizes(partition, sizes),
        table=_table(partition, sizes, counts),
        fingerprint=partition.fingerprint(),
    )


def training_sizes(partition: Partition) -> Rows:
    """Return the number of training samples of each client, validation included."""
    return np.diff(partition.offsets["train"]) + np.diff(partition.offsets["val"])


def _held(partition: Partition) -> list[tuple[Rows, Rows]]:
    """Return all rows that clients train on, validation included, and where each one's begin."""
    deal = partition.deal
    if deal is not None and deal.max_train is None:  # in another order, which counts nothing
        return [(deal.train, deal.train_ends)]
    return [(partition.rows[split], partition.offsets[split]) for split in SPLITS[:2]]


def class_counts(partition: Partition, labels: Rows, classes: int) -> Rows:
    """Return ``(clients, classes)``: training samples by label, validation included."""
    counts = np.zeros(len(partition) * classes, np.int64)
    for rows, ends in _held(partition):
        client = np.repeat(np.arange(len(partition)), np.diff(ends))
        cell = client * classes + labels[rows]
        counts += np.bincount(cell, minlength=len(counts))
    return counts.reshape(len(partition), classes)


def class_shares(counts: Rows) -> NDArray[np.float64]:
    """Return counts per client as shares that add up to one; all zero for a client with none."""
    shares: NDArray[np.float64] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return shares


def _label_distance(counts: Rows) -> float:
    pooled = counts.sum(axis=0) / counts.sum()
    return float(np.abs(class_shares(counts) - pooled).sum(axis=1).mean() / 2)


def _effective_classes(counts: Rows) -> float:
    return float(np.exp(entr(class_shares(counts)).sum(axis=1)).mean())


def _group_sizes(partition: Partition, sizes: Rows) -> tuple[GroupSize, ...]:
    found: dict[str, GroupSize] = {}
    for group, role, size in zip(partition.groups, partition.roles, sizes, strict=True):
        so_far = found.get(group, GroupSize(group, 0, 0, 0))
        found[group] = GroupSize(
            group,
            so_far.members + (role == "member"),
            so_far.newcomers + (role == "newcomer"),
            so_far.samples + int(size),
        )
    return tuple(found.values())


def _table(partition: Partition, sizes: Rows, counts: Rows | None) -> pl.DataFrame:
    if counts is None:
        client, count = np.arange(len(partition)), sizes
        label = pl.Series([None] * len(partition), dtype=pl.Int64)
    else:
        client, held = np.nonzero(counts)
        count, label = counts[client, held], pl.Series(held)
    return pl.DataFrame(
        {
            "client": pl.Series(partition.clients, dtype=pl.String).gather(client),
            "group": pl.Series(partition.groups, dtype=pl.String).gather(client),
            "kind": pl.Series(partition.roles, dtype=pl.String).gather(client),
            "class": label,
            "count": count,
        }
    )
