"""Which samples are kept for the test, where the data does not say it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotone.seeding import stream

TEST_EVERY = 5
"""Of every so many samples one is kept for the test."""


def fixed_test_rows(y: NDArray[Any], name: str) -> NDArray[np.bool_]:
    """Choose a fifth of each class, always the same.

    Args:
        y: The class of each sample; or whatever else is to be split evenly.
        name: What the data is called; other data is split by other random numbers.
    """
    rng = stream(0, "split", name)
    test = np.zeros(len(y), bool)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        test[rows[: len(rows) // TEST_EVERY]] = True
    return test
