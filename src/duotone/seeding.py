"""Random streams that are derived, never ambient.

Every draw in duotone comes from a stream named after what it is for: ``stream(seed, "round", 3,
"client", "7")``. Two streams with different names are independent, and a stream depends on nothing
but its name. Results therefore do not depend on the order of clients, the number of workers or on
whether a run was interrupted.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, *name: str | int) -> int:
    """Return the 63-bit seed of the stream called ``name`` under ``seed``.

    >>> derive(0, "round", 3, "client", "7") == derive(0, "round", 3, "client", "7")
    True
    >>> derive(0, "round", 3) == derive(0, "round", 4)
    False
    """
    # The type is part of the name, so that client "3" and round 3 differ; the separator cannot
    # occur in a decimal number, so that ("1", "23") and ("12", "3") differ as well.
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in (seed, *name))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """Return the NumPy generator of the stream called ``name`` under ``seed``."""
    return np.random.default_rng(derive(seed, *name))
