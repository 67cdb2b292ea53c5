"""Marks that duotone does not know, for studies: lines, frames and blocks over real digits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from duotone.data import Dataset, load_dataset
from duotone.seeding import stream

KINDS = ("plain", "line", "frame", "block")


def lines_frames_blocks() -> Dataset:
    """MNIST in four domains: nothing, a line, a frame or a block drawn over every digit.

    The factor ``phase`` is the direction in which a frame or block lies from the middle, and twice
    the direction of a line; NaN where nothing is drawn.
    """
    digits = load_dataset("mnist")
    rng = stream(0, "new marks")
    kind = rng.integers(len(KINDS), size=len(digits))
    phase = rng.uniform(0, 2 * np.pi, len(digits))
    drawn = np.stack([_mark(KINDS[k], p) for k, p in zip(kind, phase, strict=True)])
    return replace(
        digits,
        name="marked by lines, frames and blocks",
        x=np.maximum(digits.x, drawn),
        domain=np.array(KINDS)[kind],
        factors={"mark": kind, "phase": np.where(kind == 0, np.nan, phase)},
    )


def _mark(kind: str, phase: float) -> NDArray[np.uint8]:
    row, column = np.mgrid[:28, :28] - 13.5
    down, right = row - 7 * np.sin(phase), column - 7 * np.cos(phase)
    if kind == "line":
        distance = np.abs(row * np.cos(phase / 2) - column * np.sin(phase / 2))
        is_drawn = distance < 0.7
    elif kind == "frame":
        is_drawn = np.abs(np.maximum(np.abs(down), np.abs(right)) - 6) < 0.5
    else:
        is_drawn = (kind == "block") & (np.maximum(np.abs(down), np.abs(right)) < 3)
    return np.where(is_drawn, 255, 0).astype(np.uint8)
