"""The incremental rule by which the thesis finds the directions that tell clients apart."""

from __future__ import annotations

import torch
from torch import Tensor

from duotone.methods.concepts.alignment import orthonormal, with_ridge
from duotone.methods.concepts.moments import Scatter


def incremental_step(
    psi: Tensor, phi: Tensor, scatter: Scatter, rate: float
) -> tuple[Tensor, Tensor]:
    """Move Ψ towards Σ_W^(-1/2) and Φ towards the leading directions of ΨΣ_BΨ: Eq. (5.6), (5.7).

    Both rules are linear in a client's statistics, so that one step with the pooled ones is the
    mean of the clients' steps.
    """
    eye = torch.eye(len(psi), dtype=psi.dtype)
    whitened = psi @ scatter.between @ psi
    gram = phi.T @ whitened @ phi
    moved = psi + rate * (eye - psi @ scatter.within @ psi)
    return moved, phi + rate * (whitened @ phi - phi @ gram.triu())


def incremental_basis(
    scatter: Scatter, state: dict[str, Tensor], rank: int, rate: float, steps: int
) -> Tensor:
    """Return P = ΨΦ, made orthonormal, after some steps of the rule.

    Args:
        scatter: Of the clients.
        state: Holds Ψ and Φ between alignments, and is changed in place.
        rank: Directions to find.
        rate: Step of the rule.
        steps: How many steps.
    """
    size = len(scatter.mean)
    if "psi" not in state or state["phi"].shape[1] != rank:
        state["psi"] = torch.eye(size, dtype=torch.float64)
        state["phi"] = torch.eye(size, rank, dtype=torch.float64)
    # The rule is stable for spreads around one.
    within = with_ridge(scatter.within)
    unit = within.diagonal().mean()
    scaled = Scatter(scatter.mean, within / unit, scatter.between / unit)
    for _ in range(steps):
        state["psi"], state["phi"] = incremental_step(state["psi"], state["phi"], scaled, rate)
    return orthonormal(state["psi"] @ state["phi"])
