"""The networks of FedDVA: two cascaded probabilistic encoders, and decoders for two codes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from duotone.networks.gaussian import Gaussian
from duotone.networks.shapes import image_shape
from duotone.types import DataInfo

Composition: TypeAlias = Literal["one-piece", "over", "modulate"]

PRINTED = 4
"""Convolutions of the paper's encoders; its decoder is "the reverse of the encoding modules"."""
HIDDEN = 128
"""Units of the layer between convolutions and code."""
_SMALLEST = 8
_LARGEST_FLAT = 40  # pixels a side; beyond them a decoder without convolutions is mostly one matrix


def convolutions(size: tuple[int, int], depth: int) -> list[tuple[int, tuple[int, int]]]:
    """Return the channels and the height and width that each convolution of an encoder leaves.

    >>> convolutions((28, 28), 4)
    [(16, (14, 14)), (32, (7, 7)), (64, (4, 4)), (64, (4, 4))]
    """
    found: list[tuple[int, tuple[int, int]]] = []
    width = 16
    while max(size) > 4:
        size = (math.ceil(size[0] / 2), math.ceil(size[1] / 2))
        found.append((width, size))
        width *= 2
    found += [(width // 2, size)] * (depth - len(found))
    return found


class GaussianEncoder(nn.Module):
    """Convolutions of stride 2 down to 4×4 pixels or fewer, a hidden layer, mean and log-variance.

    Where more convolutions are asked for, the last ones keep the size.

    Without normalisation layers: the statistics of a client's batches would reach its codes.

    Args:
        channels: Channels of the input.
        size: Its height and width.
        dimensions: Dimensions of the code.
        depth: How many convolutions there are at least.
    """

    def __init__(
        self, channels: int, size: tuple[int, int], dimensions: int, depth: int = 0
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width, reached in convolutions(size, depth):
            if reached == size:
                layers += [nn.Conv2d(channels, width, 3, padding=1), leaky()]
            else:
                kernel = 4 if size[0] % 2 == size[1] % 2 == 0 else 3  # halves both, rounding up
                layers += [nn.Conv2d(channels, width, kernel, stride=2, padding=1), leaky()]
            channels, size = width, reached
        layers += [nn.Flatten(), nn.Linear(channels * math.prod(size), HIDDEN), leaky()]
        self.layers = nn.Sequential(*layers)
        self.mean = nn.Linear(HIDDEN, dimensions)
        self.log_variance = nn.Linear(HIDDEN, dimensions)

    def forward(self, x: Tensor) -> Gaussian:
        """Return the posterior of each sample's code."""
        h = self.layers(x)
        # Outside, exp() would overflow or the density of a code become a spike.
        return Gaussian(self.mean(h), self.log_variance(h).clamp(-8, 6))


class OnePiece(nn.Module):
    """A decoder that may mix both codes as it likes, as in the paper.

    Args:
        shape: Channels, height and width of the images.
        shared: Dimensions of the shared code.
        local: Dimensions of the local code.
        depth: How many convolutions it has, those of the encoder in reverse; without, it has as
            many as the image needs.
    """

    def __init__(
        self, shape: tuple[int, int, int], shared: int, local: int, *, depth: int = 0
    ) -> None:
        super().__init__()
        codes = shared + local
        self.both = mirrored(codes, shape, depth) if depth else branch(codes, shape)

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        """Return the logits of all pixels."""
        logits: Tensor = self.both(torch.cat([z, c], dim=1))
        return logits


def mirrored(dimensions: int, shape: tuple[int, int, int], depth: int) -> nn.Sequential:
    """Build the layers of an encoder in reverse, from a code to the logits of an image."""
    channels, *size = shape
    height, breadth = size
    steps = convolutions((height, breadth), depth)
    width, reached = steps[-1]
    layers: list[nn.Module] = [nn.Linear(dimensions, HIDDEN), leaky()]
    layers += [nn.Linear(HIDDEN, width * math.prod(reached)), leaky()]
    layers += [nn.Unflatten(1, (width, *reached))]
    for below, before in reversed([(channels, (height, breadth)), *steps[:-1]]):
        if before != reached:
            # Up by repetition and then a convolution: transposed ones leave checkerboards.
            layers.append(nn.Upsample(size=before))
        layers += [nn.Conv2d(width, below, 3, padding=1), leaky()]
        width, reached = below, before
    return nn.Sequential(*layers[:-1])  # logits are not rectified


class Over(nn.Module):
    """Draws what the local code says over what the shared code says.

    A pixel is bright unless content and mark both leave it dark: 1 − p = (1 − p_z)(1 − p_c).
    Neither branch sees the other's code, so neither can do its work.
    """

    def __init__(self, shape: tuple[int, int, int], shared: int, local: int) -> None:
        super().__init__()
        self.content = branch(shared, shape)
        self.mark = branch(local, shape)
        # Marks are rare pixels; at one half everywhere they would hide the content at first. The
        # content starts bright: if both started dark, z and c might swap their roles.
        with torch.no_grad():
            list(self.mark.parameters())[-1].fill_(-3)

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        """Return the logits of all pixels."""
        a, b = self.content(z), self.mark(c)
        return noisy_or(a, b)


def noisy_or(a: Tensor, b: Tensor) -> Tensor:
    """Return the logit of 1 − (1 − σ(a))(1 − σ(b)), without leaving logits.

    >>> noisy_or(torch.tensor(0.0), torch.tensor(0.0)).sigmoid()
    tensor(0.7500)
    """
    return torch.logaddexp(torch.logaddexp(a, b), a + b)


class Modulate(nn.Module):
    """Renders what the shared code says in a manner of the client's own.

    A trunk turns the shared code into features; the local code scales and shifts them, and the
    layer that makes pixels of them is local: zoom, blur, inversion and colours are linear maps of
    an image, and so of the features it is made from.
    """

    def __init__(self, shape: tuple[int, int, int], shared: int, local: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(shared, 200), leaky(), nn.Linear(200, 400))
        self.manner = nn.Sequential(nn.Linear(local, 64), leaky(), nn.Linear(64, 800))
        self.render = nn.Sequential(nn.Linear(400, math.prod(shape)), nn.Unflatten(1, shape))
        self.leaky = leaky()

    def forward(self, z: Tensor, c: Tensor) -> Tensor:
        """Return the logits of all pixels."""
        scale, shift = self.manner(c).chunk(2, dim=1)
        logits: Tensor = self.render(self.leaky(self.trunk(z) * (1 + scale) + shift))
        return logits


def branch(dimensions: int, shape: tuple[int, int, int]) -> nn.Sequential:
    """Build layers from a code to the logits of an image; its last tensor is the output's bias."""
    channels, height, width = shape
    if max(height, width) <= _LARGEST_FLAT:
        return nn.Sequential(
            nn.Linear(dimensions, 200),
            leaky(),
            nn.Linear(200, 400),
            leaky(),
            nn.Linear(400, math.prod(shape)),
            nn.Unflatten(1, shape),
        )
    start = (64, math.ceil(height / 8), math.ceil(width / 8))
    return nn.Sequential(
        nn.Linear(dimensions, 200),
        leaky(),
        nn.Linear(200, math.prod(start)),
        leaky(),
        nn.Unflatten(1, start),
        *_growing(start[0]),
        nn.Conv2d(16, channels, 3, padding=1),
        Cropped(height, width),
    )


def _growing(channels: int) -> Iterator[nn.Module]:
    for width in (64, 32, 16):
        # Up by repetition and then a convolution: transposed convolutions leave checkerboards.
        yield nn.Upsample(scale_factor=2)
        yield nn.Conv2d(channels, width, 3, padding=1)
        yield leaky()
        channels = width


class Cropped(nn.Module):
    """Cuts images to a size."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height = height
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        """Return the upper left part of each image."""
        return x[..., : self.height, : self.width]


def leaky() -> nn.LeakyReLU:
    """Return the activation of all these networks."""
    return nn.LeakyReLU(0.1)


DECODERS: dict[Composition, type[OnePiece | Over | Modulate]] = {
    "one-piece": OnePiece,
    "over": Over,
    "modulate": Modulate,
}


class DualVAE(nn.Module):
    """Two encoders, one after the other, a decoder of both codes, and a linear head on both.

    Args:
        data: The form of the samples; images of at least 8×8 pixels.
        shared: Dimensions of the shared code z.
        local: Dimensions of the local code c.
        composition: How the decoder joins the two.
        kept: How many of a client's own local codes it remembers, to draw new samples from.
        depth: How many convolutions its encoders have at least, and its decoder in reverse; as
            many as the image needs if 0.
    """

    def __init__(
        self,
        data: DataInfo,
        shared: int,
        local: int,
        composition: Composition,
        kept: int = 64,
        depth: int = 0,
    ) -> None:
        super().__init__()
        shape = image_shape(data, "dual-vae", smallest=_SMALLEST, instead="another method")
        channels, *size = shape
        height, width = size
        self.encoder_z = GaussianEncoder(channels, (height, width), shared, depth)
        self.plane = nn.Linear(shared, height * width)
        self.encoder_c = GaussianEncoder(channels + 1, (height, width), local, depth)
        self.decoder = (
            OnePiece(shape, shared, local, depth=depth)
            if depth
            else DECODERS[composition](shape, shared, local)
        )
        self.head = nn.Linear(shared + local, data.outputs)
        self.register_buffer("own_codes", torch.zeros(kept, local))
        self.own_codes: Tensor

    def encode(self, x: Tensor, *, sample: bool) -> tuple[Gaussian, Tensor, Gaussian]:
        """Return q(z|x), the z that the second encoder was given, and q(c|x, z).

        Args:
            x: Images.
            sample: Whether to draw z, as in training, or to take its mean.
        """
        q_z = self.encoder_z(x)
        z = q_z.sample() if sample else q_z.mean
        # Detached in every variant, as in the authors' code: z must not be bent to help c.
        plane = self.plane(z.detach()).view(len(x), 1, *x.shape[2:])
        return q_z, z, self.encoder_c(torch.cat([x, plane], dim=1))

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class, read off the means of both codes."""
        q_z, _, q_c = self.encode(x, sample=False)
        return self.answer(q_z.mean, q_c.mean)

    def answer(self, z: Tensor, c: Tensor) -> Tensor:
        """Return what the head says of two codes."""
        scores: Tensor = self.head(torch.cat([z, c], dim=1))
        return scores

    def turned_to_label(self, z: Tensor, c: Tensor, label: Tensor) -> Tensor:
        """Turn each z around the origin to where the head takes it most clearly for its label.

        All turns of a standard normal code are equally likely.
        """
        turned = torch.einsum("nd,kde->nke", z, turns(z.shape[1]).to(z.device))
        codes = torch.cat([turned, c.unsqueeze(1).expand(-1, turned.shape[1], -1)], dim=2)
        scores = self.head(codes).log_softmax(dim=2)
        rows = torch.arange(len(z), device=z.device)
        best = scores[rows, :, label].argmax(dim=1)
        return turned[rows, best]


def turns(dimensions: int, count: int = 50) -> Tensor:
    """Return some rotations, always the same."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(count, dimensions, dimensions, generator=generator)
    rotations: Tensor = torch.linalg.qr(noise).Q
    return rotations
