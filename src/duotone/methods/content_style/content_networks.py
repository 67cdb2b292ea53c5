"""The networks of content–style learning: two encoders, a decoder in between, and a classifier.

The content encoder with its classifier is also a model of its own, with and without normalisation:
this separates what a method gains from what InstanceNorm gains. InstanceNorm is GroupNorm
with one channel per group here, which is the faster one on a CPU if the channels of an image lie
apart (with channels last a step takes a third longer), and divides by √(variance + ε): the gradient
stays finite where an image is constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from duotone.networks.shapes import image_shape
from duotone.types import DataInfo

Norm: TypeAlias = Literal["none", "instance", "batch"]

_CONTENT = 48
"""Channels of the content."""
_STYLED = (_CONTENT, _CONTENT, 32, 16)
"""Channels of the decoder's AdaIN layers."""
_GRID = 4
"""Pixels a side of the content that the classifier is given."""
_SMALLEST = 8

_NORMS: dict[Norm, Callable[[int], nn.Module]] = {
    "none": lambda channels: nn.Identity(),
    "instance": lambda channels: nn.GroupNorm(channels, channels, affine=False),
    "batch": nn.BatchNorm2d,
}
_LAYOUTS: dict[Norm, torch.memory_format] = {
    "none": torch.channels_last,
    "instance": torch.contiguous_format,
    "batch": torch.channels_last,
}
_NAMES: dict[Norm, str] = {
    "none": "content-cnn",
    "instance": "content-cnn-in",
    "batch": "content-cnn-bn",
}


class ContentEncoder(nn.Module):
    """Three convolutions, two of which halve the image, and a residual block.

    Args:
        shape: Channels, height and width of the images.
        norm: What follows each convolution.
    """

    def __init__(self, shape: tuple[int, int, int], norm: Norm) -> None:
        super().__init__()
        channels, *size = shape
        normed = _NORMS[norm]
        self.memory_format = _LAYOUTS[norm]
        layers: list[nn.Module] = [nn.Conv2d(channels, 16, 3, padding=1), normed(16), nn.ReLU()]
        self.sizes = [(size[0], size[1])]
        for before, after in ((16, 32), (32, _CONTENT)):
            height, width = self.sizes[-1]
            if min(height, width) >= 4:
                layers.append(_halving(before, after))
                self.sizes.append((height // 2, width // 2))
            else:  # of a single pixel nothing is left when its mean is taken off
                layers.append(nn.Conv2d(before, after, 3, padding=1))
                self.sizes.append((height, width))
            layers += [normed(after), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.block = nn.Sequential(
            nn.Conv2d(_CONTENT, _CONTENT, 3, padding=1),
            normed(_CONTENT),
            nn.ReLU(),
            nn.Conv2d(_CONTENT, _CONTENT, 3, padding=1),
            normed(_CONTENT),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the content as maps."""
        h = self.layers((x * 2 - 1).contiguous(memory_format=self.memory_format))
        content: Tensor = h + self.block(h)
        return content


class ContentCNN(nn.Module):
    """A content encoder, a hidden layer and a linear ``head``.

    Args:
        data: The form of the samples; images of at least 4×4 pixels.
        norm: What follows each convolution.
    """

    def __init__(self, data: DataInfo, *, norm: Norm) -> None:
        super().__init__()
        shape = image_shape(data, _NAMES[norm], smallest=4)
        self.content = ContentEncoder(shape, norm)
        self.memory_format = self.content.memory_format
        height, width = (min(side, _GRID) for side in self.content.sizes[-1])
        self.pool = nn.AdaptiveAvgPool2d((height, width))
        self.relu = nn.ReLU()
        self.hidden = nn.Linear(_CONTENT * height * width, 128)
        self.head = nn.Linear(128, data.outputs)

    def classify(self, content: Tensor) -> Tensor:
        """Return one score per class, read off content and nothing else."""
        h = self.relu(self.hidden(self.pool(content).flatten(1)))
        scores: Tensor = self.head(h)
        return scores

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        return self.classify(self.content(x))


def content_cnn(data: DataInfo) -> nn.Module:
    """Build the content encoder and its classifier without normalisation."""
    return ContentCNN(data, norm="none")


def content_cnn_in(data: DataInfo) -> nn.Module:
    """Build the content encoder and its classifier with InstanceNorm."""
    return ContentCNN(data, norm="instance")


def content_cnn_bn(data: DataInfo) -> nn.Module:
    """Build the content encoder and its classifier with BatchNorm."""
    return ContentCNN(data, norm="batch")


class StyleEncoder(nn.Module):
    """Three convolutions that halve the image, with GroupNorm; the mean over all places; a code.

    Args:
        channels: Channels of the images.
        dimensions: Dimensions of the style.
    """

    def __init__(self, channels: int, dimensions: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in (16, 32, 48):
            layers += [_halving(channels, width), nn.GroupNorm(4, width), nn.ReLU()]
            channels = width
        self.layers = nn.Sequential(*layers)
        self.code = nn.Linear(channels, dimensions)

    def forward(self, x: Tensor) -> Tensor:
        """Return the style of each image; it does not depend on where things are."""
        code: Tensor = self.code(self.layers((x * 2 - 1).contiguous()).mean((2, 3)))
        return code


def adain(content: Tensor, scale: Tensor, shift: Tensor, eps: float = 1e-5) -> Tensor:
    """Give every channel of every sample a new mean and standard deviation: Eq. (1).

    Args:
        content: Maps ``(samples, channels, height, width)``.
        scale: The new standard deviations ``(samples, channels)``.
        shift: The new means ``(samples, channels)``.
        eps: Added to the variance; a constant map becomes its new mean.
    """
    normed = nn.functional.group_norm(content, content.shape[1], eps=eps)
    return normed * scale[:, :, None, None] + shift[:, :, None, None]


class Decoder(nn.Module):
    """A residual block that takes on a style, and convolutions that enlarge to an image.

    Args:
        channels: Channels of the images.
        sizes: Height and width of image, half and content, in this order.
    """

    def __init__(self, channels: int, sizes: list[tuple[int, int]]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(_CONTENT, _CONTENT, 3, padding=1)
        self.conv2 = nn.Conv2d(_CONTENT, _CONTENT, 3, padding=1)
        whole, half, self.size = sizes
        # Up by repetition and then a convolution: transposed convolutions leave checkerboards.
        self.up1, self.conv3 = nn.Upsample(half), nn.Conv2d(_CONTENT, 32, 3, padding=1)
        self.up2, self.conv4 = nn.Upsample(whole), nn.Conv2d(32, 16, 3, padding=1)
        self.pixels = nn.Conv2d(16, channels, 3, padding=1)

    def forward(self, content: Tensor, manner: Tensor) -> Tensor:
        """Return images with pixels in [0, 1].

        Args:
            content: What to draw, as maps.
            manner: Scales, as deviations from 1, and shifts of four AdaIN layers, one after the
                other.
        """
        widths = [2 * width for width in _STYLED]
        first, second, third, fourth = torch.split(manner, widths, dim=1)
        h = _styled(self.conv1(content), first).relu()
        h = content + _styled(self.conv2(h), second)
        h = _styled(self.conv3(self.up1(h)), third).relu()
        h = _styled(self.conv4(self.up2(h)), fourth).relu()
        images: Tensor = (self.pixels(h).tanh() + 1) / 2
        return images


def _styled(maps: Tensor, manner: Tensor) -> Tensor:
    """Apply an AdaIN layer whose scales stand before its shifts."""
    scale, shift = manner.chunk(2, dim=1)
    return adain(maps, 1 + scale, shift)


class ContentStyle(ContentCNN):
    """Both encoders, the decoder, and a classifier of content.

    Args:
        data: The form of the samples; images of at least 8×8 pixels.
        dimensions: Dimensions of the style.
    """

    def __init__(self, data: DataInfo, dimensions: int) -> None:
        shape = image_shape(data, "content-style", smallest=_SMALLEST, instead="another method")
        super().__init__(data, norm="instance")
        self.style = StyleEncoder(shape[0], dimensions)
        self.mapping = nn.Sequential(
            nn.Linear(dimensions, 64), nn.ReLU(), nn.Linear(64, 2 * sum(_STYLED))
        )
        self.decoder = Decoder(shape[0], self.content.sizes)
        # The last linear layer counts as a model's head; made first, so that the classifier starts
        # out as it would alone.
        head = self.head
        del self.head
        self.head = head

    def draw(self, content: Tensor, style: Tensor) -> Tensor:
        """Return the image that has this content (as maps) and this style."""
        images: Tensor = self.decoder(content, self.mapping(style))
        return images

    def maps(self, code: Tensor) -> Tensor:
        """Return flattened content as maps again."""
        return code.view(len(code), _CONTENT, *self.decoder.size)


def _halving(before: int, after: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, 4, stride=2, padding=1)
