"""Samples that clients disagree about most: the first thing to look at in a federation."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotone.explorer.asked_of import Asked
from duotone.explorer.explored import Explored
from duotone.explorer.shown import shown_label, shown_samples
from duotone.runs.client import Client

_MOST_CLIENTS = 12
_SAMPLES = 20
"""Test samples of each of these clients."""
_MOST_SHOWN = 6


def disputed(explored: Explored, asked: Asked) -> dict[str, Any]:
    """Return the samples that fewest clients answer alike, and who says what of them.

    Of a run that predicts numbers there are none: no two clients say the same.

    Raises:
        RunError: The samples are not at hand.
    """
    opened, population = explored.thorough.opened, explored.population()
    with_tests = [name for name in opened.clients if population.partition.size(name, "test")]
    names = with_tests[:_MOST_CLIENTS]
    if opened.info.task != "classes" or len(names) < 2:
        return {"samples": [], "tried": 0, "clients": len(names)}
    clients = [explored.thorough.client(name) for name in names]
    places = [
        (name, sample)
        for name in names
        for sample in range(min(_SAMPLES, population.partition.size(name, "test")))
    ]
    rows = np.array([explored.test_rows(name)[sample] for name, sample in places])
    x = explored.samples_at(rows)
    said = np.stack([client.scores_from(x).argmax(dim=1).numpy() for client in clients])
    order = np.argsort([-_dissent(column) for column in said.T], kind="stable")
    chosen = [int(k) for k in order[:_MOST_SHOWN] if _dissent(said[:, k])]
    pictures = shown_samples(x[chosen], opened.info) if chosen else []
    labels = population.dataset.y[rows[chosen]] if chosen else []
    return {
        "samples": [
            {
                "owner": places[k][0],
                "sample": places[k][1],
                "picture": picture,
                "label": shown_label(label, clients[0]),
                "answers": _counts(said[:, k], clients),
            }
            for k, picture, label in zip(chosen, pictures, labels, strict=True)
        ],
        "tried": len(places),
        "clients": len(names),
    }


def _dissent(answers: NDArray[np.int64]) -> int:
    """Return how many clients do not say what most of them say."""
    return len(answers) - max(Counter(answers.tolist()).values())


def _counts(answers: NDArray[np.int64], clients: list[Client]) -> list[dict[str, Any]]:
    """Return who says what, the most frequent answer first."""
    names = clients[0].class_names
    return [
        {
            "answer": names[answer],
            "clients": [
                own.name for own, said in zip(clients, answers, strict=True) if said == answer
            ],
        }
        for answer, _ in Counter(answers.tolist()).most_common()
    ]
