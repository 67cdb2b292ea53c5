"""Images in other colours, for those who are to see past them: encoders of content, and judges."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

CELLS = (2, 4, 8, 14)
"""Cells a side of the noise that makes a texture, from a gradient to a grain."""
MOST_CLOUDED = 0.6
"""How much of a level may be texture."""


def recoloured(x: Tensor, black: Tensor, white: Tensor) -> Tensor:
    """Return images whose black and white, in every channel, are other levels.

    Args:
        x: Images with pixels in [0, 1].
        black: What 0 becomes, for each channel of each image or for each of its pixels.
        white: What 1 becomes; below black the channel is inverted.
    """
    return black + (white - black) * x


def random_levels(samples: int, channels: int) -> tuple[Tensor, Tensor]:
    """Draw black and white, at least 0.3 apart, either of them the brighter one."""
    span = 0.3 + 0.7 * torch.rand(samples, channels, 1, 1)
    low = (1 - span) * torch.rand(samples, channels, 1, 1)
    is_negative = torch.rand(samples, channels, 1, 1) < 0.5
    return low + span * is_negative, low + span * ~is_negative


def random_clouds(shape: torch.Size) -> Tensor:
    """Draw smooth textures for some images: coarse noise between 0 and 1, enlarged."""
    cells = CELLS[int(torch.randint(len(CELLS), ()))]
    noise = torch.rand(*shape[:2], cells, cells)
    return functional.interpolate(noise, shape[2:], mode="bilinear")


def random_textures(shape: torch.Size) -> tuple[Tensor, Tensor]:
    """Draw black and white that vary from pixel to pixel, in some images more than in others."""
    strength = MOST_CLOUDED * torch.rand(shape[0], 1, 1, 1)
    black, white = (
        torch.lerp(level, random_clouds(shape), strength) for level in random_levels(*shape[:2])
    )
    return black, white


def half_changed(x: Tensor, black: Tensor, white: Tensor) -> Tensor:
    """Return images of which half, drawn at random, have other levels for black and white."""
    is_kept = torch.rand(len(x), 1, 1, 1) < 0.5
    return torch.where(is_kept.to(x.device), x, recoloured(x, black.to(x), white.to(x)))
