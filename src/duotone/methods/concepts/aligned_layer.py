"""A linear layer whose input is split into where clients differ and the rest."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from duotone.methods.concepts.bottleneck import Bottleneck
from duotone.types import Latents, Params

MOST = 16
"""Columns of P; those beyond the rank are zero."""
_ALIGNED = re.compile(r"\.(local_weight|basis|complement|bottleneck\..+)$")
"""What an aligned layer has beyond a plain one."""


class AlignedLinear(nn.Linear):
    """A linear layer that is given [Pᵀz; Qz] instead of z, with Q = I − PPᵀ.

    Args:
        layer: The layer it takes the place of; at first both compute the same.
        bottleneck: Learns the shared code from z, beside the network; without one the shared code
            is a complement of P.
    """

    def __init__(self, layer: nn.Linear, bottleneck: Bottleneck | None = None) -> None:
        width, height, given = layer.in_features, layer.out_features, layer.weight
        super().__init__(width, height, layer.bias is not None, given.device, given.dtype)
        self.local_weight = nn.Parameter(given.new_zeros(height, MOST))
        self.register_buffer("basis", given.new_zeros(width, MOST))
        self.register_buffer("complement", torch.eye(width).to(given))
        self.basis: Tensor
        self.complement: Tensor
        self.load_state_dict(layer.state_dict(), strict=False)  # without a basis Q is the identity
        self.bottleneck = bottleneck

    def forward(self, z: Tensor) -> Tensor:
        """Return W₁Pᵀz + W₂Qz + b."""
        c = z @ self.basis
        rest = z - c @ self.basis.T
        return super().forward(rest) + c @ self.local_weight.T

    def codes(self, z: Tensor) -> Latents:
        """Return what clients have in common in z, and what is particular to them."""
        local = z @ self._directions()
        if self.bottleneck is None:
            return Latents(z @ self.complement.T, local)
        code = self.bottleneck(z)
        return Latents(code.mean, local, shared_std=code.std)

    def with_local(self, z: Tensor, local: Tensor) -> Tensor:
        """Return z with other coordinates in the directions that are particular to clients."""
        directions = self._directions()
        return z + (local - z @ directions) @ directions.T

    def _directions(self) -> Tensor:
        return self.basis[:, self.basis.any(dim=0)]


def expressed(
    weight: Tensor, local_weight: Tensor, old: Tensor, new: Tensor
) -> tuple[Tensor, Tensor]:
    """Return W₂ and W₁ in a new basis, such that V = W₁Pᵀ + W₂(I − PPᵀ) stays."""
    product = local_weight @ old.T + weight - (weight @ old) @ old.T
    return product, product @ new


def padded(basis: Tensor) -> Tensor:
    """Return a basis with columns of zeros up to the fixed width."""
    return torch.cat([basis, basis.new_zeros(len(basis), MOST - basis.shape[1])], dim=1)


def plain(params: Params) -> dict[str, Tensor]:
    """Return the parameters of the network that computes the same without an aligned layer."""
    found = {name: tensor for name, tensor in params.items() if not _ALIGNED.search(name)}
    for name, basis in params.items():
        if name.endswith(".basis"):
            layer = name.removesuffix(".basis")
            weight, local_weight = (params[f"{layer}.{own}"] for own in ("weight", "local_weight"))
            found[f"{layer}.weight"], _ = expressed(weight, local_weight, basis, basis)
    return found
