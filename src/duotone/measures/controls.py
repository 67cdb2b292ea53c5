"""Controls: what probes read when the answers are dealt out anew, many times.

**What is dealt.** If a code says nothing about an answer, samples could have had each other's, so
answers are dealt among samples: those that probes learn from and those that they are asked about,
each among themselves. An answer that all samples of a client have in common, such as its group, is
dealt among whole clients: a code that tells clients apart tells any grouping of them, and only what
goes beyond that is about the group. The client's own name is dealt among samples, since a client by
another name is as easy to recognise.

**What learns it.** Linear probes are fitted anew for every deal. Of a network only the last layer
is, as a linear probe on its last hidden layer; for answers of whole clients that of the network
that names clients, which has not seen them. A network stops learning when validation samples say
so; its stand-in is shrunk by several amounts, and the best of them counts, which is more than
stopping can achieve. ``docs/statistics.md`` says how well this works.

**What counts as read.** A probe reads something if it beats the *bar* of its family: a point, over
deals, that the largest standardised score of any question of the family rarely exceeds. Who the
client is forms a family of its own, for that is the question a run is asked first, and a wide tail
of another question's scores must not hide it; everything else is the second. Each may err in one
run in forty, so at most about one run in twenty in which nothing can be read is said to reveal
anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array
from duotone.measures.folds import Fold
from duotone.measures.linear_heads import LinearHeads
from duotone.measures.questions import Question, plain_score
from duotone.measures.score import Key, Score
from duotone.types import Unit

DEALS = 99
"""How often answers are dealt out anew."""
STOPPED = (1.0, 0.3, 0.1, 0.03)
"""How much of what a refitted last layer learnt may count, for it might have stopped earlier."""
LEVEL = 0.95
"""Share of runs without anything to read of which nothing is said to be read."""


class Deals:
    """Ways to deal out answers, the same for all questions and codes of a run."""

    def __init__(
        self, folds: Sequence[Fold], client: Array, rng: np.random.Generator, count: int = DEALS
    ) -> None:
        rows = [rows for fold in folds for rows in (fold.train, fold.test)]
        self._sets = [np.array(kept) for kept in dict.fromkeys(tuple(each) for each in rows)]
        used = np.unique(np.concatenate(rows))
        self._client = np.full(len(client), -1)
        self._client[used] = np.unique(client[used], return_inverse=True)[1]
        self._of_rows = rng.random((count, len(client)), dtype=np.float32)
        self._of_clients = rng.random((count, self._client.max() + 1))

    def is_of_clients(self, asking: Question) -> bool:
        """Say whether all samples of a client have the same answer, and several share one."""
        rows = np.flatnonzero((self._client >= 0) & asking.asked)
        answers = asking.answers.reshape(len(asking.answers), -1)[rows]
        pairs = np.unique(np.column_stack([self._client[rows], answers]), axis=0)
        clients = len(np.unique(pairs[:, 0]))
        if len(pairs) != clients:
            return False
        kinds = len(np.unique(pairs[:, 1:], axis=0))
        return kinds < clients or not asking.is_categorical

    def answers(self, asking: Question) -> Array:
        """Return the answers of all deals ``(deals, rows, …)``."""
        dealt = np.repeat(asking.answers[np.newaxis], len(self._of_rows), axis=0)
        if self.is_of_clients(asking):
            rows = np.flatnonzero((self._client >= 0) & asking.asked)
            clients, first, place = np.unique(
                self._client[rows], return_index=True, return_inverse=True
            )
            order = self._of_clients[:, clients].argsort(axis=1)
            dealt[:, rows] = asking.answers[rows[first]][order][:, place]
            return dealt
        for kept in self._sets:
            rows = kept[asking.asked[kept]]
            order = self._of_rows[:, rows].argsort(axis=1)
            dealt[:, rows] = asking.answers[rows[order]]
        return dealt


def dealt_scores(
    asking: Question,
    folds: Sequence[Fold],
    codes: Sequence[Array],
    deals: Deals,
    scales: Sequence[float] = (1.0,),
) -> NDArray[np.float64]:
    """Return what linear probes score on each deal, on the samples of all folds together.

    Args:
        asking: A question about every sample.
        folds: Who learns from which samples.
        codes: For each fold the code of every sample, which may be a hidden layer of its probe.
        deals: How answers are dealt.
        scales: How much of what was learnt counts; the best of them is returned for each deal.
    """
    dealt = deals.answers(asking)
    truths: list[Array] = []
    said: list[Array] = []
    for fold, table in zip(folds, codes, strict=True):
        learnt = fold.train[asking.asked[fold.train]]
        heads = LinearHeads.of(table[learnt])
        if not asking.is_categorical:
            truths.append(dealt[:, fold.test])
            said.append(heads.numbers(table[fold.test], dealt[:, learnt], scales))
            continue
        count = int(asking.answers.max()) + 1
        said.append(heads.classes(table[fold.test], dealt[:, learnt], count, scales))
        # As with true answers, nobody is asked for a class that was never shown.
        known = np.zeros((len(dealt), count + 1), bool)
        np.put_along_axis(known, dealt[:, learnt], True, axis=1)
        known[:, -1] = False
        asked = dealt[:, fold.test]
        truths.append(np.where(np.take_along_axis(known, asked, axis=1), asked, -1))
    truth = [Question(asking.name, own) for own in np.concatenate(truths, axis=1)]
    scores = [
        [plain_score(own, each) for own, each in zip(truth, scaled, strict=True)]
        for scaled in np.concatenate(said, axis=2)
    ]
    return np.asarray(np.max(scores, axis=0))


def rarely_exceeded(dealt: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    """Return the point of dealt scores that one more of their kind exceeds no oftener than said.

    That one more deal comes in any place among ``n`` others with the same chance, so it exceeds the
    ``k``-th smallest in ``n + 1 - k`` of ``n + 1`` cases.

    Args:
        dealt: What deals scored ``(…, deals)``.
        level: The share of cases in which the point is not exceeded.
    """
    count = dealt.shape[-1]
    place = min(math.ceil(round(level * (count + 1), 9)), count) - 1
    return np.asarray(np.sort(dealt, axis=-1)[..., place])


def control_scores(
    drawn: Mapping[Key, NDArray[np.float64]], units: Mapping[Key, Unit]
) -> dict[Key, Score]:
    """Return mean, 95 % point and bar of what probes score on dealt answers.

    Args:
        drawn: For each reading of a run what its deals scored.
        units: What each reading counts in.
    """
    if not drawn:
        return {}
    table = np.stack(list(drawn.values()))
    means, spreads = table.mean(axis=1), table.std(axis=1, ddof=1)
    # Where every deal scores the same, anything above it is out of the ordinary.
    sizes = np.maximum(spreads, 1e-9)
    about_clients = np.array([key.question == "client" for key in drawn])
    families = [rows for rows in (about_clients, ~about_clients) if rows.any()]
    bars = np.empty(len(table))
    for rows in families:
        apart = (table[rows] - means[rows, np.newaxis]) / sizes[rows, np.newaxis]
        level = 1 - (1 - LEVEL) / len(families)
        bars[rows] = means[rows] + rarely_exceeded(apart.max(axis=0), level) * sizes[rows]
    points = rarely_exceeded(table, LEVEL)
    scores: dict[Key, Score] = {}
    for place, key in enumerate(drawn):
        base = f"{key.variant}." if key.variant else ""
        for word, value, spread in (
            ("control", means[place], spreads[place]),
            ("control95", points[place], 0.0),
            ("bar", bars[place], 0.0),
        ):
            scores[key.beside(f"{base}{word}")] = Score(
                float(value), float(spread), "reference", table.shape[1], units[key]
            )
    return scores
