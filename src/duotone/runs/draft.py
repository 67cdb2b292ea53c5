"""The first half of a plan: who the clients are, from data, partition and style."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np

from duotone.config import NAME_OF_TABLE, RunConfig, sifted
from duotone.data import (
    apply_style,
    dataset_from_object,
    kinds_worn_by,
    load_dataset,
    style_kinds,
    table_settings,
)
from duotone.data.dataset import Dataset
from duotone.errors import ConfigError, Problems
from duotone.partition import (
    Partition,
    PartitionSettings,
    Population,
    build_partition,
    resolve_settings,
)

Data: TypeAlias = Any
"""What :func:`duotone.data.objects.dataset_from_object` takes: arrays, frames, data sets."""
DEFAULT_SCHEME = "groups"
OBJECT = "object:"
"""What stands before the name of something made in Python that no file can give again."""


def plan_population(values: Mapping[str, Any], problems: Problems | None = None) -> Population:
    """Build just the clients of a configuration: data, partition and style.

    Raises:
        ConfigError: Something is wrong; the message has all problems.
        DataError: The data cannot be read, and nothing else is wrong.
    """
    problems = problems or Problems()
    population = Draft(with_tables(values), None, problems).population(problems)
    problems.report()
    assert population is not None
    return population


class Draft:
    """The part of a configuration that says who the clients are, as far as it is right.

    Args:
        values: The configuration; the name of the partition is taken out of its table.
        data: A data set made in Python, instead of the one that is named.
        problems: Told what is wrong.
    """

    def __init__(self, values: dict[str, Any], data: Data | None, problems: Problems) -> None:
        top = {key: value for key, value in values.items() if key not in NAME_OF_TABLE}
        base, wrong = sifted(RunConfig, top, owner="a run")
        problems.add(wrong.values())
        assert base is not None  # nothing in it must be given
        self.base = base
        names_clients = bool(base.table and "client" in base.table)
        default = "natural" if names_clients else DEFAULT_SCHEME
        self.scheme = str(values["partition"].pop("scheme", default))
        self.holding: PartitionSettings | None = problems.checked(
            lambda: resolve_settings(self.scheme, values["partition"])
        )
        self.looks: tuple[str, ...] | None = problems.checked(lambda: style_kinds(base.style))
        self.dataset: Any = None
        if data is not None:
            self.dataset = problems.checked(
                lambda: dataset_from_object(data, table_settings(base.table))
            )
        elif "data" not in wrong:
            self.dataset = problems.checked(lambda: _named_dataset(base.data, base.table))

    def population(self, problems: Problems) -> Population | None:
        """Deal the samples out and dress the clients; ``None`` if something is wrong."""
        base, holding, dataset = self.base, self.holding, self.dataset
        if dataset is None or holding is None:
            return None
        partition: Partition | None = problems.checked(
            lambda: build_partition(dataset, self.scheme, holding, seed=base.seed)
        )
        if partition is None:
            return None
        problems.checked(lambda: _check_sampled(base.sampled, len(partition.members)))
        drawn = base.sampled or min(10, len(partition.members))
        problems.checked(lambda: _check_quorum(base.quorum, drawn))
        if self.looks is None:
            return None
        dressed: Population | None = problems.checked(
            lambda: _population(dataset, partition, base.style, base.seed)
        )
        return dressed


def with_tables(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which ``method`` and ``partition`` are tables, where names were given."""
    result = dict(values)
    for key, name in NAME_OF_TABLE.items():
        value = result.get(key, {})
        result[key] = dict(value) if isinstance(value, Mapping) else {name: value}
    return result


def check_not_object(what: str, name: object) -> None:
    """Refuse a name that stands for something made in Python.

    Raises:
        ConfigError: It does.
    """
    if isinstance(name, str) and name.startswith(OBJECT):
        raise ConfigError(
            f"{what} = {name!r} was made in Python, which a file cannot do again; give it: "
            f"duotone.run(…, {what}=…)"
        )


def _named_dataset(name: str, table: Mapping[str, Any] | None) -> Dataset:
    check_not_object("data", name)
    return load_dataset(name, table=table)


def _check_quorum(quorum: int, drawn: int) -> None:
    if quorum > drawn:
        raise ConfigError(f"quorum = {quorum} is wrong: only {drawn} members are drawn per round.")


def _check_sampled(sampled: int | None, members: int) -> None:
    if sampled is not None and sampled > members:
        raise ConfigError(
            f"{sampled} clients per round were asked for, but there are only {members} members; "
            "lower --sampled."
        )


def _population(dataset: Dataset, partition: Partition, style: str, seed: int) -> Population:
    """Dress the clients: the style of a client is fixed by its place among those of its role."""
    if style == "none":
        return Population(dataset, partition)
    kinds = style_kinds(style)
    worn = np.full(len(dataset), -1, np.int64)
    groups: list[str] = []
    turns = {role: cycle(kinds_worn_by(style, role)) for role in set(partition.roles)}
    several = len(set(partition.groups)) > 1
    for client in partition:
        holding = partition[client]
        look = next(turns[holding.role])
        for rows in (holding.train, holding.val, holding.test):
            worn[rows] = kinds.index(look)
        groups.append(f"{holding.group}+{look}" if several else look)
    styled = apply_style(dataset, style, worn, seed=seed)
    dressed = Partition(
        partition.clients, groups, partition.roles, partition.rows, partition.offsets
    )
    return Population(styled, dressed)
