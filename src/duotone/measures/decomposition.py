"""Take answers apart: what is due to the sample, to the client's habit, and to its reading.

Clients j answer samples x; f(x, j) is a probability for each class, or a number. Then

    f(x, i) = mean + sample(x) + habit(i) + reading(x, i)

``sample`` is what anybody would say of this input, ``habit`` what this client says of anything, and
``reading`` what this client sees in this input that others do not. It is the two-way analysis of
variance without replicates: exact, and the four add up to the answer by construction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
PARTS = ("sample", "habit", "reading")


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Parts of answers; each has outputs as its last dimension.

    Attributes:
        mean: What the reference says of anything.
        sample: What the reference says of these samples, less the mean.
        habit: What these clients say of anything, less the mean.
        reading: The rest of the answers.
    """

    mean: FloatArray
    sample: FloatArray
    habit: FloatArray
    reading: FloatArray

    def total(self) -> FloatArray:
        """Return the answers."""
        return self.mean + self.sample + self.habit + self.reading


def decomposed(
    answer: FloatArray, witnesses: FloatArray, usual: FloatArray, usual_of_witnesses: FloatArray
) -> Decomposition:
    """Take one client's answers to some samples apart.

    Args:
        answer: What it says, ``(samples, outputs)``.
        witnesses: What the clients it is compared with say, ``(clients, samples, outputs)``.
        usual: What it says of anything: the mean over background samples, ``(outputs,)``.
        usual_of_witnesses: Likewise for those clients, ``(clients, outputs)``.
    """
    mean = usual_of_witnesses.mean(axis=0)
    sample = witnesses.mean(axis=0) - mean
    habit = usual - mean
    return Decomposition(mean, sample, habit, answer - mean - sample - habit)


def variance_shares(answers: FloatArray) -> dict[str, float]:
    """Return how much of the variance of all answers each part has; they add up to 1.

    All are 0 if nobody ever says anything else.

    >>> variance_shares(np.array([[[0.0], [1.0]], [[0.0], [1.0]]]))
    {'sample': 1.0, 'habit': 0.0, 'reading': 0.0}

    Args:
        answers: ``(clients, samples, outputs)``.
    """
    usual = answers.mean(axis=1)
    mean = usual.mean(axis=0)
    sample = answers.mean(axis=0) - mean
    habit = usual - mean
    reading = answers - mean - sample - habit[:, np.newaxis]
    found = {"sample": sample, "habit": habit, "reading": reading}
    variances = {
        name: float(np.square(part).sum() / (part.size / part.shape[-1]))
        for name, part in found.items()
    }
    total = sum(variances.values())
    # Rounding alone makes 1e-16; so small a variance is none.
    return {name: value / total if total > 1e-12 else 0.0 for name, value in variances.items()}
