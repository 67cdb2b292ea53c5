"""Measure the tables that scores of disentanglement are made from: codes against true factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from duotone.data.dataset import Array
from duotone.measures.disentanglement import (
    Table,
    bin_edges,
    bins_for,
    completeness,
    disentanglement,
    entropy,
    joint_counts,
    mig,
    modularity,
    mutual_information,
    sap,
    to_bins,
)
from duotone.measures.questions import Question, answer_blindly, plain_score
from duotone.measures.score import Score
from duotone.seeding import derive, stream

_TREES = 10
_LEAF = 10
_FOREST_ROWS = 2000


@dataclass(frozen=True, slots=True)
class FactorTables:
    """What dimensions or parts have to do with factors; most are ``(dimensions, factors)``.

    Attributes:
        information: Mutual information in nats.
        entropies: Entropy of each factor in nats ``(factors,)``.
        predictability: How well one alone predicts: accuracy for classes, R² for numbers.
        importance: How much each matters for predicting a factor.
        informativeness: How well a factor can be predicted, 0 by chance, 1 at best ``(factors,)``.
    """

    information: Table
    entropies: Table
    predictability: Table
    importance: Table
    informativeness: Table

    def scores(self) -> dict[str, float]:
        """Return the scores that can be told: most need two dimensions, some two factors."""
        dimensions, factors = self.importance.shape
        if dimensions < 2 or factors == 0:
            return {}
        found = {
            "mig": mig(self.information, self.entropies),
            "sap": sap(self.predictability),
            "completeness": completeness(self.importance),
            "informativeness": float(self.informativeness.mean()),
        }
        if factors > 1:
            found["modularity"] = modularity(self.information)
            found["disentanglement"] = disentanglement(self.importance)
        return found


def above_chance(value: float, chance: float) -> float:
    """Return a score as a share of what chance leaves open, from 0 to 1."""
    return min(1.0, max(0.0, (value - chance) / (1 - chance))) if chance < 1 else 0.0


def as_classes(asking: Question) -> NDArray[np.int64]:
    """Return answers as classes; numbers are binned, an angle by its direction."""
    if asking.is_categorical:
        return np.asarray(asking.answers, np.int64)
    amounts = asking.answers
    line = (
        np.arctan2(amounts[:, 1], amounts[:, 0])[:, np.newaxis] if amounts.shape[1] > 1 else amounts
    )
    return to_bins(line, bin_edges(line, bins_for(len(line))))[:, 0]


def measure_dimensions(
    codes: Array,
    known: Sequence[Question],
    test_codes: Array,
    asked: Sequence[Question],
    seed: int,
) -> FactorTables:
    """Measure every dimension of a code against every factor.

    Information is that between bins of equal frequency, 20 where there are 2,000 test samples or
    more. Alone, a dimension predicts classes by the most frequent class of each bin, and numbers
    linearly. Importance is that for scikit-learn's extremely randomised trees, which look at all
    dimensions at every split: about as sharp as boosted trees, and quick; 10 trees, grown on at
    most 2,000 samples. What predicts is learnt on one split and scored on the other.

    Args:
        codes: Training samples, one row each.
        known: The factors of these samples; questions that can be learnt.
        test_codes: Test samples.
        asked: The same factors of these.
        seed: Of the trees.
    """
    columns = []
    for training, testing in zip(known, asked, strict=True):
        learnt = training.at(training.asked), codes[training.asked]
        scored = testing.at(testing.asked), test_codes[testing.asked]
        columns.append(_measure(*learnt, *scored, seed))
    return FactorTables(*(np.stack(pieces, axis=-1) for pieces in zip(*columns, strict=True)))


def _measure(
    known: Question, codes: Array, asked: Question, test_codes: Array, seed: int
) -> tuple[Array, Array, Array, Array, Array]:
    classes = as_classes(asked)
    edges = bin_edges(codes, bins_for(len(codes)))
    bins = to_bins(test_codes, edges)
    if known.is_categorical:
        usual = joint_counts(to_bins(codes, edges), known.answers).argmax(axis=2)
        alone = (usual[np.arange(bins.shape[1]), bins] == asked.answers[:, np.newaxis]).mean(axis=0)
        forest = ExtraTreesClassifier
    else:
        alone = _squared_correlation(test_codes, asked.answers)
        forest = ExtraTreesRegressor
    trees = forest(
        _TREES,
        max_features=1.0,
        min_samples_leaf=_LEAF,
        random_state=derive(seed, "forest") % 2**32,
    )
    few = stream(seed, "forest").permutation(len(codes))[:_FOREST_ROWS]
    answers = known.answers[:, 0] if known.answers.shape[1:] == (1,) else known.answers
    trees.fit(codes[few], answers[few])
    said = np.asarray(trees.predict(test_codes)).reshape(asked.answers.shape)
    chance = plain_score(asked, answer_blindly(known, asked))
    return (
        mutual_information(joint_counts(bins, classes)),
        np.asarray(entropy(classes)),
        alone,
        trees.feature_importances_,
        np.asarray(above_chance(plain_score(asked, said), chance)),
    )


def _squared_correlation(codes: Array, amounts: Array) -> Array:
    """Return the R² with which each dimension alone predicts amounts linearly."""
    x, y = codes - codes.mean(axis=0), amounts - amounts.mean(axis=0)
    explained = ((x.T @ y) ** 2).sum(axis=1)
    variance = (x**2).sum(axis=0)
    moving = variance > 1e-10 * (codes.astype(np.float64) ** 2).sum(axis=0)
    share = np.where(moving, explained / np.where(moving, variance, 1), 0)
    return np.asarray(share / (y**2).sum())


def part_scores(tables: FactorTables, owners: Sequence[str | None]) -> dict[str, float]:
    """Return the scores of whole parts.

    A part should hold all factors of its side, so for modularity and disentanglement, which ask
    whether a row stands for one column, the factors of each side are averaged into one; without
    factors of two sides there are none. The other scores are as for dimensions.

    Args:
        tables: What :func:`measure_parts` found.
        owners: The side of each factor, "shared" or "local"; ``None`` where that is not known.
    """
    found = tables.scores()
    for name in ("modularity", "disentanglement"):
        found.pop(name, None)
    sides = [[side == owner for owner in owners] for side in ("shared", "local")]
    if all(any(columns) for columns in sides):
        known = tables.information / tables.entropies
        found["modularity"] = modularity(_merged(known, sides))
        found["disentanglement"] = disentanglement(_merged(tables.importance, sides))
    return found


def _merged(table: Table, sides: Sequence[Sequence[bool]]) -> Table:
    return np.stack([table[:, columns].mean(axis=1) for columns in sides], axis=1)


def measure_parts(
    read: Sequence[Sequence[Score]],
    chance: Sequence[float],
    answers: Sequence[Sequence[Array]],
    asked: Sequence[Question],
) -> FactorTables:
    """Take whole parts as dimensions: a part knows what its probe answers.

    Information is that between a probe's answers and the truth, a lower bound of what the part
    holds. The importance of a part for a factor is how far its probe is above chance; 0 where the
    interval of its score reaches down to chance, so that luck does not look like specialisation. A
    factor is as well known as to the part that knows it best.

    Args:
        read: Scores of the probes, for each part those of all factors.
        chance: What answering blindly scores, for each factor.
        answers: Of each part's probe for each factor about the test samples.
        asked: The true factors of the test samples.
    """
    truths = [(truth.at(truth.asked), truth.asked) for truth in asked]
    information = [
        [
            mutual_information(
                joint_counts(
                    as_classes(replace(truth, answers=said[rows]))[:, np.newaxis], as_classes(truth)
                )
            )[0]
            for said, (truth, rows) in zip(part, truths, strict=True)
        ]
        for part in answers
    ]
    importance = np.array(
        [
            [
                above_chance(score.value, blind) if (score.low or 0.0) > blind else 0.0
                for score, blind in zip(part, chance, strict=True)
            ]
            for part in read
        ]
    )
    return FactorTables(
        information=np.array(information),
        entropies=np.array([entropy(as_classes(truth)) for truth, _ in truths]),
        predictability=np.array([[max(0.0, score.value) for score in part] for part in read]),
        importance=importance,
        informativeness=importance.max(axis=0),
    )
