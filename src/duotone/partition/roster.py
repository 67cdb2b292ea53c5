"""The roster: all that a server may know of clients whose samples it does not have.

Names, roles, groups, how many samples each has, and the form of the data. A server that trains with
far clients works with a population made of its roster: it counts samples and holds none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from duotone.data.dataset import Dataset
from duotone.errors import PartitionError
from duotone.partition.partition import SPLITS, Partition, Population
from duotone.types import DataInfo, Role, Split


@dataclass(frozen=True, slots=True)
class Enrolled:
    """One client of a roster.

    Attributes:
        client: Its name.
        group: Its group.
        role: Member or newcomer.
        sizes: How many samples of each split it has.
        data: The form of its samples.
    """

    client: str
    group: str
    role: Role
    sizes: Mapping[Split, int]
    data: DataInfo


@dataclass(frozen=True, slots=True)
class Roster:
    """The clients of a federation, without their samples.

    Attributes:
        clients: Who takes part, in order.
        data: The form of the samples.
    """

    clients: tuple[Enrolled, ...]
    data: DataInfo

    @classmethod
    def of(cls, enrolled: Sequence[Enrolled]) -> Roster:
        """Return the roster of some clients; with classes, the one that knows most says how many.

        Raises:
            PartitionError: Their data are of different forms, or nobody trains.
        """
        if not any(one.role == "member" for one in enrolled):
            raise PartitionError("No client of the federation trains; name fewer newcomers.")
        first = enrolled[0].data
        for one in enrolled[1:]:
            if replace(one.data, outputs=first.outputs) != first:
                raise PartitionError(
                    f"The data of {one.client!r} are {one.data.task} of shape {one.data.shape}, "
                    f"those of {enrolled[0].client!r} {first.task} of shape {first.shape}; all "
                    "clients must have the same form."
                )
        outputs = max(one.data.outputs for one in enrolled)
        return cls(tuple(enrolled), replace(first, outputs=outputs))

    def population(self) -> Population:
        """Return the clients as the round loop sees them: counted samples, none of them here."""
        offsets = {
            split: np.cumsum([0, *(one.sizes[split] for one in self.clients)]) for split in SPLITS
        }
        partition = Partition(
            [one.client for one in self.clients],
            [one.group for one in self.clients],
            [one.role for one in self.clients],
            {split: np.zeros(int(ends[-1]), np.int64) for split, ends in offsets.items()},
            offsets,
        )
        channels, *rest = self.data.shape
        shape = (*rest, channels) if rest else (channels,)
        is_classes = self.data.task == "classes"
        nothing = Dataset(
            name="federation",
            x=np.zeros((0, *shape), np.uint8 if rest else np.float32),
            y=np.zeros(0, np.int64 if is_classes else np.float32),
            is_test=np.zeros(0, bool),
            classes=self.data.outputs if is_classes else 0,
            alphabet=self.data.alphabet,
        )
        return Population(nothing, partition)
