"""The incremental rule of the thesis: Ψ goes to Σ_W^(-1/2), Φ to the leading directions of ΨΣ_BΨ.

The server keeps Ψ and Φ between alignments. It takes steps with pooled statistics, or clients take
them on their mini-batches and the server averages what they come to.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from duotone.methods.concepts.alignment import RIDGE, orthonormal, with_ridge
from duotone.methods.concepts.moments import Scatter, moments
from duotone.types import ClientUpdate, Form, Params


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


def continued(state: Params, size: int, rank: int) -> dict[str, Tensor]:
    """Return Ψ and Φ as they stand; both start as the identity.

    If the rank has changed, Φ loses its last columns or gets new ones. Ψ knows no rank.
    """
    eye = torch.eye(size, dtype=torch.float64)
    phi = state.get("phi", eye[:, :0])[:, :rank]
    return {
        "psi": state.get("psi", eye),
        "phi": torch.cat([phi, eye[:, phi.shape[1] : rank]], dim=1),
    }


def pooled_steps(state: Params, scatter: Scatter, rate: float, steps: int) -> dict[str, Tensor]:
    """Return Ψ and Φ after some steps with the statistics of all clients together."""
    # The rule is stable for spreads around one.
    within = with_ridge(scatter.within)
    unit = within.diagonal().mean()
    scaled = Scatter(scatter.mean, within / unit, scatter.between / unit)
    psi, phi = state["psi"], state["phi"]
    for _ in range(steps):
        psi, phi = incremental_step(psi, phi, scaled, rate)
    return {"psi": psi, "phi": phi}


def batch_steps(
    state: Params,
    hidden: Tensor,
    batch_size: int,
    rate: float,
    steps: int,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    """Return Ψ and Φ after a client's steps, some on each mini-batch of a pass: Algorithm 6.

    Args:
        state: Ψ and Φ, and of all clients the mean ("centre") and the spread inside ("within").
        hidden: The client's hidden vectors, one per row.
        batch_size: Vectors of a mini-batch.
        rate: Of both rules.
        steps: On each mini-batch.
        generator: Puts the vectors into an order.
    """
    if "psi" not in state:  # not even two clients have told anything yet
        return {}
    psi, phi = state["psi"], state["phi"]
    ridge = RIDGE * torch.eye(len(psi), dtype=psi.dtype)
    unit = with_ridge(state["within"]).diagonal().mean()
    order = torch.randperm(len(hidden), generator=generator)
    for batch in torch.split(hidden.double()[order], batch_size):
        own = moments(batch)
        apart = own.mean - state["centre"]
        between = torch.outer(apart, apart) / unit
        scatter = Scatter(own.mean, own.covariance / unit + ridge, between)
        for _ in range(steps):
            psi, phi = incremental_step(psi, phi, scatter, rate)
    return {"psi": psi, "phi": phi}


def steps_form(state: Params) -> dict[str, Form]:
    """Declare what :func:`batch_steps` returns; nothing as long as there is no Ψ."""
    return {name: Form.of(state[name]) for name in ("psi", "phi") if name in state}


def mean_of_steps(collected: Sequence[ClientUpdate]) -> dict[str, Tensor]:
    """Return the mean of clients' Ψ and Φ; a client counts by its samples: Algorithm 7, line 11."""
    total = sum(update.weight for update in collected)
    return {
        name: torch.stack([u.weight / total * u.extra[name] for u in collected]).sum(dim=0)
        for name in ("psi", "phi")
    }


def basis_of(state: Params, *, is_orthonormal: bool) -> Tensor:
    """Return P = ΨΦ as printed, or an orthonormal basis of the same space."""
    product = state["psi"] @ state["phi"]
    return orthonormal(product) if is_orthonormal else product
