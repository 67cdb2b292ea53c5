"""Updates wait for the mean on disk when memory should not hold them all.

A mean needs every weight before the first product, and a refused client changes their sum. Robust
rules need all updates at once anyway. So they are kept until the round is over; beyond a limit
their shared parts go to a file, and are read one tensor at a time. Sums are taken in the same order
from the same bits, so nobody can tell from a result.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from duotone.files import disk_errors
from duotone.types import ClientUpdate, Params

MOST_BYTES = 64_000_000
"""How much of a round's updates is held in memory."""


@dataclass(slots=True)
class Spill:
    """Where the updates of one round wait.

    Attributes:
        folder: Where a file may be made; without one, all stays in memory.
        most: How many bytes stay in memory.
    """

    folder: Path | None
    most: int = MOST_BYTES
    _held: int = 0
    _room: _Room | None = None

    def keep(self, update: ClientUpdate) -> ClientUpdate:
        """Return an equal update that takes no memory, if there is none left for it."""
        self._held += sum(tensor.nbytes for tensor in update.shared.values())
        if self.folder is None or self._held <= self.most:
            return update
        with disk_errors(self.folder):
            self._room = self._room or _Room(self.folder)
            return replace(update, shared=Spilled(self._room, update.shared))


class _Room:
    """A file that is closed when nobody holds any of its tensors."""

    def __init__(self, folder: Path) -> None:
        # Without a name: nothing is left behind, however the process ends.
        self.file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        weakref.finalize(self, self.file.close)


class Spilled(Mapping[str, Tensor]):
    """Tensors in a file, each read when it is asked for.

    Args:
        room: Where they are written to, behind what is there.
        params: The tensors.
    """

    def __init__(self, room: _Room, params: Params) -> None:
        self._room, file = room, room.file
        self._places: dict[str, tuple[int, torch.Size, torch.dtype]] = {}
        for name, tensor in params.items():
            self._places[name] = (file.seek(0, os.SEEK_END), tensor.shape, tensor.dtype)
            flat = tensor.detach().cpu().contiguous().flatten().view(torch.uint8)
            file.write(flat.numpy().tobytes())
        file.flush()

    def __getitem__(self, name: str) -> Tensor:
        place, shape, dtype = self._places[name]
        content = bytearray(shape.numel() * dtype.itemsize)
        if not content:
            return torch.empty(shape, dtype=dtype)
        self._room.file.seek(place)
        self._room.file.readinto(content)
        return torch.frombuffer(content, dtype=dtype).reshape(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
