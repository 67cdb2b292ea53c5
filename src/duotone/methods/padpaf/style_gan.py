"""The networks of PaDPaF: a generator of content in a style, and two discriminators.

The generator draws content from one latent. The other becomes a style vector, which modulates the
normalisation layers and, where there is one, sets the lens through which the picture is seen. Each
discriminator is a network of features with a score on top; one is for content, one for style.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from duotone.methods.padpaf.lens import Lens
from duotone.networks.shapes import image_shape
from duotone.types import DataInfo

Design: TypeAlias = Literal["plain", "lens"]

_SMALLEST = 8
_GAIN = 4.0
"""Factor on the score: with spectral normalisation alone it would hardly reach the margin of 1."""
REFERENCE = 250
"""How many pictures give the statistics by which others are normalised."""
_LABEL = 32  # dimensions of a label's vector in the generator


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
    somebody else's is another picture.

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


class Generator(nn.Module):
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
        label = _LABEL if labels else 0
        self.labels = nn.Embedding(labels, _LABEL) if labels else None
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


def feature_layers(
    shape: tuple[int, int, int], width: int, norm: Callable[[nn.Module], nn.Module] | None = None
) -> nn.Sequential:
    """Build layers from images to twice ``width`` features.

    Args:
        shape: Channels, height and width of the images.
        width: Channels at half of the size.
        norm: What is done to every layer with weights.
    """
    wrap = norm or (lambda layer: layer)
    channels, *size = shape
    layers: list[nn.Module] = []
    for out in (width, 2 * width):
        kernel = 4 if size[0] % 2 == size[1] % 2 == 0 else 3  # halves both, rounding up
        convolution = nn.Conv2d(channels, out, kernel, stride=2, padding=1)
        layers += [wrap(convolution), nn.LeakyReLU(0.1)]
        channels, size = out, [math.ceil(length / 2) for length in size]
    last = nn.Conv2d(channels, channels, 3, padding=1)
    layers += [wrap(last), nn.LeakyReLU(0.1), nn.Flatten()]
    layers += [wrap(nn.Linear(channels * math.prod(size), channels))]
    return nn.Sequential(*layers, nn.LeakyReLU(0.1))


def projector(features: int) -> nn.Sequential:
    """Build layers that project features to what is compared by correlations.

    Projections are needed in training alone, and so are their statistics.
    """
    return nn.Sequential(
        nn.Linear(features, 2 * features, bias=False),
        nn.BatchNorm1d(2 * features, track_running_stats=False),
        nn.ReLU(),
        nn.Linear(2 * features, 2 * features, bias=False),
    )


class Discriminator(nn.Module):
    """Features of an image, a score of how real it looks, and a projection to compare features by.

    All layers up to the score have spectral normalisation, so that the score cannot be steep.

    Args:
        shape: Channels, height and width of the images.
        labels: How many labels an image can be said to have; 0 for none.
        width: Channels at half of the size; there are twice as many features.
    """

    def __init__(self, shape: tuple[int, int, int], labels: int = 0, width: int = 24) -> None:
        super().__init__()
        channels = 2 * width
        self.layers = feature_layers(shape, width, spectral_norm)
        self.score = spectral_norm(nn.Linear(channels, 1))
        self.labels = nn.Embedding(labels, channels) if labels else None
        if self.labels is not None:
            nn.init.normal_(self.labels.weight, std=0.1)
        self.projector = projector(channels)
        self.features = channels

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of images in [0, 1]."""
        features: Tensor = self.layers(2 * x - 1)
        return features

    def judge(self, features: Tensor, label: Tensor | None = None) -> Tensor:
        """Return the score of images with these features, for what they are said to show: Eq. (5).

        Args:
            features: From :meth:`forward`.
            label: What the images are said to show, one class each; a negative one is not known.
        """
        score: Tensor = _GAIN * self.score(features).squeeze(1)
        if self.labels is None or label is None:
            return score
        is_known = label >= 0
        fit: Tensor = (self.labels(label.clamp(min=0)) * features).sum(dim=1)
        return score + fit * is_known


def reference_latents(content: Tensor, style: Tensor) -> tuple[Tensor, Tensor]:
    """Return latents that are always the same, of the form of some others."""
    fixed = torch.Generator().manual_seed(0)
    contents = torch.randn(REFERENCE, content.shape[1], generator=fixed).to(content)
    styles = torch.randn(REFERENCE, style.shape[1], generator=fixed).to(style)
    return contents, styles


def canvas_of(x: Tensor, generator: Generator, vectorizer: StyleVectorizer) -> Tensor:
    """Return images without the generator's lens, if it has one, set to the mean of all styles."""
    if generator.lens is None:
        return x
    fixed = torch.Generator().manual_seed(0)
    styles = torch.randn(REFERENCE, vectorizer.dimensions, generator=fixed).to(x)
    return generator.lens.canvas(x, vectorizer(styles).mean(dim=0, keepdim=True))


class ContentStyleGAN(nn.Module):
    """A generator with its style vectorizer, two discriminators, and a linear head.

    Args:
        data: The form of the samples; images of at least 8×8 pixels.
        content: Dimensions of the content latent.
        style: Dimensions of the style latent.
        design: Whether the generator has a lens.
        conditional: Whether pictures can be asked for by their label.
    """

    def __init__(
        self, data: DataInfo, content: int, style: int, design: Design, conditional: bool
    ) -> None:
        super().__init__()
        shape = image_shape(data, "style-gan", smallest=_SMALLEST, instead="another method")
        labels = data.outputs if conditional else 0
        self.vectorizer = StyleVectorizer(style)
        self.generator = Generator(shape, content, style, labels, design)
        self.content = Discriminator(shape, labels)
        self.style = Discriminator(shape)
        # Features vary little around their means, too little for a head to learn from in time.
        self.scale = nn.BatchNorm1d(self.content.features, affine=False)
        self.head = nn.Linear(self.content.features, data.outputs)

    def draw(self, content: Tensor, style: Tensor, label: Tensor | None = None) -> Tensor:
        """Return the pictures of some latents, normalised over this batch: for training."""
        pictures: Tensor = self.generator(content, self.vectorizer(style), label)
        return pictures

    def sample(self, content: Tensor, style: Tensor, label: Tensor | None = None) -> Tensor:
        """Return the pictures of some latents, each the same whatever others are drawn with it.

        The statistics are those of latents that are always the same.
        """
        contents, styles = reference_latents(content, style)
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

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class, read off the content features."""
        return self.classify(self.content_features(x))

    def content_features(self, x: Tensor) -> Tensor:
        """Return the content features of images seen without the lens, if there is one.

        Through its own lens every client's images look alike, and one head can read them.
        """
        features: Tensor = self.content(self.canvas(x))
        return features

    def canvas(self, x: Tensor) -> Tensor:
        """Return images without the lens, which is set to the mean of all styles."""
        return canvas_of(x, self.generator, self.vectorizer)

    def classify(self, features: Tensor) -> Tensor:
        """Return one score per class for given content features."""
        scores: Tensor = self.head(self.scale(features))
        return scores
