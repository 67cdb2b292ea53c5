"""Change the size of many images at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_BLOCK = 2048


def resized(images: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return images at another size, bilinear and smoothed when they become smaller.

    Args:
        images: ``(rows, height, width)`` or ``(rows, height, width, channels)``.
        height: The new height.
        width: The new width.
    """
    import torch
    from torch.nn.functional import interpolate

    new = np.empty((len(images), height, width, *images.shape[3:]), np.uint8)
    old_4d = images.reshape(*images.shape[:3], -1)
    new_4d = new.reshape(*new.shape[:3], -1)
    # In blocks, so that the float copies stay small however many images there are.
    for start in range(0, len(images), _BLOCK):
        block = torch.from_numpy(old_4d[start : start + _BLOCK].astype(np.float32))
        scaled = interpolate(
            block.permute(0, 3, 1, 2), (height, width), mode="bilinear", antialias=True
        )
        pixels = scaled.round_().clamp_(0, 255).permute(0, 2, 3, 1)
        new_4d[start : start + _BLOCK] = pixels.numpy()
    return new
