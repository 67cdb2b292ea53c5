"""How far verdicts on samples agree with the truth, and scores made of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duotone.measures.score import Aim, Score
from duotone.types import Unit

FloatArray: TypeAlias = NDArray[np.float64]
Scale: TypeAlias = Literal["categorical", "number", "angle"]
_UNITS: dict[Scale, Unit] = {"categorical": "share", "number": "R²", "angle": "cosine"}
_RESAMPLES = 500


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far one client's verdicts agree with the truth, sample by sample.

    The score of some samples is what they gained over what was possible. Of classes a sample
    gains 1 or 0 of 1, which makes accuracy; of an angle it gains the cosine of the error, of 1; of
    a number it gains what the verdict takes off the squared distance from the client's mean, which
    makes R² within clients. A sample without a true value can gain nothing. The unit is that of the
    score.
    """

    gained: FloatArray
    possible: FloatArray
    unit: Unit

    @property
    def value(self) -> float | None:
        """The score, or ``None`` where nothing could be gained."""
        possible = float(self.possible.sum())
        return float(self.gained.sum()) / possible if possible else None


Pair: TypeAlias = tuple[str, str]
"""Who gives the shared code, and who gives the local code and decodes."""
Agreements: TypeAlias = dict[str, Agreement]
"""By question."""


def agreement(scale: Scale, truth: FloatArray, verdict: FloatArray) -> Agreement:
    """Compare verdicts on one client's samples with the truth; clients of any size count alike."""
    known = np.isfinite(truth)
    if not known.any():
        return Agreement(np.zeros(len(truth)), np.zeros(len(truth)), _UNITS[scale])
    possible = np.ones(len(truth))
    if scale == "categorical":
        gained = (truth == verdict).astype(np.float64)
    elif scale == "angle":
        gained = np.cos(truth - verdict)
    else:
        possible = np.square(truth - truth[known].mean())
        gained = possible - np.square(truth - verdict)
    share = known.sum()
    gained, possible = (np.where(known, found, 0) / share for found in (gained, possible))
    return Agreement(gained, possible, _UNITS[scale])


def measured(
    agreements: Sequence[Agreement],
    direction: Aim,
    rng: np.random.Generator,
) -> Score | None:
    """Return the score of several clients' agreements with its bootstrap interval over samples.

    ``None`` where nothing could be gained.
    """
    pairs = [np.stack([found.gained, found.possible]) for found in agreements]
    gained, possible = np.concatenate([np.zeros((2, 0)), *pairs], axis=1)
    counted = possible > 0
    gained, possible = gained[counted], possible[counted]
    n = len(gained)
    if n == 0:
        return None
    drawn = rng.integers(0, n, (_RESAMPLES, n))
    values = gained[drawn].sum(axis=1) / possible[drawn].sum(axis=1)
    low, high = np.quantile(values, [0.025, 0.975])
    value = float(gained.sum() / possible.sum())
    unit = agreements[0].unit
    return Score(value, float(values.std()), direction, n, unit, float(low), float(high))


def by_content(pairs: Mapping[Pair, Agreement], style_of: Mapping[str, str]) -> list[Agreement]:
    """Return one agreement per giver of shared codes: of each sample the mean over other styles.

    The same samples are swapped with many clients; counted once each, they are independent.
    """
    found: dict[str, list[Agreement]] = {}
    for (content, giver), pair in pairs.items():
        if style_of[content] != style_of[giver]:
            found.setdefault(content, []).append(pair)
    return [
        Agreement(
            np.mean([pair.gained for pair in several], axis=0),
            np.mean([pair.possible for pair in several], axis=0),
            several[0].unit,
        )
        for several in found.values()
    ]


def frechet_distance(first: FloatArray, second: FloatArray) -> float:
    """Return the Fréchet distance of two sets of features as if both were Gaussian.

    ‖μ₁ − μ₂‖² + tr(Σ₁ + Σ₂ − 2 (Σ₁Σ₂)^½); 0 for equal means and covariances.

    Args:
        first: ``(samples, features)``, at least two samples.
        second: Likewise.
    """
    means = first.mean(axis=0) - second.mean(axis=0)
    one, two = (np.atleast_2d(np.cov(x, rowvar=False)) for x in (first, second))
    # Σ₁Σ₂ has the eigenvalues of Σ₁^½ Σ₂ Σ₁^½, which is symmetric.
    values, vectors = np.linalg.eigh(one)
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    mixed = np.linalg.eigvalsh(root @ two @ root).clip(min=0)
    return float(means @ means + np.trace(one) + np.trace(two) - 2 * np.sqrt(mixed).sum())


def effective_classes(verdicts: FloatArray) -> float:
    """Return the exponential of the entropy: the number of classes, rare ones counting less."""
    _, counts = np.unique(verdicts, return_counts=True)
    shares = counts / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def chance_agreement(first: FloatArray, second: FloatArray) -> float:
    """Return how often independent draws from two sets of classes agree."""
    classes = np.union1d(first, second)
    shares = [(x[:, np.newaxis] == classes).mean(axis=0) for x in (first, second)]
    return float(shares[0] @ shares[1])
