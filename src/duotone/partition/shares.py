"""Dealing out rows: the few operations that all schemes are made of.

A scheme decides on an *owner* for every row of the data set: the position of a client, or
:data:`NOBODY`. One owner per row means that no sample can be given away twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Dataset
from duotone.errors import PartitionError
from duotone.partition.columns import Names, Numbered, Words, names_of
from duotone.partition.partition import Rows
from duotone.partition.scheme import CountedSettings, HeldOutSettings, Shares
from duotone.types import ROLES, Role

NOBODY = -1


class Who(NamedTuple):
    """A client without its rows."""

    client: str
    group: str
    role: Role


class Everybody(NamedTuple):
    """All clients without their rows."""

    clients: Names
    groups: Words[str]
    roles: Words[Role]


def nobody(dataset: Dataset) -> Rows:
    """Return an owner for every row of ``dataset``: nobody, yet."""
    return np.full(len(dataset), NOBODY, np.int64)


def shares_of(dataset: Dataset, owner: Rows, who: Everybody | Sequence[Who]) -> Shares:
    """Return the share of each client, given the owner of each row."""
    if not isinstance(who, Everybody):
        who = Everybody(
            names_of([one.client for one in who]),
            Words.of([one.group for one in who]),
            Words.of([one.role for one in who]),
        )
    clients = len(who.clients)

    def held(rows: Rows) -> tuple[Rows, Rows]:
        owners = owner[rows]
        if (owners == NOBODY).any():
            rows, owners = rows[owners != NOBODY], owners[owners != NOBODY]
        ends = np.cumsum(np.append(0, np.bincount(owners, minlength=clients)))
        # Owner and row in one number: to sort numbers is several times as fast as to sort places.
        owners <<= _ROW_BITS
        owners |= rows
        owners.sort()
        owners &= (1 << _ROW_BITS) - 1
        return owners, ends

    (train, train_ends), (test, test_ends) = held(dataset.train_rows), held(dataset.test_rows)
    return Shares(*who, train, test, train_ends, test_ends)


_ROW_BITS = 40  # and 23 for the owner: enough for every number of clients and rows


def dealt_in_turn(dataset: Dataset, who: Everybody, rng: np.random.Generator) -> Shares:
    """Return the share of each client when all rows are given to all clients in turn.

    What :func:`deal_evenly` and :func:`shares_of` return together, without a sort of all rows.
    """
    clients = len(who.clients)

    def dealt(rows: Rows) -> tuple[Rows, Rows]:
        turns, rest = divmod(len(rows), clients)
        ends = np.cumsum(np.append(0, turns + (np.arange(clients) < rest)))
        after_all = len(dataset)  # stands in for a row in the last turn, and sorts behind them
        table = np.full((turns + 1, clients), after_all)
        table.ravel()[: len(rows)] = rng.permutation(rows)
        by_client = np.sort(table.T.copy(), axis=1).ravel()
        return by_client[by_client < after_all], ends

    (train, train_ends), (test, test_ends) = dealt(dataset.train_rows), dealt(dataset.test_rows)
    return Shares(*who, train, test, train_ends, test_ends)


def numbered(config: HeldOutSettings, groups: Sequence[str] | None = None) -> Everybody:
    """Return clients called "0", "1", …, the last of which are newcomers.

    Without ``groups`` all clients are of the group "all": nothing is known to set them apart.

    Raises:
        PartitionError: Not a single member would be left.
    """
    is_newcomer = np.arange(config.clients) >= count_members(config)
    alike = Words(np.zeros(config.clients, np.int64), ["all"])
    return Everybody(
        Numbered(config.clients),
        alike if groups is None else Words.of(groups),
        Words(is_newcomer.astype(np.int64), ROLES),
    )


def count_members(config: HeldOutSettings) -> int:
    """Return how many of the clients train.

    Raises:
        PartitionError: Not a single one.
    """
    if config.newcomers >= config.clients:
        raise PartitionError(
            f"partition.newcomers = {config.newcomers} of partition.clients = {config.clients} "
            f"leaves no client that trains; lower partition.newcomers to at most "
            f"{config.clients - 1}."
        )
    return config.clients - config.newcomers


def require_rows(dataset: Dataset, config: CountedSettings) -> None:
    """Check that there are samples enough to give every client its minimum.

    Raises:
        PartitionError: There are not.
    """
    for split, rows, least in (
        ("train", dataset.train_rows, config.min_train),
        ("test", dataset.test_rows, config.min_test),
    ):
        needed = config.clients * least
        if needed <= len(rows):
            continue
        changes = []
        if len(rows) // least > 0:
            changes.append(f"lower partition.clients to {len(rows) // least} or less")
        if split == "test" or len(rows) // config.clients > 0:
            changes.append(f"set partition.min_{split} = {len(rows) // config.clients}")
        raise PartitionError(
            f"{config.clients} clients with at least {least} {split} samples each need {needed} "
            f"of them, but {dataset.name!r} has {len(rows)}; {' or '.join(changes)}."
        )


def require_classes(dataset: Dataset, scheme: str) -> None:
    """Check that the labels are classes.

    Raises:
        PartitionError: They are regression targets.
    """
    if not dataset.classes:
        raise PartitionError(
            f"The partition {scheme!r} deals out classes, but the labels of {dataset.name!r} are "
            "real numbers; use iid, quantity, domains, attribute or natural."
        )


def whole_numbers(
    proportions: NDArray[np.float64], total: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Split ``total`` in the given proportions into whole numbers that add up to it.

    Each number is less than one away from its exact value, and equal to it on average: all borders
    between neighbours are shifted by the same random fraction before they are rounded down.
    """
    borders = np.cumsum(proportions)
    borders /= borders[-1]  # exactly 1 at the end, also after trailing zeros
    borders = np.minimum(np.floor(borders * total + rng.random()), total)
    return np.diff(borders, prepend=0).astype(np.int64)


def deal_classes(
    dataset: Dataset, proportions: NDArray[np.float64], rng: np.random.Generator
) -> Rows:
    """Deal out each class in its own proportions, the same for training and test samples.

    Args:
        dataset: What to deal out.
        proportions: ``(clients, classes)``: each column says how a class is split. A class whose
            column is all zero goes to nobody.
        rng: Decides who gets which samples of a class.

    Returns:
        The owner of each row.
    """
    owner = nobody(dataset)
    clients = np.arange(len(proportions))
    for rows in (dataset.train_rows, dataset.test_rows):
        for label, rows_of_class in enumerate(split_classes(dataset, rows, rng)):
            if proportions[:, label].any():
                counts = whole_numbers(proportions[:, label], len(rows_of_class), rng)
                owner[rows_of_class] = np.repeat(clients, counts)
    return owner


def split_classes(dataset: Dataset, rows: Rows, rng: np.random.Generator) -> list[Rows]:
    """Return ``rows`` class by class, in random order within a class."""
    rows = rng.permutation(rows)
    labels = dataset.y[rows]
    ends = np.cumsum(np.bincount(labels, minlength=dataset.classes))
    return np.split(rows[np.argsort(labels, kind="stable")], ends[:-1])


def deal_evenly(owner: Rows, rows: Rows, clients: Rows, rng: np.random.Generator) -> None:
    """Give ``rows``, in random order, to ``clients`` in turn; their sizes differ by at most one."""
    owner[rng.permutation(rows)] = np.resize(clients, len(rows))
