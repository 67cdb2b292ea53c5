"""Questions about the samples of a table, the rows they are asked of, and scores of answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array, is_known
from duotone.data.planted import FACTORS
from duotone.data.styles import STYLE_FACTORS
from duotone.federation.method import Part
from duotone.measures.score import Aim, Score
from duotone.types import Unit

ANGLES = ("phase",)
"""Factors in radians: values near both ends are alike, so they are read as cosine and sine."""
ROWS = 4000
"""Most samples a probe is trained on, and most it is scored on."""

_DRAWS = 500
_FEWEST = 20  # with fewer training samples a probe would tell more about luck than about a code


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about every sample of a table.

    Attributes:
        name: What is asked for: client, group, label or the name of a factor.
        answers: The true answers. Classes: int64 ``(rows,)``, -1 where nothing is asked.
            Numbers: float64 ``(rows, values)``, NaN where nothing is asked.
    """

    name: str
    answers: Array

    @property
    def is_categorical(self) -> bool:
        """True if the answer is one of several classes, False if it is a number."""
        return self.answers.ndim == 1

    @property
    def asked(self) -> NDArray[np.bool_]:
        """The samples that the question is about."""
        if self.is_categorical:
            return np.asarray(self.answers >= 0)
        return np.asarray(~np.isnan(self.answers).any(axis=1))

    def at(self, rows: Array) -> Question:
        """Return the question about some of the samples."""
        return replace(self, answers=self.answers[rows])

    def where(self, rows: NDArray[np.bool_]) -> Question:
        """Return the question about some samples, and about the others no more."""
        answers = self.answers.copy()
        answers[~rows] = -1 if self.is_categorical else np.nan
        return replace(self, answers=answers)

    def about_known(self, training: Question) -> Question:
        """Return the question about samples whose class the training samples have."""
        if not self.is_categorical:
            return self
        known = np.isin(self.answers, training.answers)
        return replace(self, answers=np.where(known, self.answers, -1))

    @property
    def can_be_learnt(self) -> bool:
        """Whether enough samples are asked and their answers differ."""
        given = self.answers[self.asked]
        return len(given) >= _FEWEST and bool((given != given[0]).any())


def question(name: str, values: Array) -> Question:
    """Return the question for a column: floats are continuous, all else is categorical.

    An angle is asked for as its cosine and sine, because 0 and 2π are the same.
    """
    if not np.issubdtype(values.dtype, np.floating):
        known = is_known(values)
        classes = np.full(len(values), -1, np.int64)
        classes[known] = np.unique(values[known], return_inverse=True)[1]
        return Question(name, classes)
    numbers = values.astype(np.float64)
    columns = (np.cos(numbers), np.sin(numbers)) if name in ANGLES else (numbers,)
    return Question(name, np.stack(columns, axis=1))


def draw_rows(rows: Array, rng: np.random.Generator, limit: int = ROWS) -> NDArray[np.int64]:
    """Return the rows, or a random ``limit`` of them, in ascending order."""
    if len(rows) <= limit:
        return np.asarray(rows, np.int64)
    return np.sort(rng.choice(rows, limit, replace=False)).astype(np.int64)


def part_of(question: str, data: str | None) -> Part | None:
    """Return the part that should know the answer to a question, where that is known.

    Args:
        question: ``client``, ``group``, ``label``, or the name of a factor.
        data: Name of the data set, which says whose its factors are.
    """
    factors = FACTORS.get(data or "", {})
    # A style belongs to a client or its group.
    if question in ("client", "group", *STYLE_FACTORS, *factors.get("local", ())):
        return "local"
    return "shared" if question in ("label", *factors.get("shared", ())) else None


def answer_blindly(known: Question, asked: Question) -> Array:
    """Return what one would answer without a code.

    For classes the most frequent one of the training samples; for numbers the mean of the samples
    asked, which is what R² compares with.
    """
    if known.is_categorical:
        return np.full(len(asked.answers), np.bincount(known.answers[known.asked]).argmax())
    mean = asked.answers[asked.asked].mean(axis=0) if asked.asked.any() else np.nan
    return np.broadcast_to(mean, asked.answers.shape)


def answer_by_label(known: Question, labels: Array, asked_labels: Array) -> Array:
    """Return what one would answer from a sample's label alone: the most frequent class it has.

    Args:
        known: A categorical question, answered for the training samples.
        labels: Their labels, numbered from 0; below where there is none.
        asked_labels: Labels of the samples asked about.
    """
    answers = np.empty(len(asked_labels), np.int64)
    for label in np.unique(asked_labels):
        alike = known.answers[known.asked & (labels == label)]
        # Of a label that no training sample has, one knows as much as without it.
        counted = np.bincount(alike if len(alike) else known.answers[known.asked])
        answers[asked_labels == label] = counted.argmax()
    return answers


def bootstrap_counts(rows: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return how often each sample occurs in each bootstrap draw ``(draws, rows)``."""
    drawn = rng.integers(0, rows, (_DRAWS, rows)) + rows * np.arange(_DRAWS)[:, np.newaxis]
    return np.bincount(drawn.ravel(), minlength=_DRAWS * rows).reshape(_DRAWS, rows).astype(float)


def score_answers(
    truth: Question,
    answers: Array,
    direction: Aim,
    counts: NDArray[np.float64],
) -> Score | None:
    """Score answers on the samples asked: accuracy of classes, R² of numbers.

    R² is 1 minus the squared error over the variance, both summed over the values of a number; it
    is below 0 where the mean would have been the better answer. ``None`` where no sample is asked,
    or where numbers do not vary.

    Args:
        truth: The question about the test samples.
        answers: A probe's answers.
        direction: Which way is better.
        counts: Bootstrap draws of the test samples.
    """
    value = plain_score(truth, answers)
    if math.isnan(value):
        return None
    draws = _weighted(truth, answers, counts)
    low, high = np.quantile(draws, [0.025, 0.975])
    n = int(truth.asked.sum())
    unit: Unit = "share" if truth.is_categorical else "R²"
    return Score(value, float(draws.std()), direction, n, unit, float(low), float(high))


def plain_score(truth: Question, answers: Array) -> float:
    """Return accuracy or R² of answers on the samples asked, NaN where there is none."""
    return float(_weighted(truth, answers, np.ones((1, len(answers))))[0])


def _weighted(truth: Question, answers: Array, counts: Array) -> NDArray[np.float64]:
    """Return the score of each draw."""
    weights = counts[:, truth.asked]
    given, said = truth.answers[truth.asked], answers[truth.asked]
    sizes = np.maximum(weights.sum(axis=1), 1)
    if len(given) == 0:
        return np.full(len(counts), np.nan)
    if truth.is_categorical:
        return np.asarray(weights @ (given == said) / sizes)
    centred = given - given.mean(axis=0)
    error, square = ((given - said) ** 2).sum(axis=1), (centred**2).sum(axis=1)
    # The variance of a draw is around its own mean.
    total = weights @ square - ((weights @ centred) ** 2).sum(axis=1) / sizes
    if not square.any():
        return np.full(len(counts), np.nan)
    return np.asarray(1 - weights @ error / np.maximum(total, 1e-9 * square.sum()))
