"""What a picture of a partition shows: its lines, and examples of the samples."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array, Dataset
from duotone.partition.describe import class_counts, class_shares, training_sizes
from duotone.partition.partition import Partition, Rows
from duotone.types import ROLES, Role

MOST_LINES = 60
"""More clients than this are drawn by group, or only some of them are drawn."""

EXAMPLE_CLIENTS = 10
EXAMPLES_EACH = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the picture: a client, or all clients of one group and role."""

    name: str
    group: str
    role: Role
    shares: NDArray[np.float64]
    sizes: Rows


@dataclass(frozen=True, slots=True)
class Example:
    """A few images of one client, side by side: ``(height, width, 3)``."""

    name: str
    role: Role
    images: Array


def lines_of(dataset: Dataset, partition: Partition) -> tuple[list[Line], str]:
    """Return the lines of the picture, members first, and a remark on them."""
    counts = class_counts(partition, *_columns(dataset))
    teams = _teams(partition)
    if len(partition) <= MOST_LINES:
        note, stand_for = "one line per client", [[i] for team in teams for i in team]
    elif _is_grouped(partition) and len(teams) <= MOST_LINES:
        note = "one line per group × number of clients: mean mix; median, least and most samples"
        stand_for = teams
    else:
        stand_for = [[i] for i in _thinned(list(chain.from_iterable(teams)), MOST_LINES)]
        note = f"one line per client, {MOST_LINES} of {len(partition)} clients"
    sizes = training_sizes(partition)
    lines = []
    for team in stand_for:
        group, role = partition.groups[team[0]], partition.roles[team[0]]
        name = partition.clients[team[0]] if len(team) == 1 else f"{group} × {len(team)}"
        shares = class_shares(counts[team]).mean(axis=0)
        lines.append(Line(name, group, role, shares, sizes[team]))
    return lines, note


def _columns(dataset: Dataset) -> tuple[Rows, int]:
    """Return a column for each row of the data, and the number of columns."""
    if dataset.classes:
        return dataset.y, dataset.classes
    borders = np.quantile(dataset.y, np.linspace(0.1, 0.9, 9))
    return np.searchsorted(borders, dataset.y), 10


def examples_of(dataset: Dataset, partition: Partition) -> list[Example]:
    """Return images of one client per group and role, or, without groups, of any clients.

    Data that is not images has no examples.
    """
    if not dataset.is_image:
        return []
    teams = _teams(partition)
    grouped = _is_grouped(partition)
    candidates = [team[0] for team in teams] if grouped else list(chain.from_iterable(teams))
    examples = []
    for i in _thinned(candidates, EXAMPLE_CLIENTS):
        holding = partition[partition.clients[i]]
        rows = holding.train[:EXAMPLES_EACH]
        rows = rows[np.argsort(dataset.y[rows], kind="stable")]
        images = dataset.pictures(rows).reshape(len(rows), *dataset.x.shape[1:3], -1)
        padding = ((0, EXAMPLES_EACH - len(rows)), (1, 1), (1, 1), (0, 0))
        images = np.pad(images, padding, constant_values=255)
        images = np.broadcast_to(images, (*images.shape[:3], 3))  # grey in all three channels
        says_it = holding.client.startswith(holding.group) or not grouped
        name = holding.client if says_it else f"{holding.group}: {holding.client}"
        examples.append(Example(name, holding.role, np.hstack(list(images))))
    return examples


def _is_grouped(partition: Partition) -> bool:
    return len(partition.groups.distinct()) > 1


def _teams(partition: Partition) -> list[list[int]]:
    """Return the positions of the clients by role and group: members first."""
    teams: dict[tuple[Role, str], list[int]] = {}
    for i, key in enumerate(zip(partition.roles, partition.groups, strict=True)):
        teams.setdefault(key, []).append(i)
    return [teams[key] for key in sorted(teams, key=lambda key: ROLES.index(key[0]))]


def _thinned(positions: list[int], most: int) -> list[int]:
    """Return at most ``most`` of the positions, evenly chosen, the first and the last included."""
    chosen = np.linspace(0, len(positions) - 1, min(most, len(positions)))
    return [positions[i] for i in chosen.astype(int)]
