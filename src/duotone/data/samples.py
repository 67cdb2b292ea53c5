"""Samples as a user has them: arrays of any usual number type, made canonical.

Images of 8 bits stay as they are, bit by bit. Images of 16 bits become float32 in [0, 1], divided
by 65,535: nothing of a medical image is rounded away, and black and white mean the same in all of
them. Float images in [0, 1] become float32 and are otherwise taken as they are. Tables of any
number type become float32.
"""

from __future__ import annotations

import numpy as np

from duotone.data.dataset import Array

WHITE_16 = 65535
"""The value of white in an image of 16 bits."""


def as_samples(x: Array) -> Array:
    """Return samples in a canonical number type; what has none is returned as it is."""
    x = np.asanyarray(x)
    if x.ndim > 2 and x.dtype == np.uint16:
        return x.astype(np.float32) / np.float32(WHITE_16)
    is_table = x.ndim == 2 and (x.dtype == bool or np.issubdtype(x.dtype, np.integer))
    if is_table or np.issubdtype(x.dtype, np.floating):
        # Values beyond float32 become infinite here and are refused with their row afterwards.
        with np.errstate(over="ignore"):
            return x.astype(np.float32, copy=False)
    return x
