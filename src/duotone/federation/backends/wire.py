"""Messages between this process and its workers, and the memory they share.

Tensors travel as raw buffers beside the pickle, not inside it. Samples do not travel at all: they
lie in an anonymous file that every process maps. The file has no name, so nothing can be left
behind, however a process dies. Samples that are mapped from a file already are mapped again.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from duotone.data.dataset import Array

_ALIGNMENT = 64  # what vector instructions like


class NotImportable(Exception):
    """An object that a worker process could not import."""


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is torch.Tensor and value.dtype is not torch.bfloat16:
            # Out-of-band through NumPy, which has no bfloat16: no copy into the pickle.
            return torch.from_numpy, (value.detach().contiguous().numpy(),)
        if getattr(value, "__module__", None) == "__main__" and hasattr(value, "__qualname__"):
            raise NotImportable(value.__qualname__)
        return NotImplemented


def send(connection: Connection, message: Any) -> None:
    """Send a message.

    Raises:
        NotImportable: The message names a class or function that the other side cannot import.
    """
    stream = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    try:
        _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(message)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise NotImportable(str(error)) from error
    connection.send_bytes(len(buffers).to_bytes(4, "little") + stream.getbuffer())
    for buffer in buffers:
        connection.send_bytes(buffer.raw())


def receive(connection: Connection) -> Any:
    """Receive a message.

    Raises:
        EOFError: The other side is gone.
    """
    head = connection.recv_bytes()
    count = int.from_bytes(head[:4], "little")
    # bytearray, because tensors must be writable
    buffers = [bytearray(connection.recv_bytes()) for _ in range(count)]
    return pickle.loads(memoryview(head)[4:], buffers=buffers)  # from our own child, not from disk


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each array lies in the shared file, or in the file that it was mapped from."""

    arrays: dict[str, tuple[str, tuple[int, ...], int]]
    size: int
    mapped: dict[str, tuple[str, str, tuple[int, ...], int]] = field(default_factory=dict)


def share(arrays: Mapping[str, Array]) -> tuple[int, Layout]:
    """Copy arrays into an anonymous file in memory; return its descriptor and layout."""
    places: dict[str, tuple[str, tuple[int, ...], int]] = {}
    mapped: dict[str, tuple[str, str, tuple[int, ...], int]] = {}
    offset = 0
    for name, array in arrays.items():
        # A view of a mapped array has another offset than it says; it is copied.
        base: Any = array.base
        if isinstance(array, np.memmap) and isinstance(base, mmap.mmap):
            file_name = os.path.abspath(str(array.filename))
            mapped[name] = (file_name, array.dtype.str, array.shape, array.offset)
            continue
        places[name] = (array.dtype.str, array.shape, offset)
        offset += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    layout = Layout(places, max(offset, 1), mapped)
    folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryFile(dir=folder) as file:
        descriptor = os.dup(file.fileno())
    os.truncate(descriptor, layout.size)
    for name, view in attach(descriptor, layout).items():
        if name in places:
            view[...] = arrays[name]
    return descriptor, layout


def attach(descriptor: int, layout: Layout) -> dict[str, Array]:
    """Map a shared file; return views on its arrays."""
    memory = mmap.mmap(descriptor, layout.size)
    arrays: dict[str, Array] = {
        name: np.ndarray(shape, np.dtype(kind), buffer=memory, offset=offset)
        for name, (kind, shape, offset) in layout.arrays.items()
    }
    for name, (path, kind, shape, offset) in layout.mapped.items():
        arrays[name] = np.memmap(path, np.dtype(kind), "r", offset, shape)
    return arrays
