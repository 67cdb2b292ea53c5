"""The network of PaDPaF's VAE: two encoders, and the generator of its GAN as a decoder."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from duotone.methods.padpaf.generator import Design, Generator, StyledGenerator
from duotone.methods.padpaf.style_gan import feature_layers, projector
from duotone.networks.gaussian import Gaussian
from duotone.networks.shapes import image_shape
from duotone.types import DataInfo

_SMALLEST = 8


class LatentEncoder(nn.Module):
    """The layers of a discriminator, without spectral normalisation, that give a latent.

    Args:
        shape: Channels, height and width of the images.
        dimensions: Of the latent.
        width: Channels at half of the size.
    """

    def __init__(self, shape: tuple[int, int, int], dimensions: int, width: int = 24) -> None:
        super().__init__()
        self.layers = feature_layers(shape, width)
        self.mean = nn.Linear(2 * width, dimensions)
        self.log_variance = nn.Linear(2 * width, dimensions)
        self.projector = projector(2 * dimensions)

    def forward(self, x: Tensor) -> Gaussian:
        """Return the posterior of each image's latent."""
        h = self.layers(2 * x - 1)
        # Outside, exp() would overflow or the density of a latent become a spike.
        return Gaussian(self.mean(h), self.log_variance(h).clamp(-8, 6))

    def projected(self, q: Gaussian) -> Tensor:
        """Return projections of posteriors, to compare them by."""
        projections: Tensor = self.projector(torch.cat([q.mean, q.log_variance], dim=1))
        return projections


class ContentStyleVAE(StyledGenerator):
    """Encoders of content and style, a generator with its style vectorizer, and a linear head.

    Args:
        data: The form of the samples; images of at least 8×8 pixels.
        content: Dimensions of the content latent.
        style: Dimensions of the style latent.
        design: Whether the generator has a lens.
    """

    def __init__(self, data: DataInfo, content: int, style: int, design: Design) -> None:
        shape = image_shape(data, "style-vae", smallest=_SMALLEST, instead="another method")
        # A mean is shorter than a draw around it: by its direction alone, an image would be
        # decoded in a stronger style than it was trained to have.
        make = partial(Generator, shape, content, style, 0, design)
        super().__init__(make, content, style, has_length=True)
        self.content = LatentEncoder(shape, content)
        self.style = LatentEncoder(shape, style)
        self.head = nn.Linear(content, data.outputs)

    def encode(self, x: Tensor) -> tuple[Gaussian, Gaussian]:
        """Return the posteriors of content and style; content is seen without the lens."""
        with torch.no_grad():  # the lens is trained by what is drawn, not by what is encoded
            canvas = self.canvas(x)
        return self.content(canvas), self.style(x)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class, read off the mean of the content latent."""
        scores: Tensor = self.head(self.encode(x)[0].mean)
        return scores
