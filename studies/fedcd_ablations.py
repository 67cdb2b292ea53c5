"""Controls for FedCD; see fedcd-digits4.toml."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from duotone.methods.concepts.aligned_layer import MOST
from duotone.methods.concepts.alignment import orthonormal
from duotone.methods.concepts.fedcd import FedCD
from duotone.methods.concepts.moments import Scatter
from duotone.networks.thesis import ThesisCNN
from duotone.types import DataInfo


class RandomDirections(FedCD):
    """FedCD with directions that nobody chose, as many as it would have found."""

    name = "random directions"

    def _exact(self, scatter: Scatter, old: Tensor, rank: int) -> Tensor:
        found = super()._exact(scatter, old, rank)
        width = len(found)
        drawn = torch.randn(width, rank, generator=torch.Generator().manual_seed(0)).double()
        return torch.cat([orthonormal(drawn), found.new_zeros(width, MOST - rank)], dim=1)


class WideCNN(ThesisCNN):
    """The CNN with three more units in its first hidden layer: FedCD's number of weights."""

    def __init__(self, data: DataInfo) -> None:
        super().__init__(data, batch_norm=True)
        units = self.fc1.out_features + 3
        self.fc1 = nn.Linear(self.fc1.in_features, units)
        self.norm3 = nn.BatchNorm1d(units)
        self.fc2 = nn.Linear(units, self.fc2.out_features)
