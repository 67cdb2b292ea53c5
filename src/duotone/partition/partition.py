"""Who holds which samples, and the view of a client's samples that follows from it.

A partition is row numbers, not samples: 10,000 clients over 70,000 images are a few hundred
kilobytes. :class:`Population` joins it with the one table of samples and hands out tensors of a
single client when, and only when, they are needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from duotone.data.dataset import Array, Dataset
from duotone.errors import PartitionError
from duotone.partition.columns import Listed, Names, Numbered, Words, names_of
from duotone.partition.deal import Deal
from duotone.partition.deal import Rows as Rows
from duotone.types import NO_LABEL, ClientData, DataInfo, Role, Split

SPLITS: tuple[Split, ...] = ("train", "val", "test")
_DEALT = ("train", "test", "train_ends", "test_ends")
_DEALING = ("seed", "validation", "max_train", "max_test")
AT_ONCE = 10_000
"""Clients up to which a partition is shuffled when it is made; with more, each when it is asked."""


@dataclass(frozen=True, slots=True)
class Holding:
    """One client of a partition: who it is and which rows it holds."""

    client: str
    group: str
    role: Role
    train: Rows
    val: Rows
    test: Rows


class Partition(Mapping[str, Holding]):
    """An ordered mapping from client to holding, stored as a few flat arrays.

    Args:
        clients: Client names, in order.
        groups: The group of each client.
        roles: Whether each client is a member or a newcomer.
        rows: For each split, the rows of all clients one after the other; or what was dealt out,
            from which they follow.
        offsets: For each split, where each client's rows begin; one entry more than clients.
    """

    def __init__(
        self,
        clients: Sequence[str],
        groups: Sequence[str],
        roles: Sequence[Role],
        rows: Mapping[Split, Rows] | Deal,
        offsets: Mapping[Split, Rows],
    ) -> None:
        self.clients = names_of(clients)
        self.groups = Words.of(groups)
        self.roles = Words.of(roles)
        self.offsets = dict(offsets)
        self.deal = rows if isinstance(rows, Deal) else None
        if not isinstance(rows, Deal):
            self.rows = dict(rows)

    @cached_property
    def rows(self) -> dict[Split, Rows]:
        """For each split, the rows of all clients one after the other."""
        assert self.deal is not None
        return self.deal.shuffled(self.clients)

    @classmethod
    def from_deal(
        cls, clients: Sequence[str], groups: Sequence[str], roles: Sequence[Role], deal: Deal
    ) -> Partition:
        """Return the partition that follows from what was dealt out."""
        names = _distinct(clients)
        rows = deal.shuffled(names) if len(names) <= AT_ONCE else deal
        return cls(names, groups, roles, rows, deal.offsets())

    @classmethod
    def from_holdings(cls, holdings: Sequence[Holding]) -> Partition:
        """Pack holdings into a partition."""
        names = _distinct([holding.client for holding in holdings])
        rows: dict[Split, Rows] = {}
        offsets: dict[Split, Rows] = {}
        for split in SPLITS:
            parts = [np.asarray(getattr(holding, split), np.int64) for holding in holdings]
            rows[split] = np.concatenate(parts) if parts else np.zeros(0, np.int64)
            offsets[split] = np.cumsum([0, *map(len, parts)])
        groups = [holding.group for holding in holdings]
        return cls(names, groups, [holding.role for holding in holdings], rows, offsets)

    def __getitem__(self, client: str) -> Holding:
        position = self.clients.position(client)
        if self.deal is None:
            rows = {split: self._slice(split, position) for split in SPLITS}
        else:
            rows = self.deal.of(position, client)
        return Holding(client, self.groups[position], self.roles[position], **rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self.clients)

    def __len__(self) -> int:
        return len(self.clients)

    def __contains__(self, client: object) -> bool:
        return client in self.clients

    def _slice(self, split: Split, position: int) -> Rows:
        offsets = self.offsets[split]
        return self.rows[split][offsets[position] : offsets[position + 1]]

    @cached_property
    def members(self) -> Names:
        """The clients that train."""
        return self.of_role("member")

    @cached_property
    def newcomers(self) -> Names:
        """The clients never seen in training."""
        return self.of_role("newcomer")

    def of_role(self, role: Role) -> Names:
        """Return the clients of one role, in order."""
        return self.clients.chosen(np.flatnonzero(self.roles.is_word(role)))

    def headcount(self) -> str:
        """Return how many clients there are in words: "4 members, 1 newcomer"."""
        counts = {"member": len(self.members), "newcomer": len(self.newcomers)}
        return ", ".join(f"{count} {role}{'s'[: count != 1]}" for role, count in counts.items())

    def position(self, client: str) -> int:
        """Return which of the clients one is."""
        return self.clients.position(client)

    def size(self, client: str, split: Split = "train") -> int:
        """Return how many samples of a split a client holds."""
        position = self.clients.position(client)
        return int(self.offsets[split][position + 1] - self.offsets[split][position])

    def arrays(self) -> dict[str, Array]:
        """Return everything large, by name, see :meth:`Population.arrays`."""
        found = {"groups": self.groups.codes, "roles": self.roles.codes}
        if isinstance(self.clients, Listed):
            found |= {"names": self.clients.text, "names.ends": self.clients.ends}
        for split in SPLITS:
            found[f"offsets.{split}"] = self.offsets[split]
            if self.deal is None:
                found[f"rows.{split}"] = self.rows[split]
        if self.deal is not None:
            found |= {f"deal.{name}": getattr(self.deal, name) for name in _DEALT}
        return found

    def form(self) -> dict[str, Any]:
        """Return everything small that :meth:`from_arrays` needs beside :meth:`arrays`."""
        deal = self.deal
        return {
            "groups": self.groups.words,
            "roles": self.roles.words,
            "deal": None if deal is None else {name: getattr(deal, name) for name in _DEALING},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], form: Mapping[str, Any]) -> Partition:
        """Rebuild a partition around arrays that may live in shared memory."""
        rows: dict[Split, Rows] | Deal
        if form["deal"] is None:
            rows = {split: arrays[f"rows.{split}"] for split in SPLITS}
        else:
            train, test, *ends = (arrays[f"deal.{name}"] for name in _DEALT)
            rows = Deal(train, test, ends[0], ends[1], **form["deal"])
        names: Names = Numbered(len(arrays["roles"]))
        if "names" in arrays:
            names = Listed(arrays["names"], arrays["names.ends"])
        groups, roles = (Words(arrays[name], form[name]) for name in ("groups", "roles"))
        return cls(names, groups, roles, rows, {s: arrays[f"offsets.{s}"] for s in SPLITS})

    def fingerprint(self) -> str:
        """Return a short hash: equal partitions, equal fingerprint."""
        digest = hashlib.sha256()
        texts = chain(self.clients, self.groups, self.roles)
        first = next(texts, "")
        digest.update(first.encode())
        while some := [*islice(texts, 100_000)]:  # not all texts at once
            digest.update("".join("\x1f" + text for text in some).encode())
        if self.deal is not None:  # what follows from it would take too long to make
            for value in astuple(self.deal):
                digest.update(
                    value.tobytes() if hasattr(value, "tobytes") else repr(value).encode()
                )
            return digest.hexdigest()[:16]
        for split in SPLITS:
            digest.update(self.rows[split].tobytes())
            digest.update(self.offsets[split].tobytes())
        return digest.hexdigest()[:16]


def _distinct(clients: Sequence[str]) -> Names:
    names = names_of(clients)
    if isinstance(names, Listed) and names.has_twins():
        raise PartitionError("Two clients of the partition have the same name.")
    return names


class Population:
    """A data set and its partition: every client's samples, made on demand.

    The columns of a table become features here, by what members have in training, see
    :mod:`duotone.data.preparing`. The samples exist once. :meth:`arrays` and :meth:`from_arrays`
    let worker processes look at the same memory instead of a copy.

    Args:
        dataset: The samples.
        partition: Who holds which.
        labelled: How many training samples of each client have a label; by default all.
        keeps_unlabelled: Whether clients use their other training samples, too, with no label.
    """

    def __init__(
        self,
        dataset: Dataset,
        partition: Partition,
        *,
        labelled: int | None = None,
        keeps_unlabelled: bool = False,
    ) -> None:
        if dataset.columns is not None:
            from duotone.data.preparing import prepared

            dataset = prepared(dataset, [partition[member].train for member in partition.members])
        self.dataset = dataset
        self.partition = partition
        self.labelled = labelled
        self.keeps_unlabelled = keeps_unlabelled
        shape = dataset.x.shape[1:]
        if dataset.is_image:
            height, width, *channels = shape
            shape = (channels[0] if channels else 1, height, width)
        self.info = DataInfo(
            shape=tuple(int(size) for size in shape),
            task="classes" if dataset.classes else "regression",
            outputs=dataset.classes or 1,
            alphabet=dataset.alphabet,
        )

    def rows(self, client: str, split: Split = "train") -> Rows:
        """Return which samples of the data set a client uses in a split."""
        rows: Rows = getattr(self.partition[client], split)
        return rows if split != "train" or self.keeps_unlabelled else rows[: self.labelled]

    def data(self, client: str, split: Split = "train") -> ClientData:
        """Return one split of one client's samples as tensors."""
        rows = self.rows(client, split)
        x = network_inputs(self.dataset.x[rows])  # indexing with rows copies just these samples
        y = torch.from_numpy(self.dataset.y[rows])
        if split == "train" and self.labelled is not None:
            y[self.labelled :] = torch.nan if y.is_floating_point() else NO_LABEL
        return ClientData(client, x, y, self.info)

    def factors(self, rows: Rows) -> dict[str, Array]:
        """Return the ground-truth factors of some rows."""
        return {name: values[rows] for name, values in self.dataset.factors.items()}

    def arrays(self) -> dict[str, Array]:
        """Return everything large, by name, for sharing with other processes."""
        return {"x": self.dataset.x, "y": self.dataset.y, **self.partition.arrays()}

    def adopt(self, arrays: Mapping[str, Array]) -> None:
        """Use equal arrays that live elsewhere from now on, so that the samples exist once."""
        moved = Population.from_arrays(arrays, self.form())
        self.dataset = replace(self.dataset, x=moved.dataset.x, y=moved.dataset.y)
        self.partition = moved.partition

    def form(self) -> dict[str, Any]:
        """Return everything small that :meth:`from_arrays` needs beside :meth:`arrays`."""
        return {
            "name": self.dataset.name,
            "classes": self.dataset.classes,
            "alphabet": self.dataset.alphabet,
            "partition": self.partition.form(),
            "labelled": self.labelled,
            "keeps_unlabelled": self.keeps_unlabelled,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], form: Mapping[str, Any]) -> Population:
        """Rebuild a population around arrays that may live in shared memory.

        Only what training and evaluation need is there: factors stay with the original.
        """
        dataset = Dataset(
            name=form["name"],
            x=arrays["x"],
            y=arrays["y"],
            is_test=np.zeros(0, bool),
            classes=form["classes"],
            alphabet=form["alphabet"],
        )
        return cls(
            dataset,
            Partition.from_arrays(arrays, form["partition"]),
            labelled=form["labelled"],
            keeps_unlabelled=form["keeps_unlabelled"],
        )


def network_inputs(x: Array) -> Tensor:
    """Return samples as a network sees them: pixels in [0, 1] and channels first, or features.

    Args:
        x: Images ``(rows, height, width[, channels])``, as uint8 or as float32 in [0, 1];
            features ``(rows, features)`` as float32; or characters ``(rows, characters)`` as
            uint16.
    """
    if x.dtype == np.uint16:
        return torch.from_numpy(x.astype(np.int64))
    samples = torch.from_numpy(x)
    if x.dtype == np.uint8:
        samples = samples.float().div_(255)
    if x.ndim == 2:
        return samples
    # Pixels stay channels last in memory, which is what convolutions on a CPU like best.
    return samples.permute(0, 3, 1, 2) if x.ndim == 4 else samples.unsqueeze(1)
