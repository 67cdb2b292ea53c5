"""What clients send about their hidden vectors: number, mean and covariance, also with privacy.

From these the server learns where clients differ, and nothing about a single sample leaves them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from duotone.types import ClientUpdate, Form

DELTA = 1e-5
"""δ of the privacy that noise on statistics gives."""


@dataclass(frozen=True, slots=True)
class Moments:
    """What a client sends about its hidden vectors.

    Attributes:
        count: How many there are.
        mean: Their mean.
        covariance: Their covariance, divided by the count.
    """

    count: float
    mean: Tensor
    covariance: Tensor

    def as_extra(self) -> dict[str, Tensor]:
        """Return the moments as an update carries them; the count is its weight."""
        return {"mean": self.mean, "covariance": self.covariance}

    @classmethod
    def of_update(cls, update: ClientUpdate) -> Moments:
        """Return what :meth:`as_extra` packed."""
        return cls(update.weight, update.extra["mean"], update.extra["covariance"])

    @staticmethod
    def form(width: int, *, is_exact: bool = True) -> dict[str, Form]:
        """Declare what :meth:`as_extra` packs; with noise on it, a covariance may be any matrix."""
        values: Literal["any", "covariance"] = "covariance" if is_exact else "any"
        return {
            "mean": Form((width,), torch.float64),
            "covariance": Form((width, width), torch.float64, values),
        }


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

    Directions that noise happens to flatten would pass for those along which clients differ.

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
