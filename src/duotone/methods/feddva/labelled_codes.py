"""Find codes that stand for a label, among codes that are equally likely."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def turned_to_label(head: nn.Module, z: Tensor, c: Tensor, label: Tensor) -> Tensor:
    """Turn each z around the origin to where the head takes it most clearly for a label.

    All turns of a standard normal code are equally likely.

    Args:
        head: Scores classes from ``[z; c]``.
        z: Shared codes, one per row.
        c: Local codes, one per row.
        label: One class for each.
    """
    turned = torch.einsum("nd,kde->nke", z, turns(z.shape[1]).to(z.device))
    codes = torch.cat([turned, c.unsqueeze(1).expand(-1, turned.shape[1], -1)], dim=2)
    scores = head(codes).log_softmax(dim=2)
    rows = torch.arange(len(z), device=z.device)
    best = scores[rows, :, label].argmax(dim=1)
    return turned[rows, best]


def turns(dimensions: int, count: int = 50) -> Tensor:
    """Return some rotations, always the same."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(count, dimensions, dimensions, generator=generator)
    rotations: Tensor = torch.linalg.qr(noise).Q
    return rotations
