"""No test of this folder sees the data of the machine it runs on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WriteNpz = Callable[..., Path]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the user cache at an empty folder; return where duotone keeps its files in it."""
    monkeypatch.delenv("DUOTONE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "duotone"


@pytest.fixture
def write_npz() -> WriteNpz:
    """Return a function that writes a canonical file of random images, ten classes in turn."""

    def write(
        path: Path,
        train: int = 20,
        test: int = 10,
        form: tuple[int, ...] = (8, 8),
        **more: Any,
    ) -> Path:
        rng = np.random.default_rng(0)
        arrays = {
            "x_train": rng.integers(0, 256, (train, *form), np.uint8),
            "y_train": np.arange(train) % 10,
            "x_test": rng.integers(0, 256, (test, *form), np.uint8),
            "y_test": np.arange(test) % 10,
            **more,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
        return path

    return write
