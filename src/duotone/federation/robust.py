"""Averages that a few hostile clients cannot move at will.

Every rule takes one vector per client and counts all clients alike: a client's weight is its own
claim. ``hostile`` is how many of them may be arbitrary.

=================  ===========================================  =====================
rule               what it returns                              clients it needs
=================  ===========================================  =====================
median             the median of every coordinate               2 · hostile + 1
trimmed-mean       the mean without the extremes of each one    2 · hostile + 1
krum               the vector nearest to its neighbours         2 · hostile + 3
multi-krum         the mean of the vectors that krum likes      2 · hostile + 3
geometric-median   the point nearest to all, by distances       2 · hostile + 1
clipped-mean       the mean, with long moves cut to the median  2 · hostile + 1
=================  ===========================================  =====================

``median`` and ``trimmed-mean`` stay between the smallest and the largest honest value of every
coordinate. ``krum`` returns a vector that a client sent. ``geometric-median`` stays within a
bounded distance of the honest vectors. ``clipped-mean`` bounds what a hostile client can do and
removes nobody.

Yin et al., ICML 2018 (median, trimmed mean); Blanchard et al., NeurIPS 2017 (Krum); Pillutla et
al., IEEE TSP 2022 (geometric median); Karimireddy et al., ICML 2021 (clipping).
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

Rule: TypeAlias = Literal[
    "mean", "median", "trimmed-mean", "krum", "multi-krum", "geometric-median", "clipped-mean"
]
_STEPS = 100
_CLOSE = 1e-9


def assumed_hostile(clients: int, share: float) -> int:
    """Return how many of some clients a share of hostile ones is, rounded up.

    >>> assumed_hostile(10, 0.2), assumed_hostile(7, 0.2)
    (2, 2)
    """
    return math.ceil(clients * share - 1e-9)


def needed(rule: Rule, hostile: int) -> int:
    """Return how many clients a rule needs to bear some hostile ones."""
    if rule == "mean":
        return 1
    return 2 * hostile + (3 if rule in ("krum", "multi-krum") else 1)


def shortage(rule: Rule, clients: int, share: float) -> str:
    """Say in words why there are too few clients for a rule; nothing if there are enough."""
    hostile = assumed_hostile(clients, share)
    least = needed(rule, hostile)
    if clients >= least:
        return ""
    return (
        f"aggregate = {rule!r} with hostile = {share:g} assumes {hostile} hostile among {clients} "
        f"clients and needs {least} to bear them"
    )


def median(vectors: Tensor) -> Tensor:
    """Return the median of every coordinate: of an even number, the mean of the middle two."""
    return trimmed_mean(vectors, (len(vectors) - 1) // 2)


def trimmed_mean(vectors: Tensor, hostile: int) -> Tensor:
    """Return the mean of every coordinate without its ``hostile`` lowest and highest values."""
    ordered = vectors.sort(dim=0).values
    return ordered[hostile : len(vectors) - hostile].mean(dim=0)


def krum_scores(vectors: Tensor, hostile: int) -> Tensor:
    """Return for every vector the sum of squared distances to its n − hostile − 2 nearest."""
    squares = torch.stack([(vectors - vector).square().sum(dim=1) for vector in vectors])
    neighbours = len(vectors) - hostile - 2
    return squares.fill_diagonal_(math.inf).sort(dim=1).values[:, :neighbours].sum(dim=1)


def krum(vectors: Tensor, hostile: int) -> Tensor:
    """Return the vector whose neighbours are nearest."""
    return vectors[int(krum_scores(vectors, hostile).argmin())]


def multi_krum(vectors: Tensor, hostile: int) -> Tensor:
    """Return the mean of the n − ``hostile`` vectors that Krum likes best."""
    best = krum_scores(vectors, hostile).argsort(stable=True)[: len(vectors) - hostile]
    return vectors[best.sort().values].mean(dim=0)


def geometric_median(vectors: Tensor) -> Tensor:
    """Return the point with the smallest sum of distances, by Weiszfeld's steps.

    They start at the coordinates' medians: from the mean, one far vector would cost many steps.
    """
    centre = median(vectors)
    # Far below every distance that matters, so that a vector at the centre divides by no zero.
    floor = 1e-12 + 1e-9 * float((vectors - centre).norm(dim=1).median())
    for _ in range(_STEPS):
        pull = 1 / (vectors - centre).norm(dim=1).clamp_min(floor)
        moved: Tensor = (pull / pull.sum()) @ vectors
        if float((moved - centre).norm()) <= _CLOSE * (1 + float(centre.norm())):
            return moved
        centre = moved
    return centre


def clip_radius(lengths: Tensor) -> float:
    """Return how far a client may move: as far as the median client (the lower of two)."""
    return float(lengths.median())


def clipped_mean(vectors: Tensor, sent: Tensor) -> Tensor:
    """Return the mean, where moves away from what was sent are cut to the median length."""
    moves = vectors - sent
    lengths = moves.norm(dim=1)
    factors = (clip_radius(lengths) / lengths.clamp_min(1e-30)).clamp_max(1)
    mean_move: Tensor = (factors[:, None] * moves).mean(dim=0)
    return sent + mean_move


def combined(rule: Rule, vectors: Tensor, sent: Tensor, hostile: int) -> Tensor:
    """Return what a rule makes of one float64 vector per client.

    Args:
        rule: Which one; ``mean`` counts clients alike here as well.
        vectors: ``(clients, coordinates)``.
        sent: What the clients started from.
        hostile: How many clients may be arbitrary.
    """
    match rule:
        case "mean":
            return vectors.mean(dim=0)
        case "median":
            return median(vectors)
        case "trimmed-mean":
            return trimmed_mean(vectors, hostile)
        case "krum":
            return krum(vectors, hostile)
        case "multi-krum":
            return multi_krum(vectors, hostile)
        case "geometric-median":
            return geometric_median(vectors)
        case "clipped-mean":
            return clipped_mean(vectors, sent)
