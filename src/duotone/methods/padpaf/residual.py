"""PaDPaF's networks as published: residual blocks in the generator and in the discriminators.

The generator follows Gulrajani et al. (2017) with conditional normalisation in every block, the
features those of He et al. (2016). Sizes are those of the authors' code, since the paper has none:
every block has the same width, three of them draw up to 32 pixels and four up to 64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from duotone.methods.padpaf.generator import LABEL, Artist, ConditionalNorm

WIDTH = 64
"""Channels of every block; the paper's feature dimension for MNIST."""


class UpBlock(nn.Module):
    """Draws at twice the size: two normalised convolutions beside a plain enlargement.

    Args:
        width: Channels.
        style: Dimensions of the style vector.
        label: Dimensions of the label vector; 0 without labels.
    """

    def __init__(self, width: int, style: int, label: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(ConditionalNorm(width, style, 0.5, label) for _ in range(2))
        self.layers = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor, style: Tensor, label: Tensor | None, reference: int) -> Tensor:
        """Return features of twice the height and width."""
        h = functional.relu(self.norms[0](x, style, label, reference))
        h = self.layers[0](functional.interpolate(h, scale_factor=2.0))
        h = self.layers[1](functional.relu(self.norms[1](h, style, label, reference)))
        enlarged: Tensor = functional.interpolate(x, scale_factor=2.0) + h
        return enlarged


class ResidualGenerator(Artist):
    """Draws pictures from content latents and style vectors by residual blocks.

    Args:
        shape: Channels, height and width of the pictures.
        content: Dimensions of the content latent.
        style: Dimensions of the style vector.
        labels: How many labels a picture can be asked for; 0 for none.
        width: Channels of every block.
    """

    def __init__(
        self, shape: tuple[int, int, int], content: int, style: int, labels: int, width: int = WIDTH
    ) -> None:
        super().__init__()
        self.lens = None
        channels, *self.size = shape
        blocks = 4 if max(self.size) > 32 else 3
        self.start = (width, *(math.ceil(length / 2**blocks) for length in self.size))
        label = LABEL if labels else 0
        self.labels = nn.Embedding(labels, LABEL) if labels else None
        self.first = nn.Linear(content + label, math.prod(self.start))
        self.blocks = nn.ModuleList(UpBlock(width, style, label) for _ in range(blocks))
        self.norm = ConditionalNorm(width, style, 0.5, label)
        self.last = nn.Conv2d(width, channels, 3, padding=1)

    def forward(
        self, content: Tensor, style: Tensor, label: Tensor | None = None, reference: int = 0
    ) -> Tensor:
        """Return pictures; black is 0 and white is 1. The arguments are those of ``Generator``."""
        asked = None if self.labels is None else self.labels(label)
        if asked is not None:
            content = torch.cat([content, asked], dim=1)
        h = self.first(content).view(-1, *self.start)
        h = h.contiguous(memory_format=torch.channels_last)
        for block in self.blocks:
            h = block(h, style, asked, reference)
        h = self.last(functional.relu(self.norm(h, style, asked, reference)))
        pictures: Tensor = h[..., : self.size[0], : self.size[1]].sigmoid()
        return pictures


class DownBlock(nn.Module):
    """Two convolutions beside a short cut; both are made half as large if asked for.

    Args:
        inputs: Channels that come in.
        width: Channels that go out.
        halves: Whether height and width are halved.
        wrap: What is done to every layer with weights.
        is_first: Whether images come in, which no activation has gone over.
    """

    def __init__(
        self,
        inputs: int,
        width: int,
        halves: bool,
        wrap: Callable[[nn.Module], nn.Module],
        is_first: bool = False,
    ) -> None:
        super().__init__()
        pool = nn.AvgPool2d(2, ceil_mode=True) if halves else nn.Identity()
        before = nn.Identity() if is_first else nn.LeakyReLU(0.1)
        self.layers = nn.Sequential(
            before,
            wrap(nn.Conv2d(inputs, width, 3, padding=1)),
            nn.LeakyReLU(0.1),
            wrap(nn.Conv2d(width, width, 3, padding=1)),
            pool,
        )
        way = nn.Identity() if inputs == width else wrap(nn.Conv2d(inputs, width, 1))
        self.bypass = nn.Sequential(pool, way)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features."""
        features: Tensor = self.layers(x) + self.bypass(x)
        return features


def residual_features(
    shape: tuple[int, int, int], width: int, norm: Callable[[nn.Module], nn.Module]
) -> nn.Sequential:
    """Build residual blocks from images to the mean of ``width`` features over all places.

    Args:
        shape: Channels, height and width of the images.
        width: Channels of every block.
        norm: What is done to every layer with weights.
    """
    same = 3 if max(shape[1:]) > 32 else 2
    return nn.Sequential(
        DownBlock(shape[0], width, True, norm, is_first=True),
        DownBlock(width, width, True, norm),
        *(DownBlock(width, width, False, norm) for _ in range(same)),
        nn.LeakyReLU(0.1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
