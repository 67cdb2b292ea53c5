"""Whether clients differ at all, or show no more than chance, and in how many directions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from duotone.methods.concepts.alignment import RIDGE, discriminants, with_ridge
from duotone.methods.concepts.moments import Moments, Scatter

LEVEL = 0.01
"""How often clients that differ in nothing may pass for different."""
DRAWS = 199
"""Random federations to compare the given one with."""
_CLEAR_GAP = 5.0


def chance_level(clients: Sequence[Moments]) -> float:
    """Return about the largest λ that clients have which differ in nothing but who drew which.

    Means of n vectors stray by S_W / n. In units of S_W the clients' means then scatter like a
    Wishart matrix, whose largest eigenvalue is near (√(K − 1) + √d)² for K clients, divided here by
    the number of all vectors.
    """
    total = sum(client.count for client in clients)
    return (math.sqrt(len(clients) - 1) + math.sqrt(len(clients[0].mean))) ** 2 / total


def rank_at_gap(values: Tensor, most: int, level: float = 0.0, chance: float = 0.0) -> int:
    """Return how many discriminants stand out: those before the last clear fall of λ.

    A fall is clear if λ becomes less than a fifth. Without one, the largest fall counts. If clients
    that differ in nothing show as much, none stands out.

    Args:
        values: All λ, falling.
        most: An upper limit; means of K clients differ in at most K − 1 directions.
        level: What λ can be by chance, see :func:`chance_level`; falls below that are none.
        chance: How easily chance makes the first λ, see :func:`by_chance`.
    """
    if chance > LEVEL or most < 1:
        return 0
    most = min(most, len(values) - 1)
    if most < 1:
        return 1
    seen = values.clamp_min(max(level, float(values[0]) * 1e-9))
    falls = seen[:most] / seen[1 : most + 1]
    clear = (falls > _CLEAR_GAP).nonzero().flatten()
    return int(clear[-1] if len(clear) else falls.argmax()) + 1


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

    The spread inside clients is lifted to its own noise (``above_noise``) and taken as known.
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
