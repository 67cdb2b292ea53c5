"""Writing files so that nothing is ever half there, and asking locks without taking them."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from duotone.errors import CheckpointError, RunError

HAS_LOCKS = sys.platform != "win32"
if HAS_LOCKS:
    import fcntl

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_POLL_SECONDS = 0.002


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a failed write into an error that says what to do."""
    try:
        yield
    except OSError as error:
        problem = f"{error.strerror}; choose another place."
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            problem = "the disk is full. The last committed round is safe; make room, then resume."
        elif error.errno == errno.ELOOP:
            problem = "it is a symbolic link, and duotone writes through none."
        raise CheckpointError(f"{path} cannot be written: {problem}") from error


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on the disk; a symbolic link is not followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_FOLLOW
    with disk_errors(path), open(os.open(path, flags, 0o666), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def append_durably(path: Path, content: bytes, at: int) -> None:
    """Write the end of a file from a position on, and wait until it is on the disk.

    What stood there before, of a writer that died, is cut off first.
    """
    with disk_errors(path), open(os.open(path, os.O_WRONLY | _NO_FOLLOW), "wb") as file:
        file.truncate(at)
        file.seek(at)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never a part of it."""
    part = path.with_name(path.name + ".part")
    write_durably(part, content)
    with disk_errors(path):
        os.replace(part, path)
        sync_folder(path.parent)


def read_regular(path: Path, *, most: int | None = None) -> bytes:
    """Return a file's content.

    Args:
        path: The file.
        most: How many bytes it may have; by default any number.

    Raises:
        OSError: It is missing or too large, or not a regular file: a symbolic link, a pipe, a
            folder.
    """
    # Without waiting: opening a pipe would last until somebody writes into it.
    descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, "not a file but a folder", str(path))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if most is not None and os.fstat(descriptor).st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
        return file.read()


def read_json_file(path: Path) -> Any:
    """Return what a JSON file holds.

    Raises:
        OSError: It is missing, or not a regular file.
        ValueError: It is not JSON, or nested without end.
    """
    try:
        return json.loads(read_regular(path))
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder survive a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def refuse_links(folder: Path, *names: str) -> None:
    """Make sure that some names in a folder, where they exist, are no symbolic links.

    Raises:
        RunError: One is.
    """
    for name in names:
        if (folder / name).is_symlink():
            raise RunError(
                f"{folder / name} is a symbolic link; the files of a run lie in its own folder. "
                "Copy the file there, or remove the link."
            )


@contextmanager
def exclusive_after(path: Path, seconds: float) -> Iterator[bool]:
    """Hold a lock on a file or folder alone, waiting for others to let go of it.

    Yields whether it could be had in that time.
    """
    with _opened(path) as descriptor:
        deadline = time.monotonic() + seconds
        got = descriptor is None or _lock(descriptor, "LOCK_EX")
        while not got and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            got = descriptor is None or _lock(descriptor, "LOCK_EX")
        yield got


@contextmanager
def together(path: Path) -> Iterator[None]:
    """Hold a lock on a file or folder that others may hold likewise; wait while one has it alone.

    Nothing is made or changed. Where the system has no such locks, nothing is held.
    """
    with _opened(path) as descriptor:
        if descriptor is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield


def is_held(path: Path) -> bool:
    """Say whether somebody holds a lock file alone; nothing is made, and nobody is kept waiting."""
    if not HAS_LOCKS or not path.exists():
        return False
    with _opened(path) as descriptor:
        return descriptor is not None and not _lock(descriptor, "LOCK_SH")


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """Open a file to lock it; ``None`` where there are no locks. Closing it lets go of the lock."""
    if not HAS_LOCKS:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    except OSError as error:
        raise RunError(f"{path} cannot be opened: {error.strerror}.") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, how: str) -> bool:
    try:
        fcntl.flock(descriptor, getattr(fcntl, how) | fcntl.LOCK_NB)
        return True
    except OSError as error:
        # Elsewhere than on a local disk there may be no locks; then nobody can be kept away.
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)
