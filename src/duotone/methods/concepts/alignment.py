"""Along which directions of a hidden layer clients differ, and what is left without them.

Clients are the classes of a linear discriminant analysis: directions along which their means differ
much, measured in units of the spread inside a client.
"""

from __future__ import annotations

import torch
from torch import Tensor

from duotone.methods.concepts.moments import Scatter

RIDGE = 1e-3
"""What is added to the spread inside clients, as a share of its mean over directions."""
_CLEAR_GAP = 5.0


def with_ridge(within: Tensor, ridge: float = RIDGE) -> Tensor:
    """Return the spread inside clients with a little more of it in every direction.

    A unit that never fires has no spread at all, and nothing can be measured in units of it.
    """
    # A layer that is dead as a whole still gets something to divide by.
    extra = (ridge * within.diagonal().mean()).clamp_min(torch.finfo(within.dtype).eps)
    return within + extra * torch.eye(len(within), dtype=within.dtype)


def discriminants(scatter: Scatter, ridge: float = RIDGE) -> tuple[Tensor, Tensor]:
    """Solve S_B p = λ S_W p; return all λ and the directions, one per column, largest λ first.

    λ says how far clients are apart along p, in units of the spread inside a client. Directions are
    orthonormal with respect to S_W.
    """
    # With S_W = L Lᵀ the problem is symmetric in Lᵀ p.
    root = torch.linalg.cholesky(with_ridge(scatter.within, ridge))
    half = torch.linalg.solve_triangular(root, scatter.between, upper=False)
    whitened = torch.linalg.solve_triangular(root, half.T, upper=False)
    values, vectors = torch.linalg.eigh(0.5 * (whitened + whitened.T))
    directions = torch.linalg.solve_triangular(root.T, vectors.flip(1), upper=True)
    return values.flip(0).clamp_min(0), directions


def rank_at_gap(values: Tensor, most: int, chance: float = 0.0) -> int:
    """Return how many discriminants stand out: those before the last clear fall of λ.

    A fall is clear if λ becomes less than a fifth. Without one, the largest fall counts: this rule
    always finds a direction, and ``chance.by_chance`` says whether there is one to find.

    Args:
        values: All λ, falling.
        most: An upper limit; means of K clients differ in at most K − 1 directions.
        chance: What λ can be by chance; falls below that are none.
    """
    most = min(most, len(values) - 1)
    if most < 1:
        return 1
    seen = values.clamp_min(max(chance, float(values[0]) * 1e-9))
    falls = seen[:most] / seen[1 : most + 1]
    clear = (falls > _CLEAR_GAP).nonzero().flatten()
    return int(clear[-1] if len(clear) else falls.argmax()) + 1


def orthonormal(directions: Tensor) -> Tensor:
    """Return an orthonormal basis of the same space: same sides, same order as far as possible."""
    basis, upper = torch.linalg.qr(directions)
    same_sides: Tensor = basis * upper.diagonal().sign()
    return same_sides


def turned_to(basis: Tensor, old: Tensor) -> Tensor:
    """Return the orthonormal basis of the same space that is nearest to an old one.

    A basis found anew may be turned within its space; what is read off it should not jump.
    """
    left, _, right = torch.linalg.svd(basis.T @ old)
    nearest: Tensor = basis @ (left @ right)
    return nearest


def orthogonal_complement(basis: Tensor) -> Tensor:
    """Return Q = I − P Pᵀ of an orthonormal P: what is at right angles to it."""
    return torch.eye(len(basis), dtype=basis.dtype) - basis @ basis.T


def oblique_complement(basis: Tensor, within: Tensor) -> Tensor:
    """Return Q = I − S_W P (Pᵀ S_W P)⁻¹ Pᵀ: what is left without the differences of means.

    By S_B p = λ S_W p these lie in the span of S_W P, not of P, so that taking away the span of P
    leaves most of them. Pᵀ Q is zero, as for the orthogonal one.
    """
    spread = within @ basis
    removed: Tensor = spread @ torch.linalg.solve(basis.T @ spread, basis.T)
    return torch.eye(len(basis), dtype=basis.dtype) - removed


# -- the incremental rule of the thesis


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

    ``state`` holds Ψ and Φ between alignments, and is changed in place.
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
