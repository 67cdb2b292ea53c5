"""The batches of CIFAR-10's "python version", which are pickles, read without running them.

A pickle is a program: it names functions and classes, and whoever loads it calls them. duotone
unpickles no other file, and these only because they are the form in which CIFAR-10 lies on most
disks; see :mod:`duotone.data.untrusted`.
"""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Collection
from pathlib import Path
from typing import IO, cast

from duotone.data.apart import read_apart
from duotone.data.dataset import Array
from duotone.data.limits import allowance, check_announced
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


def unpickle_batch(content: bytes, source: Path) -> tuple[Array, Array]:
    """Return the pixels and the labels of one batch; a label that is none is −1.

    Args:
        content: The pickle.
        source: Where it comes from, for messages.

    Raises:
        DataError: The pickle is damaged, or asks for anything that is not an array of bytes.
    """
    arrays = read_apart("cifar", content, source)
    return arrays["data"], arrays["labels"]


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
        stream = _Bounded(path)
        with stream.file, tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r:") as archive:
            # In the order of the archive: going back in it means unpacking it from the start.
            for member in archive:
                folder, _, name = member.name.rpartition("/")
                file = archive.extractfile(member) if folder == FOLDER and name in names else None
                if file is not None:
                    contents[name] = file.read()
            # tarfile stops before the end of the file, where gzip compares its checksum.
            while stream.read(1 << 20):
                pass
    except DataError:
        raise
    # A cut archive is an EOFError, a damaged one a zlib, tar or OS error.
    except Exception as error:
        raise DataError(f"{path}: not a readable .tar.gz archive ({error}).") from error
    return contents


class _Bounded:
    """A packed file that gives no more bytes than a file of its size may."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.packed = path.stat().st_size
        self.file = gzip.open(path)  # noqa: SIM115 (its user closes it)

    def read(self, size: int = -1) -> bytes:
        """Return up to that many bytes."""
        return self.file.read(min(size, self._left()) if size >= 0 else self._left())

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a place, which means unpacking all that stands before it."""
        if place > allowance(self.packed):
            check_announced(self.path, place, self.packed)
        return self.file.seek(place, whence)

    def tell(self) -> int:
        """Return the place."""
        return self.file.tell()

    def _left(self) -> int:
        left = allowance(self.packed) - self.file.tell()
        if left <= 0:
            check_announced(self.path, allowance(self.packed) + 1, self.packed)
        return left
