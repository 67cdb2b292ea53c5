"""Shapley values by enumeration: who of a few players brought about how much of a change."""

from __future__ import annotations

from math import comb

import numpy as np

from duotone.measures.decomposition import FloatArray

MOST_PLAYERS = 10
"""Beyond it, 2ⁿ values take too long; players are then put together."""


def shapley(values: FloatArray) -> FloatArray:
    """Return the Shapley value of each player; they add up to ``values[-1] - values[0]``.

    >>> shapley(np.array([0.0, 1.0, 2.0, 5.0]))
    array([2., 3.])

    Args:
        values: What every coalition is worth, ``(2ⁿ,)``: player p is in it if bit p of the place is
            set.
    """
    players = len(values).bit_length() - 1
    places = np.arange(len(values))
    sizes = np.array([int(place).bit_count() for place in places])
    weight = np.array([1 / (players * comb(players - 1, size)) for size in range(players)] or [1.0])
    found = np.zeros(players)
    for player in range(players):
        without = places[(places >> player) & 1 == 0]
        gains = values[without | (1 << player)] - values[without]
        found[player] = weight[sizes[without]] @ gains
    return found


def faithfulness(values: FloatArray, shares: FloatArray) -> float:
    """Return how much of all coalitions' worth the players' values account for, 1 at best.

    It is R² of "the coalition's worth is the sum of its players' values": 1 if players act each on
    its own, less if they act together, below 0 if the values say nothing.

    >>> faithfulness(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0]))
    1.0
    """
    bits = (np.arange(len(values))[:, np.newaxis] >> np.arange(len(shares))) & 1
    worth = values - values[0]
    missed = np.square(worth - bits @ shares).sum()
    total = np.square(worth - worth.mean()).sum()
    return float(1 - missed / total) if total > 1e-18 else 1.0
