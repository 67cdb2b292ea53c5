"""Which directions of a hidden layer tell clients apart, and what is left without them.

Clients are the classes of a linear discriminant analysis: directions along which their means differ
much, measured in units of the spread inside a client. From each client the number, the mean and the
covariance of its hidden vectors suffice, so nothing about a single sample has to leave it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

RIDGE = 1e-3
"""What is added to the spread inside clients, as a share of its mean over directions."""
DELTA = 1e-5
"""δ of the privacy that noise on statistics gives."""
LEVEL = 0.01
"""How often clients that differ in nothing may pass for different."""
DRAWS = 199
"""Federations that are drawn by chance, to stand beside the one at hand."""
_CLEAR_GAP = 5.0


@dataclass(frozen=True, slots=True)
class Moments:
    """What a client tells about its hidden vectors.

    Attributes:
        count: How many there are.
        mean: Their mean.
        covariance: Their covariance, divided by the count.
    """

    count: float
    mean: Tensor
    covariance: Tensor


@dataclass(frozen=True, slots=True)
class Scatter:
    """The moments of all clients, put together.

    Attributes:
        mean: Mean of all vectors.
        within: Mean covariance inside clients.
        between: Covariance of the clients' means.
    """

    mean: Tensor
    within: Tensor
    between: Tensor


def moments(hidden: Tensor) -> Moments:
    """Return the moments of a client's hidden vectors, one per row."""
    values = hidden.double()
    mean = values.mean(dim=0)
    centred = values - mean
    return Moments(len(values), mean, centred.T @ centred / len(values))


def budget_of(epsilon: float, delta: float = DELTA) -> float:
    """Return the ρ of zero-concentrated privacy that implies (ε, δ): ε = ρ + 2 √(ρ log 1/δ).

    Bun and Steinke, *Concentrated Differential Privacy*, TCC 2016. Budgets of several releases add.

    >>> round(budget_of(1.0), 4)
    0.0208
    """
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def noise_scale(clip: float, budget: float) -> float:
    """Return the deviation of the noise on a sum of z zᵀ; on one of z it is a ``clip``-th of that.

    The Gaussian mechanism on the sums of z and z zᵀ, for z in the unit ball. If one vector is
    replaced, a by b, they move by |a − b|² + |aaᵀ − bbᵀ|² = 4.5 at most: both at the rim, at 120°.
    """
    return clip**2 * math.sqrt(4.5 / (2 * budget))


def private_moments(
    hidden: Tensor, clip: float, budget: float, generator: torch.Generator
) -> Moments:
    """Return moments from which hardly anything can be said about a single vector.

    Args:
        hidden: A client's hidden vectors, one per row.
        clip: The length to which longer vectors are cut; chosen without looking at the data.
        budget: ρ that this release may spend.
        generator: The source of the noise.
    """
    values = hidden.double()
    values = values * (clip / values.norm(dim=1, keepdim=True).clamp_min(clip))
    count, width = values.shape
    scale = noise_scale(clip, budget)
    drawn = torch.randn(width, width + 1, generator=generator, dtype=torch.float64) * scale
    noise = drawn[:, :width]
    mean = (values.sum(dim=0) + drawn[:, width] / clip) / count
    square = (values.T @ values + 0.5 * (noise + noise.T)) / count
    return Moments(count, mean, square - torch.outer(mean, mean))


def pooled(clients: Sequence[Moments]) -> Scatter:
    """Put the moments of some clients together; a client counts by its number of vectors."""
    total = sum(client.count for client in clients)
    shares = [client.count / total for client in clients]
    pairs = list(zip(shares, clients, strict=True))
    mean = torch.stack([share * client.mean for share, client in pairs]).sum(dim=0)
    within = torch.stack([share * client.covariance for share, client in pairs]).sum(dim=0)
    apart = torch.stack([share**0.5 * (client.mean - mean) for share, client in pairs])
    return Scatter(mean, within, apart.T @ apart)


def above_noise(scatter: Scatter, clients: Sequence[Moments], scale: float) -> Scatter:
    """Return scatter whose spread inside clients is nowhere below what noise alone makes of it.

    Directions that noise happens to flatten would pass for those that tell clients apart.

    Args:
        scatter: Of private moments.
        clients: The moments.
        scale: The deviation of the noise on each client's sum of z zᵀ.
    """
    total = sum(client.count for client in clients)
    # The largest eigenvalue of a symmetric d × d matrix of noise is about √(2 d) deviations.
    level = math.sqrt(2 * len(scatter.mean) * len(clients)) * scale / total
    values, vectors = torch.linalg.eigh(scatter.within)
    within = (vectors * values.clamp_min(level)) @ vectors.T
    return replace(scatter, within=within)


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


def chance_level(clients: Sequence[Moments]) -> float:
    """Return about the largest λ that clients have which differ in nothing but who drew which.

    Means of n vectors stray by S_W / n. In units of S_W the clients' means then scatter like a
    Wishart matrix, whose largest eigenvalue is near (√(K − 1) + √d)² for K clients, divided here by
    the number of all vectors.
    """
    total = sum(client.count for client in clients)
    return (math.sqrt(len(clients) - 1) + math.sqrt(len(clients[0].mean))) ** 2 / total


def by_chance(
    scatter: Scatter, clients: Sequence[Moments], rng: np.random.Generator, noise: float = 0.0
) -> float:
    """Return how often clients that differ in nothing show a leading λ as large as these do.

    The server has no samples to deal out anew, and does not need them. If all vectors are drawn
    independently from one Gaussian, then given their covariance S_W + S_B the clients are a random
    rotation of each other: S_B is S_W + S_B seen through a random block of an orthogonal matrix,
    whatever the covariance is and even with fewer vectors than dimensions (a rotation test:
    Langsrud, *Rotation tests*, Statistics and Computing 2005). So the answer is exact then, and
    permuting vectors would give nearly the same. Vectors that are not Gaussian change it little, as
    means of many are nearly so. Vectors of a client that depend on each other (frames of one video,
    copies of one image) count as a difference between clients; that is what they are to a server.
    Means alone are compared: clients that differ in their spread only pass for alike.

    Args:
        scatter: Of the clients.
        clients: Their moments.
        rng: Draws federations.
        noise: Deviation of the noise that private moments have on each client's sum of vectors.
    """
    leading = float(discriminants(scatter)[0][0])
    if leading == 0:  # a layer that is dead, too
        return 1.0
    draw = _rotated(scatter, clients) if noise == 0 else _noisy(scatter, clients, noise)
    # λ / (1 + λ) is in [0, 1]; a tie is chance, and rounding must not break it.
    least = leading / (1 + leading) - 1e-9
    with threadpool_limits(1):  # many small problems: threads would only wait for each other
        as_large = sum(draw(rng) >= least for _ in range(DRAWS))
    return (1 + as_large) / (1 + DRAWS)


def _rotated(
    scatter: Scatter, clients: Sequence[Moments]
) -> Callable[[np.random.Generator], float]:
    """Return what draws λ / (1 + λ) of clients that are random rotations of each other."""
    values = torch.linalg.eigvalsh(scatter.within + scatter.between).numpy()
    free = round(sum(client.count for client in clients)) - 1
    values = values[values > 1e-12 * values[-1]][-free:]
    width, apart = len(values), len(clients) - 1
    size = len(scatter.mean)

    def draw(rng: np.random.Generator) -> float:
        # S_B = F Y Yᵀ Fᵀ for F Fᵀ = S_W + S_B, in whose axes F is diagonal.
        block = orthogonal_block(rng, width, apart, free)
        within = float(values.sum() - ((block * block).sum(axis=1) * values).sum())
        ridge = max(RIDGE * within / size, np.finfo(np.float64).eps)
        # S_B p = λ (S_W + r) p has the solutions of S_B p = λ / (1 + λ) (S_W + S_B + r) p.
        return _largest(block * np.sqrt(values / (values + ridge))[:, np.newaxis])

    return draw


def _noisy(
    scatter: Scatter, clients: Sequence[Moments], noise: float
) -> Callable[[np.random.Generator], float]:
    """Return what draws λ / (1 + λ) of alike clients whose means have noise of a known size.

    The spread inside clients is lifted to its own noise (:func:`above_noise`) and taken as known.
    """
    values = torch.linalg.eigvalsh(with_ridge(scatter.within)).numpy()
    counts = np.array([client.count for client in clients])
    side = np.sqrt(counts / counts.sum())
    deviation = side * np.sqrt(1 / counts + (noise / counts) ** 2 / values[:, np.newaxis])

    def draw(rng: np.random.Generator) -> float:
        strayed = deviation * rng.standard_normal(deviation.shape)
        found = _largest(strayed - np.outer(strayed @ side, side))
        return found / (1 + found)

    return draw


def orthogonal_block(
    rng: np.random.Generator, height: int, width: int, size: int
) -> NDArray[np.float64]:
    """Return the upper left corner of a random orthogonal matrix, as if all of it had been drawn.

    Args:
        rng: Draws it.
        height: Rows of the corner.
        width: Columns of the corner.
        size: Rows and columns of the matrix.
    """
    if width > height:
        return orthogonal_block(rng, width, height, size).T
    corner = rng.standard_normal((height, width))
    # Orthonormal columns come from normal draws; of those below the corner only the triangle of
    # their QR decomposition matters, and its entries are known to be χ and normal (Bartlett).
    below = min(size - height, width)
    rest = np.triu(rng.standard_normal((below, width)))
    rest[range(below), range(below)] = np.sqrt(rng.chisquare(size - height - np.arange(below)))
    columns, _ = np.linalg.qr(np.concatenate([corner, rest]))
    return np.asarray(columns[:height])


def _largest(root: NDArray[np.float64]) -> float:
    """Return the largest eigenvalue of R Rᵀ."""
    small = root.T @ root if root.shape[0] > root.shape[1] else root @ root.T
    return float(np.linalg.eigvalsh(small)[-1])


def rank_at_gap(values: Tensor, most: int, chance: float = 0.0) -> int:
    """Return how many discriminants stand out: those before the last clear fall of λ.

    A fall is clear if λ becomes less than a fifth. Without one, the largest fall counts: this rule
    always finds a direction, and :func:`by_chance` says whether there is one to find.

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


def nothing_found(chance: float, given: str) -> str:
    """Return in a sentence that clients may well be alike, and what a code is then.

    Args:
        chance: What :func:`by_chance` says.
        given: What there is of a code all the same.
    """
    return (
        "Nothing that tells clients apart was found in this layer: clients that differ in nothing "
        f"show as much in {chance:.0%} of draws (different means at most {LEVEL:.0%}). {given}"
    )


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
