"""The CNN of FedBN's digit experiments (Li et al., ICLR 2021)."""

from __future__ import annotations

from torch import Tensor, nn

from duotone.networks.shapes import image_shape
from duotone.types import DataInfo


class DigitsCNN(nn.Module):
    """Three 5×5 convolutions, hidden layers of 2048 and 512, BatchNorm after all of them.

    Nine tenths of its 14 million parameters (for 28×28 pixels) are in ``fc1``.

    Args:
        data: The form of the samples; images of at least 4×4 pixels.
    """

    def __init__(self, data: DataInfo) -> None:
        super().__init__()
        channels, height, width = image_shape(data, "digits-cnn", smallest=4)
        self.conv1 = nn.Conv2d(channels, 64, 5, padding=2)
        self.norm1 = nn.BatchNorm2d(64)
        self.conv2 = nn.Conv2d(64, 64, 5, padding=2)
        self.norm2 = nn.BatchNorm2d(64)
        self.conv3 = nn.Conv2d(64, 128, 5, padding=2)
        self.norm3 = nn.BatchNorm2d(128)
        self.pool = nn.MaxPool2d(2)
        self.relu = nn.ReLU()
        self.fc1 = nn.Linear(128 * (height // 4) * (width // 4), 2048)
        self.norm4 = nn.BatchNorm1d(2048)
        self.fc2 = nn.Linear(2048, 512)
        self.norm5 = nn.BatchNorm1d(512)
        self.head = nn.Linear(512, data.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        x = x * 2 - 1
        # ReLU and max pooling commute, and ReLU on a quarter of the pixels is cheaper.
        x = self.relu(self.pool(self.norm1(self.conv1(x))))
        x = self.relu(self.pool(self.norm2(self.conv2(x))))
        x = self.relu(self.norm3(self.conv3(x)))
        x = self.relu(self.norm4(self.fc1(x.flatten(1))))
        x = self.relu(self.norm5(self.fc2(x)))
        scores: Tensor = self.head(x)
        return scores
