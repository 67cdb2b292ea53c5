"""Questions about the samples of a table, and the rows they are asked of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array, is_known
from duotone.measures.factors import ANGLES

ROWS = 4000
"""Most samples a probe is trained on, and most it is scored on."""

_FEWEST = 20  # with fewer training samples a probe would tell more about luck than about a code


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about every sample of a table.

    Attributes:
        name: What is asked for: client, group, label or the name of a factor.
        answers: The true answers. Kinds: int64 ``(rows,)``, -1 where nothing is asked. Amounts:
            float64 ``(rows, values)``, NaN where nothing is asked.
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

    def permuted(self, rng: np.random.Generator) -> Question:
        """Return the question with its answers dealt out at random among the samples asked."""
        rows = np.flatnonzero(self.asked)
        answers = self.answers.copy()
        answers[rows] = answers[rng.permutation(rows)]
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
    amounts = values.astype(np.float64)
    columns = (np.cos(amounts), np.sin(amounts)) if name in ANGLES else (amounts,)
    return Question(name, np.stack(columns, axis=1))


def draw_rows(rows: Array, rng: np.random.Generator, limit: int = ROWS) -> NDArray[np.int64]:
    """Return the rows, or a random ``limit`` of them, in ascending order."""
    if len(rows) <= limit:
        return np.asarray(rows, np.int64)
    return np.sort(rng.choice(rows, limit, replace=False)).astype(np.int64)
