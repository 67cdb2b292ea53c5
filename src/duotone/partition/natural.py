"""The clients that the data itself names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from duotone.data.dataset import Dataset
from duotone.errors import PartitionError
from duotone.partition.features import human_key
from duotone.partition.partition import Rows
from duotone.partition.scheme import PartitionSettings, Scheme, Share
from duotone.partition.shares import Who, shares_of
from duotone.registry import did_you_mean

TEST_SHARE = 0.2
"""Share of its training samples that a client without test samples is tested on."""


class NaturalSettings(PartitionSettings):
    """Settings of the ``natural`` scheme."""

    newcomers: (
        list[Annotated[str, Field(coerce_numbers_to_str=True)]]
        | Annotated[int, Field(ge=0, strict=True)]
        | Annotated[float, Field(gt=0, lt=1)]
    ) = 0
    """The ids of the newcomers, or how many to choose at random: a number or a fraction."""

    skip_small: bool = False
    """Leave clients with too few samples out, instead of refusing the data."""


class Natural(Scheme[NaturalSettings]):
    """Give each sample to the client that the data says it came from.

    The group of a client is its domain, where the data has domains and every client has only one;
    else all are of the group "all". A client without test samples is tested on 20 % of its
    training samples, which are then no longer trained on.
    """

    name = "natural"
    Config = NaturalSettings
    advice = "set partition.skip_small = true"

    def assign(
        self, dataset: Dataset, config: NaturalSettings, rng: np.random.Generator
    ) -> Sequence[Share]:
        """Read the owners off the data."""
        if dataset.client is None:
            raise PartitionError(
                f"{dataset.name!r} does not say which client its samples are from; use another "
                "partition, data with client_train and client_test, or a table with table.client."
            )
        ids, position = np.unique(dataset.client, return_inverse=True)
        groups = _groups(dataset, len(ids), position)
        who = [Who(str(name), group, "member") for name, group in zip(ids, groups, strict=True)]
        shares = [_with_test(share, rng) for share in shares_of(dataset, position, who)]
        if config.skip_small:
            shares = [
                share
                for share in shares
                if len(share.train) >= config.min_train and len(share.test) >= config.min_test
            ]
        shares.sort(key=lambda share: human_key(share.client))
        if config.clients not in (None, len(shares)):
            raise PartitionError(
                f"partition.clients = {config.clients}, but {dataset.name!r} names {len(shares)} "
                f"clients{' that are large enough' if config.skip_small else ''}; leave "
                "partition.clients out, or use a partition that makes its own clients."
            )
        newcomers = _newcomers(dataset, config, [share.client for share in shares], rng)
        return [
            share._replace(role="newcomer") if share.client in newcomers else share
            for share in shares
        ]


def _groups(dataset: Dataset, clients: int, client_of_row: Rows) -> list[str]:
    """Return the domain of each client, or "all" for everybody where a client has several."""
    if dataset.domain is not None:
        domains, domain_of_row = np.unique(dataset.domain, return_inverse=True)
        of_client = np.zeros(clients, np.int64)
        of_client[client_of_row] = domain_of_row  # any row will do if a client has one domain
        if np.array_equal(of_client[client_of_row], domain_of_row):
            return [str(name) for name in domains[of_client]]
    return ["all"] * clients


def _with_test(share: Share, rng: np.random.Generator) -> Share:
    """Turn a part of the training samples into test samples if there are none."""
    if len(share.test) or len(share.train) < 2:
        return share
    count = max(1, round(TEST_SHARE * len(share.train)))
    test, train = np.split(rng.permutation(share.train), [count])
    return share._replace(train=train, test=test)


def _newcomers(
    dataset: Dataset, config: NaturalSettings, clients: list[str], rng: np.random.Generator
) -> set[str]:
    """Return the clients that are newcomers, as named or chosen at random."""
    if isinstance(config.newcomers, list):
        for name in config.newcomers:
            if name not in clients:
                raise PartitionError(
                    f"partition.newcomers names {name!r}, which is no client of {dataset.name!r}"
                    f"{' that is large enough' if config.skip_small else ''}."
                    f"{did_you_mean(name, clients)} The first of {len(clients)} are: "
                    f"{', '.join(clients[:5])}."
                )
        chosen = set(config.newcomers)
    elif isinstance(config.newcomers, float):
        count = max(1, round(config.newcomers * len(clients)))
        chosen = set(rng.permutation(clients)[:count].tolist())
    else:
        chosen = set(rng.permutation(clients)[: config.newcomers].tolist())
    if clients and len(chosen) == len(clients):
        raise PartitionError(
            f"partition.newcomers makes newcomers of all {len(clients)} clients of "
            f"{dataset.name!r}; at least one must train."
        )
    return chosen
