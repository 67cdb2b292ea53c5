"""Gaussians that encoders give, one per sample."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Gaussian(NamedTuple):
    """A Gaussian with independent coordinates for every sample of a batch."""

    mean: Tensor
    log_variance: Tensor

    @property
    def std(self) -> Tensor:
        """Standard deviations."""
        return (0.5 * self.log_variance).exp()

    def sample(self) -> Tensor:
        """Draw one code per sample, so that gradients reach mean and variance."""
        return self.mean + self.std * torch.randn_like(self.mean)


def kl_to_standard(q: Gaussian) -> Tensor:
    """Return KL(q‖N(0, I)) of each sample."""
    return 0.5 * (q.mean.square() + q.log_variance.exp() - 1 - q.log_variance).sum(dim=1)
