"""A residual network with GroupNorm, whose statistics belong to one sample and to no client.

BatchNorm's running statistics describe the samples of a client, so every method must say where they
go. GroupNorm has none: what is averaged here are weights alone.
"""

from __future__ import annotations

from torch import Tensor, nn

from duotone.networks.shapes import image_shape
from duotone.types import DataInfo


class ResNet8(nn.Module):
    """A 3×3 convolution, three residual blocks of width 16, 32 and 64, and a linear ``head``.

    Args:
        data: The form of the samples; images of at least 4×4 pixels.
    """

    def __init__(self, data: DataInfo) -> None:
        super().__init__()
        channels, _, _ = image_shape(data, "resnet8-gn", smallest=4)
        self.conv1 = _convolution(channels, 16)
        self.norm1 = _norm(16)
        self.block1 = ResidualBlock(16, 16, stride=1)
        self.block2 = ResidualBlock(16, 32, stride=2)
        self.block3 = ResidualBlock(32, 64, stride=2)
        self.relu = nn.ReLU()
        self.head = nn.Linear(64, data.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        x = self.relu(self.norm1(self.conv1(x * 2 - 1)))
        x = self.block3(self.block2(self.block1(x)))
        scores: Tensor = self.head(x.mean((2, 3)))
        return scores


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions whose result is added to the input.

    Where the form changes, the input passes a 1×1 convolution first.

    Args:
        before: Channels of the input.
        after: Channels of the output.
        stride: The output has a pixel for every ``stride``-th row and column of the input.
    """

    def __init__(self, before: int, after: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(before, after, stride=stride)
        self.norm1 = _norm(after)
        self.conv2 = _convolution(after, after)
        self.norm2 = _norm(after)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=stride, bias=False), _norm(after)
            )
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Return the images of the next layer."""
        change = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        result: Tensor = self.relu(change + self.shortcut(x))
        return result


def _convolution(before: int, after: int, *, stride: int = 1) -> nn.Conv2d:
    # The normalisation that follows has a bias of its own.
    return nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)


def _norm(channels: int) -> nn.GroupNorm:
    # A group of few channels with the 2×2 pixels that are left of an 8×8 image has too few values
    # for a mean and a variance: sixteen channels give it 64.
    return nn.GroupNorm(channels // 16, channels)
