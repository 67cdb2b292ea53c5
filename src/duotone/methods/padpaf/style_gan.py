"""The networks of PaDPaF's GAN: a generator, and two discriminators.

Each discriminator is a network of features with a score on top; one is for content, one for style.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from duotone.methods.padpaf.generator import Artist, Design, Generator, StyledGenerator
from duotone.methods.padpaf.residual import ResidualGenerator, residual_features
from duotone.networks.shapes import image_shape
from duotone.types import DataInfo

_SMALLEST = 8
_GAIN = 4.0
"""Factor on the score: with spectral normalisation alone it would hardly reach the margin of 1."""


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
        width: Channels at half of the size; there are twice as many features. Of residual blocks
            as many.
        residual: Whether layers are residual blocks, as published.
    """

    def __init__(
        self, shape: tuple[int, int, int], labels: int = 0, width: int = 24, residual: bool = False
    ) -> None:
        super().__init__()
        channels = width if residual else 2 * width
        layers = residual_features if residual else feature_layers
        self.layers = layers(shape, width, spectral_norm)
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


class ContentStyleGAN(StyledGenerator):
    """A generator with its style vectorizer, two discriminators, and a linear head.

    Args:
        data: The form of the samples; images of at least 8×8 pixels.
        content: Dimensions of the content latent.
        style: Dimensions of the style latent.
        design: Whether the generator has a lens.
        conditional: Whether pictures can be asked for by their label.
        width: Channels of residual blocks, of which generator and discriminators then are made.
    """

    def __init__(
        self,
        data: DataInfo,
        content: int,
        style: int,
        design: Design,
        conditional: bool,
        width: int | None = None,
    ) -> None:
        shape = image_shape(data, "style-gan", smallest=_SMALLEST, instead="another method")
        labels = data.outputs if conditional else 0
        make: Callable[[], Artist] = partial(Generator, shape, content, style, labels, design)
        judge: Callable[..., Discriminator] = Discriminator
        if width is not None:
            make = partial(ResidualGenerator, shape, content, style, labels, width)
            judge = partial(Discriminator, width=width, residual=True)
        super().__init__(make, content, style)
        self.content = judge(shape, labels)
        self.style = judge(shape)
        # Features vary little around their means, too little for a head to learn from in time.
        self.scale = nn.BatchNorm1d(self.content.features, affine=False)
        self.head = nn.Linear(self.content.features, data.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class, read off the content features."""
        return self.classify(self.content_features(x))

    def content_features(self, x: Tensor) -> Tensor:
        """Return the content features of images seen without the lens, if there is one.

        Without their lenses all clients' images are alike, and one head can read them.
        """
        features: Tensor = self.content(self.canvas(x))
        return features

    def classify(self, features: Tensor) -> Tensor:
        """Return one score per class for given content features."""
        scores: Tensor = self.head(self.scale(features))
        return scores
