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


def without(z: Tensor, basis: Tensor) -> Tensor:
    """Return vectors, one per row, without their projections on the columns of a basis: Qz.

    Algorithm 5 as printed: it divides a projection by ‖p‖, which is right for columns of length one
    alone. With an orthonormal P this is z − PPᵀz.
    """
    lengths = basis.norm(dim=0).clamp_min(torch.finfo(basis.dtype).tiny)
    rest: Tensor = z - (z @ basis / lengths) @ basis.T
    return rest


def orthogonal_complement(basis: Tensor) -> Tensor:
    """Return Q of Algorithm 5; of an orthonormal P it is I − PPᵀ: what is at right angles to it."""
    return without(torch.eye(len(basis), dtype=basis.dtype), basis)


def oblique_complement(basis: Tensor, within: Tensor) -> Tensor:
    """Return Q = I − S_W P (Pᵀ S_W P)⁻¹ Pᵀ: what is left without the differences of means.

    By S_B p = λ S_W p these lie in the span of S_W P, not of P, so that taking away the span of P
    leaves most of them. Pᵀ Q is zero, as for the orthogonal one.
    """
    spread = within @ basis
    removed: Tensor = spread @ torch.linalg.solve(basis.T @ spread, basis.T)
    return torch.eye(len(basis), dtype=basis.dtype) - removed
