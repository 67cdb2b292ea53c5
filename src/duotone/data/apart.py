"""Read a file in a process of its own, so that a hostile one cannot end this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import numpy as np

from duotone.data import untrusted
from duotone.data.dataset import Array
from duotone.data.limits import allowance
from duotone.errors import DataError

_BASE_MEMORY = 640 * 2**20
"""What Python, NumPy and SciPy map before they have read anything."""
_SECONDS = 5
"""Of computing, not of waiting."""
_BYTES_PER_SECOND = 2 * 2**20
_SMALL = 10 * 2**20
_WORDS = {"matlab": "MATLAB file", "cifar": "batch of CIFAR-10"}


def read_apart(
    reader: Literal["matlab", "cifar"], content: bytes, source: Path
) -> dict[str, Array]:
    """Return the arrays of a file that :mod:`duotone.data.untrusted` reads in another process.

    Args:
        reader: Which reader.
        content: What the file holds.
        source: Where it comes from, for messages.

    Raises:
        DataError: The file is damaged, too greedy, or crashed its reader.
    """
    memory = _BASE_MEMORY + 2 * len(content) + allowance(len(content))
    seconds = _SECONDS + max(0, len(content) - _SMALL) // _BYTES_PER_SECOND
    script = str(Path(untrusted.__file__))
    command = [sys.executable, "-P", script, reader, str(memory), str(seconds)]
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command,
            input=content,
            capture_output=True,
            env={**os.environ, **threads},
            timeout=10 * seconds,  # the reader limits its own time; this is for one that sleeps
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DataError(f"{source}: reading it took too long; it is damaged or hostile.") from None
    if done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = (
            lines[-1] if done.returncode == 1 and lines else "its reader crashed or took too long"
        )
        raise DataError(f"{source}: not a readable {_WORDS[reader]} ({reason}).")
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as arrays:
        return dict(arrays)
