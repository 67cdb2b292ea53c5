"""What several seeds allow to say: means with intervals, paired comparisons, verdicts.

Two methods are compared on the same clients of the same seeds. A client of one name is another
draw of the partition in every seed, so a pair is a (seed, client). Two questions are asked apart:
does the difference of the means hold over seeds (a Student-t interval over the seeds' mean
differences), and does it hold over clients (Wilcoxon's signed-rank test over the pairs). Clients
of one seed share a training run and are not independent, so the test alone would promise too
much; a method is called better only where both agree.
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

Verdict: TypeAlias = Literal["better", "worse", "no difference shown", "one seed"]


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
        p: Two-sided p-value of Wilcoxon's signed-rank test over pairs, uncorrected.
        effect: Matched-pairs rank-biserial correlation, -1 to 1; 1: the first is better always.
        won: Share of pairs in which the first is better.
        tied: Share of pairs in which both are equal.
        pairs: Number of pairs.
    """

    difference: Estimate
    p: float
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
        p=_signed_rank_p(gains),
        effect=rank_biserial(gains),
        won=float((gains > 0).mean()),
        tied=float((gains == 0).mean()),
        pairs=len(common),
    )


def _signed_rank_p(differences: NDArray[np.float64]) -> float:
    unequal = differences[differences != 0]
    return float(stats.wilcoxon(unequal).pvalue) if len(unequal) else 1.0


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


def verdict(comparison: Comparison, corrected_p: float, direction: Direction) -> Verdict:
    """Say what a comparison shows: nothing is called better inside its noise.

    Args:
        comparison: First against second.
        corrected_p: Its p-value, corrected for all that was compared.
        direction: Which way is better.
    """
    low, high = comparison.difference.low, comparison.difference.high
    if low is None or high is None:
        return "one seed"
    gain = comparison.difference.mean if direction == "higher" else -comparison.difference.mean
    holds_over_seeds = low > 0 or high < 0
    agrees = gain * comparison.effect > 0
    if not (holds_over_seeds and agrees and corrected_p < SIGNIFICANCE):
        return "no difference shown"
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
