"""Linear probes by the protocol of PaDPaF's authors: Adam, so many passes, no held-out samples.

What they are scored on is for each study to say: on what they were fitted to, as published, or on
other samples.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from duotone.federation.local_training import batches


def scaled(old: Tensor, *others: Tensor) -> list[Tensor]:
    """Return tables of features with mean 0 and variance 1 over the first of them."""
    mean, std = old.mean(dim=0), old.std(dim=0).clamp(min=1e-6)
    return [(table - mean) / std for table in (old, *others)]


def fitted(
    network: nn.Module, x: Tensor, y: Tensor, *, epochs: int, lr: float, batch: int, seed: int
) -> nn.Module:
    """Fit a network to classes by Adam, whose step shrinks by a twentieth with each pass."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(network.parameters(), lr)
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = lr * 0.95**epoch
        for rows in batches(len(x), batch, generator):
            optimizer.zero_grad()
            cross_entropy(network(x[rows]), y[rows]).backward()
            optimizer.step()
    return network.eval()


@torch.no_grad()
def top(network: nn.Module, x: Tensor, y: Tensor, count: int = 1) -> float:
    """Return in which share of samples the class is among the likeliest so many."""
    likeliest = network(x).topk(count, dim=1).indices
    return round(float((likeliest == y[:, None]).any(dim=1).float().mean()), 4)
