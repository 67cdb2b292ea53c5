"""A code of a hidden layer that holds the label and little else."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from duotone.federation.local_training import train
from duotone.federation.settings import MethodSettings
from duotone.networks.gaussian import Gaussian, kl_to_standard
from duotone.types import ClientData, RoundInfo

FIRST_LR = 0.01
"""Of Adam in the first round; it falls to nothing along a line."""


class Bottleneck(nn.Module):
    """A probabilistic code of hidden vectors, a place for each class, and a head on the code.

    Whoever knows the label and draws from N(place of the label, I) knows the code but for
    :meth:`nats`. So what the code s tells about a sample x beyond its label, and hence about the
    client it comes from, is at most their mean: I(s; client | y) ≤ I(s; x | y) ≤ E nats.

    Args:
        width: Dimensions of the hidden vectors.
        classes: How many classes there are.
        dimensions: Dimensions of the code.
    """

    def __init__(self, width: int, classes: int, dimensions: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 64), nn.ReLU())
        self.mean = nn.Linear(64, dimensions)
        self.log_variance = nn.Linear(64, dimensions)
        self.places = nn.Parameter(torch.randn(classes, dimensions))
        self.head = nn.Linear(dimensions, classes)

    def forward(self, z: Tensor) -> Gaussian:
        """Return the code of each hidden vector."""
        h = self.layers(z)
        return Gaussian(self.mean(h), self.log_variance(h).clamp(-6, 4))

    def nats(self, code: Gaussian, y: Tensor) -> Tensor:
        """Return KL(code‖N(place of the label, I)) of each sample."""
        return kl_to_standard(Gaussian(code.mean - self.places[y], code.log_variance))

    def loss(self, z: Tensor, y: Tensor, weight: float) -> Tensor:
        """Return the cross-entropy of the head on drawn codes, and the price of their nats."""
        code = self(z)
        told = functional.cross_entropy(self.head(code.sample()), y)
        return told + weight * self.nats(code, y).mean()


def learn_bottleneck(
    bottleneck: Bottleneck,
    seen: ClientData,
    settings: MethodSettings,
    weight: float,
    info: RoundInfo,
) -> None:
    """Train a bottleneck for a round on a client's hidden vectors and their labels.

    Args:
        bottleneck: What to train.
        seen: The hidden vectors, in the place of samples.
        settings: Batch size and epochs.
        weight: Price of a nat.
        info: Where in the run we are.
    """
    left = 1 - (info.round - 1) / info.rounds
    own = settings.model_copy(update={"optimizer": "adam", "lr": left * FIRST_LR, "lr_decay": 1.0})
    train(
        bottleneck,
        seen,
        own,
        info,
        loss=lambda _, z, y: bottleneck.loss(z, y, weight),
        phase="bottleneck",
    )
