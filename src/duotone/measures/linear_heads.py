"""Linear probes in closed form, many at once: discriminant analysis for classes, ridge for numbers.

A linear probe must be fitted to the true answers and, for its control, to many sets of answers that
were dealt out anew. Only the answers differ, so the codes are whitened once, and what is left for
each set of answers is a product: the class means. There is nothing to converge.

Discriminant analysis takes classes for normal clouds of one shape. In codes whitened by their total
covariance, with class means m_c (rows of M) and shares π_c, the covariance inside classes is
W = I − Mᵀ diag(π) M, and W⁻¹Mᵀ = Mᵀ (I − diag(π) M Mᵀ)⁻¹: a small matrix, one row per class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array
from duotone.measures.probe_networks import Scaling
from duotone.measures.questions import Question

_AT_ONCE = 8_000_000  # numbers in the largest array; more sets of answers are fitted in turns


@dataclass(frozen=True, slots=True)
class LinearHeads:
    """Whitened codes of training samples, ready for any answers."""

    _scaling: Scaling
    _whitening: NDArray[np.float32]
    _codes: NDArray[np.float32]

    @classmethod
    def of(cls, codes: Array) -> LinearHeads:
        """Whiten codes by their covariance, and a little more of every direction.

        How much more is the typical variance times dimensions per sample: next to nothing where
        samples are many. It only adds, so the covariance inside classes stays positive whatever
        the classes are.
        """
        scaling = Scaling.of(codes)
        x = scaling.apply(codes).astype(np.float64)
        covariance = x.T @ x / len(x)
        more = np.trace(covariance) / len(x) + 1e-6  # the mean variance, times width over samples
        values, directions = np.linalg.eigh(covariance + more * np.eye(len(covariance)))
        whitening = (directions / np.sqrt(values)).astype(np.float32)
        return cls(scaling, whitening, (x @ whitening).astype(np.float32))

    def classes(
        self,
        table: Array,
        answers: NDArray[np.int64],
        count: int,
        scales: Sequence[float] = (1.0,),
    ) -> NDArray[np.int64]:
        """Learn sets of answers and answer for other samples.

        Args:
            table: Codes of the samples asked about.
            answers: Classes from 0 of the training samples ``(sets, rows)``, -1 for none.
            count: How many classes there are.
            scales: How much of what was learnt counts beside how frequent classes are.

        Returns:
            Classes ``(scales, sets, rows of the table)``.
        """
        asked = self._whitened(table)
        step = max(1, _AT_ONCE // (count * max(len(asked), len(self._codes))))
        found = [
            self._classes(asked, answers[start : start + step], count, scales)
            for start in range(0, len(answers), step)
        ]
        return np.concatenate(found, axis=1)

    def _classes(
        self,
        asked: NDArray[np.float32],
        answers: NDArray[np.int64],
        count: int,
        scales: Sequence[float],
    ) -> NDArray[np.int64]:
        is_of = (answers[:, np.newaxis] == np.arange(count)[:, np.newaxis]).astype(np.float32)
        sizes = is_of.sum(axis=2).astype(np.float64)  # (sets, classes)
        means = (is_of.reshape(-1, len(self._codes)) @ self._codes).reshape(len(answers), count, -1)
        means /= np.maximum(sizes, 1)[:, :, np.newaxis].astype(np.float32)
        shares = sizes / sizes.sum(axis=1, keepdims=True)
        products = means.astype(np.float64) @ means.transpose(0, 2, 1)
        # I - diag(π) M Mᵀ, and what W⁻¹ makes of the means, in terms of the means.
        inside = np.eye(count) - shares[:, :, np.newaxis] * products
        mixing = np.linalg.inv(inside)
        weights = means.transpose(0, 2, 1) @ mixing.astype(np.float32)  # (sets, width, classes)
        lengths = np.einsum("sij,sji->si", products, mixing)
        with np.errstate(divide="ignore"):  # a class that nobody has is never the answer
            frequent = np.log(shares).astype(np.float32)
        learnt = asked @ weights.transpose(1, 0, 2).reshape(asked.shape[1], -1)
        learnt = learnt.reshape(len(asked), len(answers), count) - (lengths / 2).astype(np.float32)
        said = [(scale * learnt + frequent).argmax(axis=2).T for scale in scales]
        return np.stack(said).astype(np.int64)

    def numbers(
        self, table: Array, answers: NDArray[np.float64], scales: Sequence[float] = (1.0,)
    ) -> NDArray[np.float64]:
        """Learn sets of numbers ``(sets, rows, values)`` by ridge regression; NaN for none.

        Returns:
            Numbers ``(scales, sets, rows of the table, values)``: of a scale, the mean and so much
            of the distance from it that was learnt.
        """
        asked = self._whitened(table)
        is_asked = ~np.isnan(answers).any(axis=2, keepdims=True)
        counts = np.maximum(is_asked.sum(axis=1, keepdims=True), 1)
        known = np.where(is_asked, answers, 0)
        means = known.sum(axis=1, keepdims=True) / counts
        centred = np.where(is_asked, known - means, 0)
        weights = np.einsum("nw,snv->swv", self._codes, centred, optimize=True) / counts
        learnt = np.einsum("mw,swv->smv", asked, weights, optimize=True)
        return np.stack([scale * learnt + means for scale in scales])

    def _whitened(self, table: Array) -> NDArray[np.float32]:
        return np.asarray(self._scaling.apply(table) @ self._whitening)


def train_linear(codes: Array, questions: Sequence[Question], table: Array) -> list[Array]:
    """Train a linear probe for each question, and answer it for other samples.

    Args:
        codes: One row per training sample.
        questions: What to ask; each must be one that :attr:`Question.can_be_learnt`.
        table: Codes of the samples asked about.
    """
    said: list[Array] = []
    for asking in questions:
        heads = LinearHeads.of(codes[asking.asked])
        given = asking.answers[asking.asked][np.newaxis]
        if asking.is_categorical:
            said.append(heads.classes(table, given, int(given.max()) + 1)[0, 0])
        else:
            said.append(heads.numbers(table, given)[0, 0])
    return said
