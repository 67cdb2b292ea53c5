"""Exchange the local part: how often and which way decisions change, beside chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from duotone.measures.score import Key, Score
from duotone.seeding import stream

_RESAMPLES = 200
_PERMUTATIONS = 100


def flip_table(
    decisions: np.ndarray[Any, Any], clients: Sequence[str], owner: Sequence[str]
) -> list[tuple[str, str, int, int]]:
    """Return for each pair how often the other decides differently on the first one's samples.

    Args:
        decisions: The class each client names, ``(clients, samples)``.
        clients: Their names.
        owner: Whose each sample is.

    Returns:
        First client, other client, changed decisions, samples.
    """
    whose = np.array(owner)
    found = []
    for place, client in enumerate(clients):
        own = whose == client
        changed = (decisions[:, own] != decisions[place, own]).sum(axis=1)
        found += [
            (client, other, int(count), int(own.sum()))
            for other, count in zip(clients, changed, strict=True)
            if other != client and own.any()
        ]
    return found


def by_client(flips: Sequence[tuple[str, str, int, int]]) -> dict[str, dict[str, float]]:
    """Return by client and other client which share of the first one's decisions changes."""
    found: dict[str, dict[str, float]] = {}
    for first, other, changed, samples in flips:
        found.setdefault(first, {})[other] = round(changed / samples, 4)
    return found


def flip_scores(
    flips: Sequence[tuple[str, str, int, int]], groups: Mapping[str, str], seed: int
) -> dict[Key, Score]:
    """Return how often exchanging the local part changes a decision, by group where there are any.

    The control deals the groups at random among clients: the difference between another group's
    part and one of the same group then has no reason but chance.
    """
    if not flips:
        return {}
    shares = {(first, other): changed / samples for first, other, changed, samples in flips}
    key = Key("answers", "flips")
    clients = list(dict.fromkeys(first for first, _ in shares))
    rng = stream(seed, "flips")
    by_client = [np.mean([v for (a, _), v in shares.items() if a == c]) for c in clients]
    drawn = [float(rng.choice(by_client, len(clients)).mean()) for _ in range(_RESAMPLES)]
    low, high = (float(end) for end in np.quantile(drawn, [0.025, 0.975]))
    value = float(np.mean(by_client))
    scores = {
        key: Score(value, float(np.std(drawn)), "reference", len(clients), "share", low, high)
    }
    names = list(groups)
    labels = [groups[name] for name in names]
    gap = _gap(shares, groups)
    if gap is None:
        return scores
    for variant, own in zip(("same_group", "other_group"), gap, strict=True):
        scores[key.beside(variant)] = Score(own, 0.0, "reference", len(shares), "share")
    permuted = []
    for _ in range(_PERMUTATIONS):
        dealt = dict(zip(names, rng.permutation(labels).tolist(), strict=True))
        again = _gap(shares, dealt)
        if again is not None:
            permuted.append(again[1] - again[0])
    low, high = (float(end) for end in np.quantile(permuted, [0.025, 0.975]))
    chance = Score(
        float(np.mean(permuted)),
        float(np.std(permuted)),
        "reference",
        len(permuted),
        "share",
        low,
        high,
    )
    return scores | {key.beside("permuted"): chance}


def _gap(
    shares: Mapping[tuple[str, str], float], groups: Mapping[str, str]
) -> tuple[float, float] | None:
    """Return the mean share of pairs of one group, and of pairs of two."""
    same = [v for (a, b), v in shares.items() if groups[a] == groups[b]]
    other = [v for (a, b), v in shares.items() if groups[a] != groups[b]]
    return (float(np.mean(same)), float(np.mean(other))) if same and other else None


def ways_of(
    decisions: np.ndarray[Any, Any], clients: Sequence[str], owner: Sequence[str], classes: int
) -> list[list[int]]:
    """Return how often a client's own decision (row) becomes another one (column) by exchange."""
    whose = np.array(owner)
    counts = np.zeros((classes, classes), np.int64)
    for place, client in enumerate(clients):
        own = whose == client
        for other in range(len(clients)):
            if other != place:
                np.add.at(counts, (decisions[place, own], decisions[other, own]), 1)
    found: list[list[int]] = counts.tolist()
    return found
