"""A classifier like one of FedDVA's encoders, wider by half, so about as large as both."""

from __future__ import annotations

from torch import Tensor, nn

from duotone.types import DataInfo


class EncoderCNN(nn.Module):
    """Three strided convolutions, a hidden layer and a linear head, for images of 28×28 pixels."""

    def __init__(self, data: DataInfo) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(data.shape[0], 24, 4, stride=2, padding=1),
            nn.LeakyReLU(0.1),
            nn.Conv2d(24, 48, 4, stride=2, padding=1),
            nn.LeakyReLU(0.1),
            nn.Conv2d(48, 96, 3, stride=2, padding=1),
            nn.LeakyReLU(0.1),
            nn.Flatten(),
            nn.Linear(96 * 4 * 4, 128),
            nn.LeakyReLU(0.1),
        )
        self.head = nn.Linear(128, data.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        scores: Tensor = self.head(self.features(x))
        return scores
