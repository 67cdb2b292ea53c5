"""A sheet: a picture of a run, with what a reader should know about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Images: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A picture of a run, with what a reader should know.

    Attributes:
        name: Of its file, without ending.
        section: Where a report shows it.
        title: What it is.
        caption: What to look for.
        mislead: How it can mislead.
        tiles: The images, ``(rows, columns, height, width, channels)`` in bytes.
        heads: How many first rows and columns stand apart, being originals.
    """

    name: str
    section: str
    title: str
    caption: str
    mislead: str
    tiles: Images
    heads: tuple[int, int] = (0, 0)


def pixels(images: Tensor) -> Images:
    """Return images as they are looked at: bytes, channels last."""
    values: Images = images.clamp(0, 1).mul(255).round().byte().permute(0, 2, 3, 1).numpy()
    return values
