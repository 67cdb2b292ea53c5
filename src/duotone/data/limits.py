"""How much a file may ask for: a small file must not fill the memory or wait for ever.

A packed file says itself how large its content is, and a few bytes can announce terabytes. Readers
compare what is announced with :func:`allowance` before they read it.
"""

from __future__ import annotations

import bz2
import gzip
import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from duotone.errors import DataError

FLOOR = 256 * 2**20
"""Every file may unpack to this many bytes."""
FACTOR = 32
"""A larger one to this many times its size; MNIST packs 5 to 1, a table of few values 30 to 1."""
MOST_PIXELS = 4096 * 4096
"""Pixels that one image may have."""
_CHUNK = 1 << 20


def allowance(packed: int) -> int:
    """Return how many bytes a file of some size may unpack to."""
    return max(FLOOR, FACTOR * packed)


def check_regular(path: Path) -> None:
    """Make sure that something is a file with an end: no pipe, no device.

    Raises:
        DataError: It is none. Where there is nothing, whoever opens it says so.
    """
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: this is no regular file; folders, pipes and devices are refused.")


def check_announced(path: Path, size: int, packed: int) -> None:
    """Make sure that a file does not announce more than it may.

    Raises:
        DataError: It does.
    """
    if size > allowance(packed):
        raise DataError(
            f"{path}: it has {packed:,} bytes and announces {size:,}, more than {FACTOR} times as "
            "many; it is damaged or hostile. Pack the data less tightly if it is neither."
        )


def unpacked(path: Path, opened: Callable[[], IO[bytes]], *, packed: int) -> bytes:
    """Return the content of a packed file, as far as it may have one.

    Args:
        path: The file, for messages.
        opened: Opens it as a stream of unpacked bytes.
        packed: Its size on disk.

    Raises:
        DataError: It unpacks to more than it may.
    """
    most = allowance(packed)
    chunks: list[bytes] = []
    total = 0
    with opened() as stream:
        while chunk := stream.read(_CHUNK):
            total += len(chunk)
            if total > most:
                check_announced(path, total, packed)
            chunks.append(chunk)
    return b"".join(chunks)


def content_of(path: Path) -> bytes:
    """Return what a file holds, unpacked if it is packed.

    Raises:
        DataError: It cannot be read, or unpacks to more than it may.
    """
    opened: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    try:
        packed = path.stat().st_size
        return unpacked(path, lambda: opened(path, "rb"), packed=packed)
    except DataError:
        raise
    # A cut archive is an EOFError, a damaged one a zlib error or an OSError.
    except Exception as error:
        raise DataError(f"{path}: the file cannot be read ({error}).") from error


def check_npz(path: Path, file: IO[bytes], wanted: Callable[[str], bool]) -> None:
    """Make sure that the arrays of an npz file are as large as it says, and not too large.

    Raises:
        DataError: They are too large, or a header and the list of contents differ.
    """
    packed = file.seek(0, 2)
    file.seek(0)
    total = 0
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if not wanted(member.filename.removesuffix(".npy")):
                continue
            with archive.open(member) as stream:
                size = _announced(stream)
            total += max(size, member.file_size)
            if size > member.file_size:
                raise DataError(
                    f"{path}: its {member.filename} announces {size:,} bytes and has "
                    f"{member.file_size:,}."
                )
    check_announced(path, total, packed)
    file.seek(0)


def _announced(stream: IO[bytes]) -> int:
    """Return how many bytes of values the header of an array announces."""
    version = np.lib.format.read_magic(stream)
    read: Any = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"arrays of version {version} are not read")
    shape, _, dtype = read(stream)
    if any(size < 0 for size in shape):
        raise ValueError(f"an array has the shape {shape}")
    return int(math.prod(shape)) * int(dtype.itemsize)


def check_text(path: Path, name: str, array: NDArray[Any]) -> None:
    """Make sure that an array of texts holds characters; Python itself fails on other numbers.

    Raises:
        DataError: It does not.
    """
    if array.dtype.kind != "U" or not array.size or not array.dtype.itemsize:
        return
    native = np.ascontiguousarray(array.reshape(-1)).astype(array.dtype.newbyteorder("="))
    codes = native.view(np.uint32)
    if bool(((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any()):
        raise DataError(f"{path}: its {name} holds numbers that are no characters.")


@contextmanager
def panics_as(path: Path) -> Iterator[None]:
    """Turn a panic of a library written in Rust, which is no ordinary exception, into an error."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise DataError(f"{path}: the table cannot be read ({error}).") from None
