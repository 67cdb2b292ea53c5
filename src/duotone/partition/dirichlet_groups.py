"""Clients in groups of one label distribution each: the default partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from duotone.data.dataset import Dataset
from duotone.errors import PartitionError
from duotone.partition.columns import Numbered, Words
from duotone.partition.partition import Rows
from duotone.partition.scheme import MOST, CountedSettings, Scheme, Share
from duotone.partition.shares import (
    Everybody,
    deal_classes,
    require_classes,
    require_rows,
    shares_of,
    split_classes,
)
from duotone.types import ROLES


class GroupSettings(CountedSettings):
    """Settings of the ``groups`` scheme."""

    alpha: float = Field(default=0.3, gt=0, allow_inf_nan=False)
    """Concentration: 100 makes the groups nearly alike, 0.1 gives them only a few classes each."""

    groups: int = Field(default=10, ge=1, le=MOST)
    """Number of groups (fewer clients: one each); clients are spread over them evenly."""

    newcomer_groups: int = Field(default=2, ge=0, le=MOST)
    """How many of the groups, the last ones, consist of newcomers; by default a fifth."""

    @model_validator(mode="before")
    @classmethod
    def _fit_small_federations(cls, given: Any) -> Any:
        """Let the defaults follow the number of clients, so that five clients need no thought."""
        if not isinstance(given, dict):
            return given
        clients, groups = given.get("clients", 50), given.get("groups")
        if groups is None and isinstance(clients, int):
            groups = min(10, max(clients, 1))
        if not isinstance(groups, int):
            return given
        return {"groups": groups, "newcomer_groups": -(-groups // 5) if groups > 1 else 0, **given}


class Groups(Scheme[GroupSettings]):
    """Split each class over groups by a Dirichlet distribution, and each group over its clients.

    Groups are called "g0", "g1", …. Clients of a group have the same number of samples of every
    class, give or take one, and the same size, give or take one.
    """

    name = "groups"
    Config = GroupSettings
    redraws = True
    advice = "lower partition.clients, raise partition.alpha"

    def assign(
        self, dataset: Dataset, config: GroupSettings, rng: np.random.Generator
    ) -> Sequence[Share]:
        """Draw one vector of proportions over groups per class, then deal within the groups."""
        require_classes(dataset, self.name)
        if config.clients < config.groups:
            raise PartitionError(
                f"partition.clients = {config.clients} cannot fill partition.groups = "
                f"{config.groups}; raise the one or lower the other."
            )
        if config.newcomer_groups >= config.groups:
            raise PartitionError(
                f"partition.newcomer_groups = {config.newcomer_groups} of partition.groups = "
                f"{config.groups} leaves no group that trains; lower it to {config.groups - 1} "
                "or less."
            )
        require_rows(dataset, config)
        clients = np.array_split(np.arange(config.clients), config.groups)
        proportions = rng.dirichlet(np.full(config.groups, config.alpha), dataset.classes).T
        group_of_row = deal_classes(dataset, proportions, rng)
        owner = _deal_within(dataset, group_of_row, clients, rng)
        members = config.groups - config.newcomer_groups
        group_of = np.repeat(np.arange(config.groups), [len(group) for group in clients])
        who = Everybody(
            Numbered(config.clients),
            Words(group_of, [f"g{group}" for group in range(config.groups)]),
            Words((group_of >= members).astype(np.int64), ROLES),
        )
        return shares_of(dataset, owner, who)


def _deal_within(
    dataset: Dataset, group_of_row: Rows, clients: list[Rows], rng: np.random.Generator
) -> Rows:
    """Deal each group's rows to its clients class by class, going on where the last class ended.

    Like cards from a sorted pack: both the classes and the sizes come out even.
    """
    owner = np.empty_like(group_of_row)
    for rows in (dataset.train_rows, dataset.test_rows):
        for group, clients_of_group in enumerate(clients):
            of_group = rows[group_of_row[rows] == group]
            sorted_rows = np.concatenate(split_classes(dataset, of_group, rng))
            turn = rng.integers(len(clients_of_group)) + np.arange(len(sorted_rows))
            owner[sorted_rows] = clients_of_group[turn % len(clients_of_group)]
    return owner
