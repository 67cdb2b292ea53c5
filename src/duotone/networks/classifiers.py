"""Small models: a CNN for images, an MLP and a linear layer for tables."""

from __future__ import annotations

import math

from torch import Tensor, nn

from duotone.networks.shapes import image_shape
from duotone.types import DataInfo


class SmallCNN(nn.Module):
    """Two 3×3 convolutions with pooling, a hidden layer ``fc1`` and a linear ``head``.

    Args:
        data: The form of the samples; images of at least 4×4 pixels.
        batch_norm: Whether BatchNorm follows both convolutions and ``fc1``.
    """

    def __init__(self, data: DataInfo, *, batch_norm: bool) -> None:
        super().__init__()
        name = "cnn-bn" if batch_norm else "cnn"
        channels, height, width = image_shape(data, name, smallest=4)
        self.conv1 = nn.Conv2d(channels, 32, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(32) if batch_norm else nn.Identity()
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(64) if batch_norm else nn.Identity()
        self.pool = nn.MaxPool2d(2)
        self.relu = nn.ReLU()
        self.fc1 = nn.Linear(64 * (height // 4) * (width // 4), 128)
        self.norm3 = nn.BatchNorm1d(128) if batch_norm else nn.Identity()
        self.head = nn.Linear(128, data.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        x = x * 2 - 1
        # ReLU and max pooling commute, and ReLU on a quarter of the pixels is cheaper.
        x = self.relu(self.pool(self.norm1(self.conv1(x))))
        x = self.relu(self.pool(self.norm2(self.conv2(x))))
        x = self.relu(self.norm3(self.fc1(x.flatten(1))))
        scores: Tensor = self.head(x)
        return scores


class Linear(nn.Module):
    """One linear layer for feature vectors; images are flattened.

    Args:
        data: The form of the samples.
    """

    def __init__(self, data: DataInfo) -> None:
        super().__init__()
        self.head = nn.Linear(math.prod(data.shape), data.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class, or one number per target."""
        scores: Tensor = self.head(x.flatten(1))
        return scores


class MLP(nn.Module):
    """Two hidden layers of 64 for feature vectors; images are flattened.

    Args:
        data: The form of the samples.
        batch_norm: Whether BatchNorm follows both hidden layers.
    """

    def __init__(self, data: DataInfo, *, batch_norm: bool) -> None:
        super().__init__()
        self.fc1 = nn.Linear(math.prod(data.shape), 64)
        self.norm1 = nn.BatchNorm1d(64) if batch_norm else nn.Identity()
        self.fc2 = nn.Linear(64, 64)
        self.norm2 = nn.BatchNorm1d(64) if batch_norm else nn.Identity()
        self.head = nn.Linear(64, data.outputs)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class, or one number per target."""
        x = self.relu(self.norm1(self.fc1(x.flatten(1))))
        scores: Tensor = self.head(self.relu(self.norm2(self.fc2(x))))
        return scores


def cnn(data: DataInfo) -> nn.Module:
    """Build the small CNN without normalisation."""
    return SmallCNN(data, batch_norm=False)


def cnn_bn(data: DataInfo) -> nn.Module:
    """Build the small CNN with BatchNorm."""
    return SmallCNN(data, batch_norm=True)


def mlp(data: DataInfo) -> nn.Module:
    """Build the MLP without normalisation."""
    return MLP(data, batch_norm=False)


def mlp_bn(data: DataInfo) -> nn.Module:
    """Build the MLP with BatchNorm."""
    return MLP(data, batch_norm=True)
