"""The CNN of the FedCD and FedVC studies: light, with three fully connected layers."""

from __future__ import annotations

from torch import Tensor, nn

from duotone.networks.shapes import image_shape
from duotone.types import DataInfo


class ThesisCNN(nn.Module):
    """Two 3×3 convolutions, then ``fc1``, ``fc2`` and the ``head``: the thesis' FC1 to FC3.

    The thesis names its three fully connected layers and no width; those here (16 and 32 channels,
    128 and 64 units) train about three times as fast as the small CNN's.

    Args:
        data: The form of the samples; images of at least 4×4 pixels.
        batch_norm: Whether BatchNorm follows every layer but the head.
    """

    def __init__(self, data: DataInfo, *, batch_norm: bool) -> None:
        super().__init__()
        name = "thesis-cnn-bn" if batch_norm else "thesis-cnn"
        channels, height, width = image_shape(data, name, smallest=4)
        self.conv1 = nn.Conv2d(channels, 16, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(16) if batch_norm else nn.Identity()
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(32) if batch_norm else nn.Identity()
        self.pool = nn.MaxPool2d(2)
        self.relu = nn.ReLU()
        self.fc1 = nn.Linear(32 * (height // 4) * (width // 4), 128)
        self.norm3 = nn.BatchNorm1d(128) if batch_norm else nn.Identity()
        self.fc2 = nn.Linear(128, 64)
        self.norm4 = nn.BatchNorm1d(64) if batch_norm else nn.Identity()
        self.head = nn.Linear(64, data.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        x = x * 2 - 1
        # ReLU and max pooling commute, and ReLU on a quarter of the pixels is cheaper.
        x = self.relu(self.pool(self.norm1(self.conv1(x))))
        x = self.relu(self.pool(self.norm2(self.conv2(x))))
        x = self.relu(self.norm3(self.fc1(x.flatten(1))))
        x = self.relu(self.norm4(self.fc2(x)))
        scores: Tensor = self.head(x)
        return scores


def thesis_cnn(data: DataInfo) -> nn.Module:
    """Build the CNN without normalisation."""
    return ThesisCNN(data, batch_norm=False)


def thesis_cnn_bn(data: DataInfo) -> nn.Module:
    """Build the CNN with BatchNorm."""
    return ThesisCNN(data, batch_norm=True)
