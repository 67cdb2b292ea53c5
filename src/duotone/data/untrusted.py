"""Readers that a hostile file can crash, run in a process of their own by :mod:`.apart`.

SciPy's parser of MATLAB files follows offsets into nowhere, and a pickle is a program. This file is
started as a script: it imports nothing of duotone, limits its own memory and time, reads bytes from
standard input and writes an npz file to standard output. What it says of a bad file goes to
standard error, in one line.

The pickles are the batches of CIFAR-10's "python version". The names of NumPy that an official file
uses lead to two small classes of this module, ``_codecs.encode`` makes bytes of Latin-1 text, and
any other name is refused before it is imported. NumPy's own classes are kept out as well: a forged
``dtype`` can make raw bytes pass for Python objects.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


class Bad(Exception):
    """The file is not what it should be; the message says why."""


def matlab_arrays(content: bytes) -> Arrays:
    """Return ``X`` and ``y`` of a MATLAB file.

    Raises:
        Bad: One is missing.
    """
    from scipy.io import loadmat

    found = loadmat(io.BytesIO(content), variable_names=["X", "y"])
    for name in ("X", "y"):
        if name not in found:
            raise Bad(f"the array {name!r} is missing")
    arrays = {name: np.asarray(found[name]) for name in ("X", "y")}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise Bad(f"{name} holds {array.dtype}, no numbers")
    return arrays


def batch_arrays(content: bytes) -> Arrays:
    """Return ``data`` and ``labels`` of a batch of CIFAR-10; labels that are no numbers are −1.

    Raises:
        Bad: It lacks one, or holds something else.
    """
    # Written by Python 2, whose strings are bytes.
    batch = _BatchUnpickler(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
        raise Bad("it lacks 'data' or 'labels'")
    pixels, labels = batch[b"data"], batch[b"labels"]
    if not isinstance(pixels, _Array) or not isinstance(labels, list):
        raise Bad("'data' must be an array and 'labels' a list")
    known = [label if type(label) is int and 0 <= label < 10 else -1 for label in labels]
    return {"data": pixels.values, "labels": np.array(known, np.int64)}


class _ByteType:
    """Stands in for ``numpy.dtype`` and is always uint8."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, bytes | str) or code not in (b"u1", "u1"):
            shown = repr(code[:20]) if isinstance(code, bytes | str) else type(code).__name__
            raise pickle.UnpicklingError(f"its array has the type {shown} instead of 'u1'")

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


def _encoded(text: object, encoding: object) -> bytes:
    """Make bytes of text, where Python 3 wrote for Python 2; other codecs can multiply a text."""
    names = ("latin1", b"latin1")
    if not isinstance(text, str | bytes) or not isinstance(encoding, str | bytes):
        raise pickle.UnpicklingError("it encodes something that is no text")
    if encoding not in names:
        raise pickle.UnpicklingError(f"it asks for the codec {encoding[:20]!r}")
    return text.encode("latin-1") if isinstance(text, str) else text


class _BatchUnpickler(pickle.Unpickler):
    """Knows the names that a pickled array of bytes needs, and no others."""

    _known: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,  # the same since NumPy 2
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _ByteType,
        ("_codecs", "encode"): _encoded,
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name stands for, without importing anything."""
        if (module, name) not in self._known:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which the official files do not; it was not called"
            )
        return self._known[module, name]


READERS: dict[str, Callable[[bytes], Arrays]] = {"matlab": matlab_arrays, "cifar": batch_arrays}


def limit(memory: int, seconds: int) -> None:
    """Take no more memory and time than this, where the system can keep us from it."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> int:
    """Read standard input by the reader that is named, within the limits that are given."""
    reader, memory, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    limit(memory, seconds)
    try:
        arrays = READERS[reader](sys.stdin.buffer.read())
        kept = io.BytesIO()
        np.savez(kept, allow_pickle=False, **arrays)
        sys.stdout.buffer.write(kept.getbuffer())
        return 0
    except MemoryError:
        sys.stderr.write("it asks for too much memory\n")
    except Bad as error:
        sys.stderr.write(f"{error}\n")
    except Exception as error:  # a damaged file fails in as many ways as a program can
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        sys.stderr.write(f"{reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
