"""What several seeds allow to say: means with intervals, paired comparisons, verdicts.

**The seed is the unit.** Two methods are compared on the same clients of the same seeds. Clients of
one seed share a partition, a first model and a training run, so they are not independent, however
many there are: only seeds are. A seed has one number, the mean difference over its clients; whether
the difference holds is asked of these numbers alone, by a t-test. Clients say how a difference is
spread (who wins, how often), never whether it is there.

**Verdicts are for what was declared.** Of many comparisons some come out by chance. Only those that
were declared before the runs get a verdict, and their p-values are corrected for their number. All
others are exploratory: they are shown with their interval and get none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

if TYPE_CHECKING:  # so that intervals can be had without torch
    from duotone.measures.metrics import Direction

CONFIDENCE = 0.95
SIGNIFICANCE = 0.05

SeedClient: TypeAlias = tuple[int, str]
"""A seed and a client."""

Verdict: TypeAlias = Literal["better", "worse", "not shown", "one seed", "exploratory"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % confidence interval.

    Attributes:
        mean: The mean.
        low: Lower end of the interval, ``None`` with a single value.
        high: Upper end, likewise.
        n: Number of values.
    """

    mean: float
    low: float | None
    high: float | None
    n: int

    @property
    def half(self) -> float | None:
        """Half the width of the interval: what stands behind ±."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of independent values with its Student-t interval.

    >>> estimate([0.5])
    Estimate(mean=0.5, low=None, high=None, n=1)
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Estimate(mean, None, None, n)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * deviation / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One method against another, on what both have.

    Attributes:
        difference: First minus second: mean over seeds of the seeds' mean differences.
        p: Two-sided p-value of a t-test over the seeds' mean differences, uncorrected; none with
            a single seed.
        effect: Matched-pairs rank-biserial correlation, -1 to 1; 1: the first is better always.
        won: Share of pairs in which the first is better.
        tied: Share of pairs in which both are equal.
        pairs: Number of pairs.
    """

    difference: Estimate
    p: float | None
    effect: float
    won: float
    tied: float
    pairs: int


def compare_pairs(
    first: Mapping[SeedClient, float], second: Mapping[SeedClient, float], direction: Direction
) -> Comparison | None:
    """Compare two methods on the (seed, client) pairs that both have.

    Args:
        first: A value for each pair.
        second: Likewise, of the method it is compared with.
        direction: Which way is better.

    Returns:
        The comparison, or ``None`` where no pair is common to both.
    """
    common = sorted(first.keys() & second.keys())
    if not common:
        return None
    # Equal steps of accuracy must tie, and 0.9 - 0.8 is not 0.8 - 0.7 to the last bit.
    differences = np.round([first[pair] - second[pair] for pair in common], 12)
    seeds = np.array([seed for seed, _ in common])
    means = [float(differences[seeds == seed].mean()) for seed in np.unique(seeds)]
    gains = differences if direction == "higher" else -differences
    return Comparison(
        difference=estimate(means),
        p=_paired_p(means),
        effect=rank_biserial(gains),
        won=float((gains > 0).mean()),
        tied=float((gains == 0).mean()),
        pairs=len(common),
    )


def _paired_p(means: Sequence[float]) -> float | None:
    """Return how easily chance makes seeds differ so much, if they do not differ at all."""
    n = len(means)
    if n == 1:
        return None
    mean = math.fsum(means) / n
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in means) / (n - 1))
    if deviation < 1e-12:  # all seeds differ by the same amount, if by any
        return 1.0 if abs(mean) < 1e-12 else 0.0
    return float(2 * stats.t.sf(abs(mean) / deviation * math.sqrt(n), n - 1))


def smallest_shown(seeds: int, deviation: float, comparisons: int = 1) -> float:
    """Return the smallest mean difference that some seeds could show.

    It is the one whose p-value is just small enough for the strictest of the corrected comparisons.
    Nearly half of the studies of a true difference of this size would miss it.

    >>> round(smallest_shown(3, 1.0), 2)
    2.48

    Args:
        seeds: How many there are, at least two.
        deviation: Standard deviation of the seeds' mean differences.
        comparisons: How many are declared.
    """
    quantile = float(stats.t.ppf(1 - SIGNIFICANCE / (2 * max(1, comparisons)), seeds - 1))
    return quantile * deviation / math.sqrt(seeds)


def rank_biserial(differences: NDArray[np.float64]) -> float:
    """Return how far the ranks of the gains outweigh those of the losses, from -1 to 1.

    Pairs are ranked by the size of their difference; ties share ranks, zeros do not count. 0 where
    all are zero.

    >>> rank_biserial(np.array([3.0, -1.0, 2.0]))  # ranks 3 and 2 against rank 1
    0.6666666666666666
    """
    unequal = differences[differences != 0]
    if len(unequal) == 0:
        return 0.0
    ranks = stats.rankdata(np.abs(unequal))
    return float((np.sign(unequal) * ranks).sum() / ranks.sum())


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's step-down procedure.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    corrected = [0.0] * len(p_values)
    floor = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        floor = max(floor, min(1.0, (len(p_values) - place) * p_values[index]))
        corrected[index] = floor
    return corrected


def verdict(comparison: Comparison, corrected_p: float | None, direction: Direction) -> Verdict:
    """Say what a comparison shows: nothing is called better inside its noise.

    Args:
        comparison: First against second.
        corrected_p: Its p-value, corrected for all that was declared; ``None`` if it was not, or if
            there is a single seed.
        direction: Which way is better.
    """
    if comparison.p is None:
        return "one seed"
    if corrected_p is None:
        return "exploratory"
    if corrected_p >= SIGNIFICANCE:
        return "not shown"
    gain = comparison.difference.mean if direction == "higher" else -comparison.difference.mean
    return "better" if gain > 0 else "worse"


def mean_ranks(
    values: Mapping[str, Mapping[SeedClient, float]], direction: Direction
) -> dict[str, float]:
    """Return each method's mean rank over the pairs that all have; 1 is best, ties share ranks.

    Empty where no pair is common to all.
    """
    if not values:
        return {}
    common = sorted(set.intersection(*(set(found) for found in values.values())))
    if not common:
        return {}
    table = np.round([[found[pair] for pair in common] for found in values.values()], 12)
    ranks = stats.rankdata(-table if direction == "higher" else table, axis=0)
    return dict(zip(values, ranks.mean(axis=1).tolist(), strict=True))
