"""The batches of CIFAR-10's "python version", which are pickles, read without running them.

A pickle is a program: it names functions and classes, and whoever loads it calls them. duotone
unpickles no other file, and these only because they are the form in which CIFAR-10 lies on most
disks. The names of NumPy that an official file uses lead to two small classes of this module,
``_codecs.encode`` makes bytes, and any other name is refused before it is imported.

NumPy's own classes are kept out as well: a forged ``dtype`` can make raw bytes pass for Python
objects, and the first look at such an array follows a pointer that the file has chosen.
"""

from __future__ import annotations

import _codecs
import gzip
import io
import pickle
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from duotone.errors import DataError

FOLDER = "cifar-10-batches-py"


def batch_contents(path: Path, names: Collection[str]) -> dict[str, bytes]:
    """Read files of CIFAR-10 from their folder, or from the archive without unpacking it to disk.

    Raises:
        DataError: A file is missing or cannot be read; the message names it.
    """
    contents = _from_folder(path, names) if path.is_dir() else _from_archive(path, names)
    for name in names:
        if name not in contents:
            raise DataError(
                f"{path}: there is no file {name}; give the folder {FOLDER} "
                "or cifar-10-python.tar.gz."
            )
    return contents


def unpickle_batch(content: bytes, source: Path) -> tuple[NDArray[np.uint8], list[Any]]:
    """Return the pixels and the labels of one batch, neither checked yet.

    Args:
        content: The pickle.
        source: Where it comes from, for messages.

    Raises:
        DataError: The pickle is damaged, or asks for anything that is not an array of bytes.
    """
    try:
        # Written by Python 2, whose strings are bytes.
        batch = _BatchUnpickler(io.BytesIO(content), encoding="bytes").load()
    # A damaged pickle fails in as many ways as a program can.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{source}: not a readable batch of CIFAR-10 ({reason}).") from error
    if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
        raise DataError(f"{source}: not a batch of CIFAR-10; it lacks 'data' or 'labels'.")
    pixels, labels = batch[b"data"], batch[b"labels"]
    if not isinstance(pixels, _Array) or not isinstance(labels, list):
        raise DataError(f"{source}: 'data' must be an array and 'labels' a list.")
    return pixels.values, labels


class _ByteType:
    """Stands in for ``numpy.dtype`` and is always uint8."""

    def __init__(self, code: bytes | str, *_: object) -> None:
        if code not in (b"u1", "u1"):
            raise pickle.UnpicklingError(f"its array has the type {code!r} instead of 'u1'")

    def __setstate__(self, state: object) -> None:
        """Ignore byte order and flags: bytes have none."""


class _Array:
    """Stands in for ``numpy.ndarray``, and for the function that makes an empty one."""

    values: NDArray[np.uint8]

    def __init__(self, *_: object) -> None:
        self.values = np.zeros(0, np.uint8)

    def __setstate__(self, state: tuple[int, tuple[int, ...], _ByteType, bool, bytes]) -> None:
        """Take over what NumPy pickles: version, shape, type, order of the axes, bytes."""
        _, shape, _, is_fortran, values = state
        self.values = np.frombuffer(values, np.uint8).reshape(
            shape, order="F" if is_fortran else "C"
        )


class _BatchUnpickler(pickle.Unpickler):
    """Knows the names that a pickled array of bytes needs, and no others."""

    _known: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,  # the same since NumPy 2
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _ByteType,
        ("_codecs", "encode"): _codecs.encode,  # bytes, where Python 3 wrote for Python 2
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name stands for, without importing anything."""
        if (module, name) not in self._known:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which the official files do not; it was not called"
            )
        return self._known[module, name]


def _from_folder(folder: Path, names: Collection[str]) -> dict[str, bytes]:
    contents = {}
    for path in (folder / name for name in names):
        try:
            if path.is_file():
                contents[path.name] = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path}: the file cannot be read ({error.strerror}).") from error
    return contents


def _from_archive(path: Path, names: Collection[str]) -> dict[str, bytes]:
    contents = {}
    try:
        with gzip.open(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r:") as archive:
            # In the order of the archive: going back in it means unpacking it from the start.
            for member in archive:
                folder, _, name = member.name.rpartition("/")
                file = archive.extractfile(member) if folder == FOLDER and name in names else None
                if file is not None:
                    contents[name] = file.read()
            # tarfile stops before the end of the file, where gzip compares its checksum.
            while unpacked.read(1 << 20):
                pass
    # A cut archive is an EOFError, a damaged one a zlib, tar or OS error.
    except Exception as error:
        raise DataError(f"{path}: not a readable .tar.gz archive ({error}).") from error
    return contents
