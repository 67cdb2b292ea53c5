"""Small data sets to deal out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from duotone.data.dataset import Dataset

MakeDataset = Callable[..., Dataset]


@pytest.fixture(scope="session")
def make_dataset() -> MakeDataset:
    """Return a function that makes data of tiny images with the classes in turn: 0, 1, 2, 0, …"""

    def make(train: int = 400, test: int = 100, classes: int = 4, **more: Any) -> Dataset:
        rows = np.arange(train + test)
        x = np.broadcast_to((rows % 256).astype(np.uint8)[:, None, None], (len(rows), 2, 2))
        y_train, y_test = np.arange(train) % classes, np.arange(test) % classes
        return Dataset.from_arrays("toy", x[:train], y_train, x[train:], y_test, **more)

    return make


@pytest.fixture(scope="session")
def regression() -> Dataset:
    """Return a table with real-valued targets."""
    x = np.zeros((120, 3), np.float32)
    y = np.linspace(0, 1, 120, dtype=np.float32)
    return Dataset.from_arrays("prices", x[:100], y[:100], x[100:], y[100:])
