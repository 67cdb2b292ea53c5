"""The lens of PaDPaF's generator: how a client shows a canvas that all clients draw alike."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

_KNOTS = 3
"""Amounts between no ink and full ink at which tones can bend."""
_LEVELS = 33
"""How many amounts are tried to find that of a bent tone."""
_SPREAD = 0.35
"""Standard deviation of what is drawn on a canvas, whose edges are at −1 and 1."""


class LensStart(NamedTuple):
    """What a lens starts from: two tones of each channel, and a frame."""

    ground: Tensor
    ink: Tensor
    frame: Tensor


class Lens(nn.Module):
    """Shows what is drawn on a canvas: where, how large, turned, sharp, and in which tones.

    A canvas says of each pixel and channel how much ink is there. The frame maps places of the
    picture to places of the canvas, outside of which there is no ink. A style vector moves both the
    tones and the frame. Pixels are linear in the tones, so that a client can go from light on dark
    to dark on light without passing a picture that gives no gradient. Between the tones of no ink
    and full ink is a straight line, unless a client bends it: see ``curve``, which is not trained
    unless asked to.

    Args:
        channels: Of the pictures.
        style: Dimensions of the style vector.
    """

    def __init__(self, channels: int, style: int) -> None:
        super().__init__()
        self.ground = nn.Parameter(torch.zeros(channels))
        self.ink = nn.Parameter(torch.ones(channels))
        self.curve = nn.Parameter(torch.zeros(channels, _KNOTS), requires_grad=False)
        self.frame = nn.Parameter(torch.eye(2, 3))
        self.tones_by_style = nn.Linear(style, 2 * channels, bias=False)
        self.frame_by_style = nn.Linear(style, 6, bias=False)
        self.blur = nn.Parameter(torch.zeros(1))
        self.blur_by_style = nn.Linear(style, 1, bias=False)
        nn.init.normal_(self.tones_by_style.weight, std=0.05 / math.sqrt(style))
        nn.init.normal_(self.frame_by_style.weight, std=0.015 / math.sqrt(style))
        nn.init.normal_(self.blur_by_style.weight, std=0.05 / math.sqrt(style))
        bell = torch.exp(-0.5 * (torch.arange(-2, 3) / 2) ** 2)
        bell = torch.outer(bell, bell) / bell.sum() ** 2
        self.register_buffer("bell", bell.expand(channels, 1, 5, 5).clone(), persistent=False)
        self.bell: Tensor

    def forward(self, canvas: Tensor, style: Tensor) -> Tensor:
        """Return the picture of a canvas."""
        frame, ground, ink = self._setting(style)
        seen = _through(canvas, frame)
        smooth = functional.conv2d(seen, self.bell, padding=2, groups=len(self.bell))
        blur = (self.blur + self.blur_by_style(style))[:, :, None, None]
        seen = seen + blur * (smooth - seen)
        pictures: Tensor = ground + (ink - ground) * seen
        return pictures + bent(seen, self.curve)

    def canvas(self, x: Tensor, style: Tensor) -> Tensor:
        """Return what a picture shows when the lens is taken off: the way back, but for the blur.

        Args:
            x: Pictures.
            style: One style vector for all of them.
        """
        frame, ground, ink = self._setting(style)
        back = torch.linalg.pinv(frame[:, :, :2])  # a frame may be squeezed to a line
        frame = torch.cat([back, -back @ frame[:, :, 2:]], dim=2)
        return _through(self._amount(x, ground, ink), frame.expand(len(x), 2, 3))

    def _amount(self, x: Tensor, ground: Tensor, ink: Tensor) -> Tensor:
        """Return how much ink has the tones of a picture; of several amounts the smallest."""
        if not bool(self.curve.any()):
            contrast = ink - ground
            contrast = torch.where(contrast < 0, -1, 1) * contrast.abs().clamp(min=0.05)
            return ((x - ground) / contrast).clamp(0, 1)
        amount, nearest = torch.zeros_like(x), torch.full_like(x, math.inf)
        for level in torch.linspace(0, 1, _LEVELS).tolist():
            tone = (
                ground + (ink - ground) * level + bent(torch.full_like(ground, level), self.curve)
            )
            distance = (x - tone).abs()
            amount = torch.where(distance < nearest, level, amount)
            nearest = torch.minimum(distance, nearest)
        return amount

    def _setting(self, style: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return frame, ground and ink for some style vectors."""
        frame: Tensor = self.frame + self.frame_by_style(style).view(-1, 2, 3)
        ground, ink = self.tones_by_style(style)[:, :, None, None].chunk(2, dim=1)
        return frame, ground + self.ground[:, None, None], ink + self.ink[:, None, None]

    @contextmanager
    def bending(self) -> Iterator[None]:
        """Let the curve be trained for a while."""
        self.curve.requires_grad_(True)
        try:
            yield
        finally:
            self.curve.requires_grad_(False)

    @torch.no_grad()
    def start(self, x: Tensor) -> None:
        """Set tones and frame to those of some images; see :func:`lens_of`."""
        found = lens_of(x)
        self.ground.copy_(found.ground)
        self.ink.copy_(found.ink)
        self.frame.copy_(found.frame)


def bent(amount: Tensor, curve: Tensor) -> Tensor:
    """Return how far tones are off the straight line between ground and ink.

    Args:
        amount: Of ink, by image, channel, row and column; 0 to 1.
        curve: By channel how far off they are at evenly spaced amounts between 0 and 1. There they
            are on the line, as beyond; between two amounts it is interpolated.
    """
    intervals = curve.shape[1] + 1
    off = functional.pad(curve, (1, 1))
    place = (amount * intervals).clamp(0, intervals)
    left = place.detach().floor().clamp(max=intervals - 1)
    channel = torch.arange(len(off), device=off.device).view(-1, 1, 1)
    low, high = (off[channel, left.long() + step] for step in (0, 1))
    shifts: Tensor = low + (high - low) * (place - left)
    return shifts


def _through(images: Tensor, frame: Tensor) -> Tensor:
    """Return what a frame shows of some images, and nothing outside of them."""
    grid = functional.affine_grid(frame, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def lens_of(x: Tensor) -> LensStart:
    """Return the lens through which a common canvas would resemble some images.

    The ground is the median of a channel, the ink the mean of that twentieth of its pixels which is
    furthest from it. Where the ink is and how far it spreads, over all images, gives the frame: on
    the canvas it is in the middle, and spreads by the same amount for all clients.
    """
    channels = x.transpose(0, 1).flatten(1)
    ground = channels.median(dim=1).values
    distance = (channels - ground[:, None]).abs()
    furthest = distance.topk(max(1, channels.shape[1] // 20), dim=1).indices
    ink = channels.gather(1, furthest).mean(dim=1)
    contrast = (ink - ground)[:, None, None]
    if bool((contrast.abs() < 1e-3).any()):  # a blank channel shows no place and no size
        return LensStart(ground, ink, torch.eye(2, 3))
    amount = ((x - ground[:, None, None]) / contrast).clamp(0, 1).sum(dim=(0, 1))
    share = amount / amount.sum()
    centre: list[Tensor] = []
    variance: list[Tensor] = []
    for marginal in (share.sum(dim=0), share.sum(dim=1)):  # across, down
        place = (torch.arange(len(marginal)) + 0.5) / len(marginal) * 2 - 1
        centre.append((marginal * place).sum())
        variance.append((marginal * (place - centre[-1]).square()).sum())
    scale = _SPREAD / torch.stack(variance).mean().sqrt().clamp(min=0.05)
    shift = -scale * torch.stack(centre)
    frame = torch.cat([scale * torch.eye(2), shift[:, None]], dim=1)
    return LensStart(ground, ink, frame)
