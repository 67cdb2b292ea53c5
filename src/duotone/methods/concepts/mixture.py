"""A mixture of Gaussians that clients fit together, each sending only sums."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from duotone.federation.params import stored
from duotone.methods.concepts.alignment import discriminants
from duotone.methods.concepts.chance import chance_level, rank_at_gap
from duotone.methods.concepts.concept_layer import (
    ConceptLinear,
    fitted_weights,
    floored,
    responsibilities,
)
from duotone.methods.concepts.moments import Moments, Scatter
from duotone.types import ClientUpdate, Form

DRAWN = 200
"""Places drawn for each client to find the first centres."""
COLLAPSED_SPREAD = 0.1
UNTOLD_INFORMATION = 0.05
BLURRED_ENTROPY = 0.98


@dataclass(frozen=True, slots=True)
class Sums:
    """What clients send about the places of their samples among concepts.

    Attributes:
        count: How many samples there are.
        mass: Sum of responsibilities, by concept: ``(concepts,)``.
        places: Sum of places, weighted by responsibilities: ``(concepts, dimensions)``.
        squares: Sum of squared lengths of places.
        entropy: Sum of the samples' entropies over concepts if all are equally likely, in nats.
    """

    count: float
    mass: Tensor
    places: Tensor
    squares: Tensor
    entropy: Tensor

    def as_extra(self) -> dict[str, Tensor]:
        """Return the sums as an update carries them; the count is its weight."""
        names = ("mass", "places", "squares", "entropy")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_extra(cls, count: float, extra: Mapping[str, Tensor]) -> Sums:
        """Return what :meth:`as_extra` packed."""
        return cls(count, extra["mass"], extra["places"], extra["squares"], extra["entropy"])

    @staticmethod
    def form(concepts: int, dimensions: int) -> dict[str, Form]:
        """Declare what :meth:`as_extra` packs."""
        return {
            "mass": Form((concepts,), torch.float64, "nonnegative"),
            "places": Form((concepts, dimensions), torch.float64),
            "squares": Form((), torch.float64, "nonnegative"),
            "entropy": Form((), torch.float64),
        }


def sums_of(places: Tensor, centres: Tensor, sharpness: Tensor, there: Tensor) -> Sums:
    """Return a client's sums, under the weights that suit its samples.

    Args:
        places: Of its samples, ``(samples, dimensions)``.
        centres: Of the concepts.
        sharpness: Of the concepts.
        there: Which concepts there are.
    """
    weights = fitted_weights(places, centres, sharpness, there.to(places))
    shares = responsibilities(places, centres, sharpness, weights)
    blind = responsibilities(places, centres, sharpness, there.to(places))
    return Sums(
        len(places),
        shares.sum(dim=0),
        shares.T @ places,
        places.square().sum(),
        -torch.xlogy(blind, blind).sum(),
    )


def total(clients: Sequence[Sums]) -> Sums:
    """Return the sums of all clients together."""
    return Sums(
        sum(client.count for client in clients),
        torch.stack([client.mass for client in clients]).sum(dim=0),
        torch.stack([client.places for client in clients]).sum(dim=0),
        torch.stack([client.squares for client in clients]).sum(),
        torch.stack([client.entropy for client in clients]).sum(),
    )


def mean_places(mass: Tensor, places: Tensor, before: Tensor) -> Tensor:
    """Return the concepts' new centres, Eq. (6.5); one that no sample is near stays."""
    is_near = mass > 1e-8
    return torch.where(is_near[:, None], places / mass.clamp_min(1e-8)[:, None], before)


def best_sharpness(sums: Sums, centres: Tensor) -> Tensor:
    """Return the likeliest ι = 1 / (2σ²) around centres that are the means of the same sums."""
    dimensions = centres.shape[1]
    around = sums.squares - (sums.mass * centres.square().sum(dim=1)).sum()
    variance = around / (sums.count * dimensions)
    return 0.5 / variance.clamp_min(1e-6)


class Moving:
    """The moving averages S, C and N: Eq. (6.6) to (6.8).

    Args:
        kappa: What is kept of the batches before.
    """

    def __init__(self, kappa: float) -> None:
        self.kappa = kappa
        self.mass: Tensor | float = 0.0
        self.places: Tensor | float = 0.0
        self.count = 0.0

    def add(self, shares: Tensor, places: Tensor) -> None:
        """Take in one batch: its responsibilities and its places."""
        keep, new = self.kappa, 1 - self.kappa
        self.mass = self.mass * keep + shares.sum(dim=0) * new
        self.places = self.places * keep + shares.T @ places * new
        self.count = self.count * keep + len(shares) * new

    @property
    def weights(self) -> Tensor:
        """Of the concepts, v = S / N: Eq. (6.9)."""
        return torch.as_tensor(self.mass) / self.count

    def as_extra(self) -> dict[str, Tensor]:
        """Return S and C as an update carries them."""
        sums = {"mass": self.mass, "places": self.places}
        return {name: stored(torch.as_tensor(tensor)) for name, tensor in sums.items()}

    @staticmethod
    def form(centres: Tensor) -> dict[str, Form]:
        """Declare what :meth:`as_extra` packs."""
        return {
            "mass": Form((len(centres),), centres.dtype, "nonnegative"),
            "places": Form(tuple(centres.shape), centres.dtype),
        }


@torch.no_grad()
def moving_weights(layer: ConceptLinear, hidden: Tensor, kappa: float, batch_size: int) -> Tensor:
    """Return v after a pass over all hidden vectors: the first loop of Algorithms 8 and 9."""
    places = layer.places(hidden)
    seen = Moving(kappa)
    weights = floored(layer.weights)
    for batch in torch.split(places, batch_size):
        seen.add(responsibilities(batch, layer.centres, layer.sharpness, weights), batch)
        weights = floored(seen.weights)
    return weights


def moved_centres(updates: Sequence[ClientUpdate], before: Tensor) -> Tensor:
    """Return the concepts' centres after a round of Algorithm 8: Eq. (6.10)."""
    mass, places = (
        torch.stack([update.extra[key] for update in updates]).sum(dim=0)
        for key in ("mass", "places")
    )
    return mean_places(mass, places, before)


def discriminant_space(
    scatter: Scatter, clients: Sequence[Moments], dimensions: int | None, most: int
) -> tuple[Tensor, list[Moments]]:
    """Return the directions along which clients differ most, and clients' moments in them.

    In that space the spread inside a client is one in every direction, and the mean of all vectors
    is zero.

    Args:
        scatter: Of the clients.
        clients: Number, mean and covariance of each client's hidden vectors.
        dimensions: How many directions; by default those that stand out.
        most: An upper limit.
    """
    values, directions = discriminants(scatter)
    # Means of K clients differ in K − 1 directions at most.
    most = min(most, len(clients) - 1, len(values))
    rank = min(dimensions or rank_at_gap(values, most, chance_level(clients)), most)
    inward = directions[:, :rank].T
    placed = [
        Moments(
            client.count,
            inward @ (client.mean - scatter.mean),
            inward @ client.covariance @ inward.T,
        )
        for client in clients
    ]
    return inward, placed


def first_centres(clients: Sequence[Moments], concepts: int, rng: np.random.Generator) -> Tensor:
    """Return centres to start from, found in clients' moments and not in their samples.

    Places are drawn from a Gaussian with each client's moments, and k-means groups them.

    Args:
        clients: Number, mean and covariance of each client's places.
        concepts: How many centres.
        rng: Draws the places and the start of k-means.
    """
    from sklearn.cluster import KMeans  # 120 MB that no worker needs

    drawn = [
        rng.multivariate_normal(client.mean.numpy(), client.covariance.numpy(), DRAWN)
        for client in clients
    ]
    means = KMeans(concepts, n_init=10, random_state=int(rng.integers(2**31)))
    return torch.from_numpy(means.fit(np.concatenate(drawn)).cluster_centers_)


# -- whether concepts say anything


@dataclass(frozen=True, slots=True)
class Monitors:
    """Whether concepts say anything.

    Attributes:
        spread: How far they are apart, in units of the spread of samples.
        information: What the concept of a sample says about its client, in nats.
        entropy: How undecided samples are between concepts, as a share of complete indecision.
    """

    spread: float
    information: float
    entropy: float

    def complaints(self) -> list[str]:
        """Return in sentences what is wrong."""
        found: list[str] = []
        if self.spread < COLLAPSED_SPREAD:
            found.append(
                f"The concepts have collapsed: they are {self.spread:.3f} apart, in units of the "
                f"spread of samples (below {COLLAPSED_SPREAD}), so all of them mean the same."
            )
        if self.entropy > BLURRED_ENTROPY:
            found.append(
                f"Samples belong to all concepts alike: their entropy is {self.entropy:.3f} of the "
                f"largest possible (above {BLURRED_ENTROPY})."
            )
        if self.information < UNTOLD_INFORMATION:
            found.append(
                "The concepts do not tell clients apart: a sample's concept says "
                f"{self.information:.3f} nats about its client (below {UNTOLD_INFORMATION}). "
                "Either clients do not differ, or the concepts miss how."
            )
        return found


def monitors(clients: Sequence[Sums], centres: Tensor) -> Monitors:
    """Return whether the concepts say anything, from all clients' sums."""
    together = total(clients)
    shares = together.mass / together.count
    mean = together.places.sum(dim=0) / together.count
    variance = float(together.squares / together.count - mean.square().sum())
    middle = shares @ centres
    apart = float(shares @ (centres - middle).square().sum(dim=1))
    information = 0.0
    for client in clients:
        own = client.mass / client.count
        part = client.count / together.count
        information += part * float((torch.xlogy(own, own) - torch.xlogy(own, shares)).sum())
    concepts = int((shares > 0).sum())
    largest = math.log(concepts) if concepts > 1 else 1.0
    return Monitors(
        math.sqrt(apart / variance) if variance > 0 else 0.0,
        information,
        float(together.entropy) / together.count / largest,
    )
