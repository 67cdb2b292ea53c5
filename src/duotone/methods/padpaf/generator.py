"""The generator of PaDPaF's GAN and VAE: content in a client's style.

The generator draws content from one latent. The other becomes a style vector, which modulates the
normalisation layers and, where there is one, sets the lens through which the picture is seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from duotone.methods.padpaf.lens import Lens
from duotone.types import Draws

Design: TypeAlias = Literal["plain", "lens"]

STYLE = ("vectorizer.", "generator.lens.", "style.")
"""How the names of all tensors begin that make or judge a style."""
REFERENCE = 250
"""How many pictures give the statistics by which others are normalised."""
LABEL = 32
"""Dimensions of a label's vector."""


class StyleVectorizer(nn.Module):
    """Turns a style latent into a style vector.

    Args:
        dimensions: Of the latent and of the vector.
        has_length: Whether the latent's length counts as well, or its direction alone.
    """

    def __init__(self, dimensions: int, has_length: bool = False) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.has_length = has_length
        layers: list[nn.Module] = []
        for _ in range(3):
            linear = nn.Linear(dimensions, dimensions)
            nn.init.kaiming_normal_(linear.weight, 0.2)
            nn.init.zeros_(linear.bias)
            layers += [linear, nn.LeakyReLU(0.2)]
        self.layers = nn.Sequential(*layers)

    def forward(self, z: Tensor) -> Tensor:
        """Return the style vectors."""
        if not self.has_length:
            z = functional.normalize(z) * math.sqrt(z.shape[1])
        style: Tensor = self.layers(z)
        return style


class ConditionalNorm(nn.Module):
    """Normalises over a batch, then scales and shifts as style and label say.

    No statistics are kept: those of different styles have no common mean, and a picture drawn with
    others' statistics is another picture.

    Args:
        channels: Of the input.
        style: Dimensions of the style vector; 0 if style has no say here.
        strength: Standard deviation of scale and shift over styles at the start.
        label: Dimensions of the label vector; 0 without labels.
    """

    def __init__(self, channels: int, style: int, strength: float, label: int) -> None:
        super().__init__()
        self.plain = nn.Parameter(torch.zeros(2 * channels))
        self.by_style = _modulation(style, 2 * channels, strength)
        self.by_label = _modulation(label, 2 * channels, 0.5)

    def forward(self, x: Tensor, style: Tensor, label: Tensor | None, reference: int = 0) -> Tensor:
        """Return the features, normalised and modulated.

        Args:
            x: Features.
            style: Style vectors.
            label: Label vectors.
            reference: How many last rows give the statistics; 0 for all.
        """
        both = self.plain.expand(len(x), -1)
        if self.by_style is not None:
            both = both + self.by_style(style)
        if self.by_label is not None and label is not None:
            both = both + self.by_label(label)
        scale, shift = both[:, :, None, None].chunk(2, dim=1)
        return normalised(x, reference) * (1 + scale) + shift


def normalised(x: Tensor, reference: int = 0) -> Tensor:
    """Return features with mean 0 and variance 1 per channel, over the last rows or over all."""
    if not reference:
        return functional.batch_norm(x, None, None, training=True)
    rows = x[-reference:]
    variance, mean = torch.var_mean(rows, dim=(0, 2, 3), correction=0, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


def _modulation(inputs: int, outputs: int, strength: float) -> nn.Linear | None:
    if not inputs:
        return None
    linear = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(linear.weight, std=strength / math.sqrt(inputs))
    return linear


class Artist(nn.Module):
    """What every generator has."""

    labels: nn.Embedding | None
    first: nn.Linear
    lens: Lens | None


class Generator(Artist):
    """Draws pictures from content latents and style vectors.

    A linear layer and a convolution at a quarter of the size, then twice up by transposed
    convolutions. In the plain design style modulates every normalisation, and pixels are a squashed
    sum of features. With a lens, style modulates only the last normalisation, which sees strokes
    and no longer shapes; what is drawn before is content alone.

    Args:
        shape: Channels, height and width of the pictures.
        content: Dimensions of the content latent.
        style: Dimensions of the style vector.
        labels: How many labels a picture can be asked for; 0 for none.
        design: Whether there is a lens.
        width: Channels at a quarter of the size.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        content: int,
        style: int,
        labels: int,
        design: Design,
        width: int = 64,
    ) -> None:
        super().__init__()
        channels, height, breadth = shape
        self.size = (height, breadth)
        self.start = (width, math.ceil(height / 4), math.ceil(breadth / 4))
        label = LABEL if labels else 0
        self.labels = nn.Embedding(labels, LABEL) if labels else None
        self.first = nn.Linear(content + label, math.prod(self.start))
        self.layers = nn.ModuleList(
            [
                nn.Conv2d(width, width, 3, padding=1),
                nn.ConvTranspose2d(width, width // 2, 4, stride=2, padding=1),
                nn.ConvTranspose2d(width // 2, channels, 4, stride=2, padding=1),
            ]
        )
        early, strength = (style, 0.5) if design == "plain" else (0, 0.2)
        self.norms = nn.ModuleList(
            ConditionalNorm(count, styled, strength, label)
            for count, styled in ((width, early), (width, early), (width // 2, style))
        )
        self.lens = Lens(channels, style) if design == "lens" else None

    def forward(
        self, content: Tensor, style: Tensor, label: Tensor | None = None, reference: int = 0
    ) -> Tensor:
        """Return pictures; black is 0 and white is 1, and a lens may go beyond.

        Args:
            content: Content latents.
            style: Style vectors.
            label: What to show, one class each.
            reference: How many last rows give the statistics of all; 0 for a batch's own.
        """
        asked = None if self.labels is None else self.labels(label)
        if asked is not None:
            content = torch.cat([content, asked], dim=1)
        h = self.first(content).view(-1, *self.start)
        h = h.contiguous(memory_format=torch.channels_last)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            h = layer(functional.relu(norm(h, style, asked, reference)))
        canvas = h[..., : self.size[0], : self.size[1]].sigmoid()
        pictures: Tensor = canvas if self.lens is None else self.lens(canvas, style)
        return pictures


class StyledGenerator(nn.Module):
    """A generator with its style vectorizer: what PaDPaF's GAN and VAE have in common.

    Args:
        make: Builds what draws the pictures.
        content: Dimensions of the content latent.
        style: Dimensions of the style latent.
        has_length: Whether the style latent's length counts as well.
    """

    def __init__(
        self, make: Callable[[], Artist], content: int, style: int, has_length: bool = False
    ) -> None:
        super().__init__()
        self.dimensions = (content, style)
        self.vectorizer = StyleVectorizer(style, has_length)
        self.generator = make()

    def prior(self, count: int, generator: torch.Generator) -> Draws:
        """Draw the latents of some pictures from their prior."""
        content, style = (torch.randn(count, d, generator=generator) for d in self.dimensions)
        device = self.generator.first.weight.device
        return Draws(content.to(device), style.to(device))

    def draw(self, content: Tensor, style: Tensor, label: Tensor | None = None) -> Tensor:
        """Return the pictures of some latents, normalised over this batch: for training."""
        pictures: Tensor = self.generator(content, self.vectorizer(style), label)
        return pictures

    def sample(self, content: Tensor, style: Tensor, label: Tensor | None = None) -> Tensor:
        """Return the pictures of some latents, each the same whatever others are drawn with it.

        They are normalised by the statistics of latents that are always the same.
        """
        fixed = torch.Generator().manual_seed(0)
        contents, styles = (
            torch.randn(REFERENCE, latent.shape[1], generator=fixed).to(latent)
            for latent in (content, style)
        )
        if label is not None and self.generator.labels is not None:
            classes = torch.arange(REFERENCE, device=label.device)
            label = torch.cat([label, classes % self.generator.labels.num_embeddings])
        pictures: Tensor = self.generator(
            torch.cat([content, contents]),
            self.vectorizer(torch.cat([style, styles])),
            label,
            REFERENCE,
        )
        return pictures[:-REFERENCE]

    def canvas(self, x: Tensor) -> Tensor:
        """Return images without the lens, if there is one, set to the mean of all styles."""
        if self.generator.lens is None:
            return x
        fixed = torch.Generator().manual_seed(0)
        styles = torch.randn(REFERENCE, self.vectorizer.dimensions, generator=fixed).to(x)
        return self.generator.lens.canvas(x, self.vectorizer(styles).mean(dim=0, keepdim=True))

    def fit_lens(self, x: Tensor) -> None:
        """Start the lens, if there is one, from some images."""
        if self.generator.lens is not None:
            self.generator.lens.start(x)
