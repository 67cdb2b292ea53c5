"""What a partition scheme is, its settings, and the table of all schemes.

A scheme turns a data set into a list of shares: one per client, saying who it is and which rows it
gets. Everything that all partitions have in common (caps, validation rows, shuffling, checks) is
done once, in :mod:`duotone.partition.build`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, NamedTuple, TypeVar, overload

import numpy as np
from pydantic import Field, model_validator

from duotone.config import Settings
from duotone.data.dataset import Dataset
from duotone.partition.columns import Names, Words, names_of
from duotone.partition.partition import Rows
from duotone.registry import Registry
from duotone.types import Role

SCHEMES = Registry(
    "partition",
    {
        "iid": "duotone.partition.labels:Iid",
        "dirichlet": "duotone.partition.labels:Dirichlet",
        "groups": "duotone.partition.dirichlet_groups:Groups",
        "domains": "duotone.partition.features:Domains",
        "pathological": "duotone.partition.labels:Pathological",
        "quantity": "duotone.partition.labels:Quantity",
        "attribute": "duotone.partition.features:Attribute",
        "natural": "duotone.partition.natural:Natural",
    },
    listing="duotone partition --help",
)


class Share(NamedTuple):
    """What a scheme gives one client, before caps and the validation split."""

    client: str
    group: str
    role: Role
    train: Rows
    test: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Shares(Sequence[Share]):
    """The shares of all clients, in a few flat arrays.

    Attributes:
        clients: Client names, in order.
        groups: The group of each.
        roles: The role of each.
        train: Rows to train on, of all clients one after the other.
        test: Rows to test on, likewise.
        train_ends: Where each client's rows to train on begin; one entry more than clients.
        test_ends: Likewise.
    """

    clients: Names
    groups: Words[str]
    roles: Words[Role]
    train: Rows
    test: Rows
    train_ends: Rows
    test_ends: Rows

    @classmethod
    def of(cls, shares: Sequence[Share]) -> Shares:
        """Pack the shares of single clients."""
        if isinstance(shares, Shares):
            return shares
        nothing = np.zeros(0, np.int64)
        return cls(
            names_of([share.client for share in shares]),
            Words.of([share.group for share in shares]),
            Words.of([share.role for share in shares]),
            np.concatenate([nothing, *(share.train for share in shares)]),
            np.concatenate([nothing, *(share.test for share in shares)]),
            np.cumsum([0, *(len(share.train) for share in shares)]),
            np.cumsum([0, *(len(share.test) for share in shares)]),
        )

    @overload
    def __getitem__(self, position: int) -> Share: ...
    @overload
    def __getitem__(self, position: slice) -> list[Share]: ...
    def __getitem__(self, position: int | slice) -> Share | list[Share]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        client = self.clients[position]
        position = range(len(self))[position]
        train, test = (
            rows[ends[position] : ends[position + 1]]
            for rows, ends in ((self.train, self.train_ends), (self.test, self.test_ends))
        )
        return Share(client, self.groups[position], self.roles[position], train, test)

    def __len__(self) -> int:
        return len(self.clients)


MOST = 1_000_000
"""No partition has more clients, groups or samples per client; more would only fill the memory."""


class PartitionSettings(Settings):
    """Settings that every scheme has."""

    clients: int | None = Field(default=None, ge=1, le=MOST)
    """Number of clients, members and newcomers together; not given: as many as the data says."""

    validation: float = Field(default=0.1, ge=0, le=0.9)
    """Share of a client's training samples that is kept as its validation set."""

    max_train: int | None = Field(default=None, ge=1, le=MOST)
    """At most this many training samples per client, chosen at random; the rest is not used."""

    max_test: int | None = Field(default=None, ge=1, le=MOST)
    """At most this many test samples per client, chosen at random; the rest is not used."""

    min_train: int = Field(default=10, ge=1, le=MOST)
    """Fewest training samples a client may have, validation samples included."""

    min_test: int = Field(default=1, ge=0, le=MOST)
    """Fewest test samples a client may have."""

    @model_validator(mode="after")
    def _limits_agree(self) -> PartitionSettings:
        for split in ("train", "test"):
            least, most = getattr(self, f"min_{split}"), getattr(self, f"max_{split}")
            if most is not None and most < least:
                raise ValueError(
                    f"partition.max_{split} = {most} is below partition.min_{split} = {least}; "
                    "raise the one or lower the other."
                )
        return self


class CountedSettings(PartitionSettings):
    """Settings of the schemes that make any number of clients."""

    clients: int = Field(default=50, ge=1, le=MOST)
    """Number of clients, members and newcomers together."""


class HeldOutSettings(CountedSettings):
    """Settings of the schemes whose newcomers are single clients."""

    newcomers: int = Field(default=0, ge=0, le=MOST)
    """How many of the clients, the last ones, are newcomers."""


S = TypeVar("S", bound=PartitionSettings)


class Scheme(ABC, Generic[S]):
    """One way to deal out a data set.

    Attributes:
        name: What the user calls it.
        Config: Its settings.
        redraws: Whether another draw gives clients other sizes, so that drawing again can help
            where a client came out too small.
        advice: What to change when clients come out too small; part of an error message.
    """

    name: ClassVar[str]
    Config: type[S]
    redraws: ClassVar[bool] = False
    advice: ClassVar[str] = "lower partition.clients"

    def overlaps(self, config: S) -> bool:
        """Say whether a sample may be held by several clients with these settings."""
        return False

    @abstractmethod
    def assign(self, dataset: Dataset, config: S, rng: np.random.Generator) -> Sequence[Share]:
        """Decide which rows each client gets.

        Raises:
            PartitionError: No draw whatever could satisfy the request.
        """
