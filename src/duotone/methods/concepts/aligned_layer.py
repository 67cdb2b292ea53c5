"""A linear layer whose input is split into where clients differ and the rest."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from duotone.methods.concepts.alignment import without
from duotone.methods.concepts.bottleneck import Bottleneck
from duotone.types import Latents, Params

MOST = 16
"""Columns of P; those beyond the rank are zero."""
_ALIGNED = re.compile(r"\.(local_weight|basis|complement|bottleneck\..+)$")
"""What an aligned layer has beyond a plain one."""


class AlignedLinear(nn.Linear):
    """A linear layer that is given [Pᵀz; Qz] instead of z; Q is I − PPᵀ for an orthonormal P.

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
        local: Tensor = z @ self.basis @ self.local_weight.T
        return local + super().forward(without(z, self.basis))

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
        moved: Tensor = (local - z @ directions) @ torch.linalg.pinv(directions)
        return z + moved

    def _directions(self) -> Tensor:
        return self.basis[:, self.basis.any(dim=0)]


class AlignedHead(nn.Linear):
    """A network's last layer whose scores are read: the thesis' FC3.

    Nothing comes after it that could be given [Pᵀz; Qz]. So one more linear layer does, which is
    trained like any other and starts as the identity.

    Args:
        layer: The layer it takes the place of; at first both compute the same.
        bottleneck: As of :class:`AlignedLinear`.
    """

    def __init__(self, layer: nn.Linear, bottleneck: Bottleneck | None = None) -> None:
        width, height, given = layer.in_features, layer.out_features, layer.weight
        super().__init__(width, height, layer.bias is not None, given.device, given.dtype)
        self.load_state_dict(layer.state_dict())
        after = nn.Linear(height, height, bias=False).to(given)
        nn.init.eye_(after.weight)
        self.after = AlignedLinear(after, bottleneck)

    def forward(self, h: Tensor) -> Tensor:
        """Return the scores of the layer after z = A h + b."""
        scores: Tensor = self.after(super().forward(h))
        return scores


def product(weight: Tensor, local_weight: Tensor, basis: Tensor) -> Tensor:
    """Return V = W₁Pᵀ + W₂Q: what an aligned layer computes is V z + b."""
    return local_weight @ basis.T + without(weight, basis)


def expressed(
    weight: Tensor, local_weight: Tensor, old: Tensor, new: Tensor
) -> tuple[Tensor, Tensor]:
    """Return W₂ and W₁ in a new orthonormal basis, such that V stays."""
    same = product(weight, local_weight, old)
    return same, same @ new


def with_basis(
    shared: Params, layer: str, new: Tensor, complement: Tensor, *, keeps_function: bool
) -> dict[str, Tensor]:
    """Return the tensors of an aligned layer with another P.

    Args:
        shared: All parameters of the model.
        layer: The layer's name.
        new: P, padded.
        complement: What turns z into the shared code.
        keeps_function: Whether W₁ and W₂ are expressed in the new P, or stay as they are.
    """
    params = {key: shared[f"{layer}.{key}"].double() for key in ("weight", "local_weight", "basis")}
    if keeps_function:
        params["weight"], params["local_weight"] = expressed(
            params["weight"], params["local_weight"], params["basis"], new
        )
    params |= {"basis": new, "complement": complement}
    return {
        f"{layer}.{key}": tensor.to(shared[f"{layer}.{key}"].dtype)
        for key, tensor in params.items()
    }


def padded(basis: Tensor) -> Tensor:
    """Return a basis with columns of zeros up to the fixed width."""
    return torch.cat([basis, basis.new_zeros(len(basis), MOST - basis.shape[1])], dim=1)


def plain(params: Params) -> dict[str, Tensor]:
    """Return the parameters of the network that computes the same without an aligned layer."""
    found = {name: tensor for name, tensor in params.items() if not _ALIGNED.search(name)}
    for name, basis in params.items():
        if not name.endswith(".basis"):
            continue
        layer = name.removesuffix(".basis")
        same = product(params[f"{layer}.weight"], params[f"{layer}.local_weight"], basis)
        head = layer.removesuffix(".after")
        if head == layer or f"{head}.weight" not in params:
            found[f"{layer}.weight"] = same
            continue
        del found[f"{layer}.weight"]
        for own in (f"{head}.weight", f"{head}.bias"):
            if own in found:
                found[own] = same @ found[own]
    return found
