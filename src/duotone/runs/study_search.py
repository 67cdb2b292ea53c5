"""Which of the values that a study tried an entry is run with."""

from __future__ import annotations

import math
from collections.abc import Mapping

from duotone.measures.metrics import Direction


def choose(
    scores: Mapping[int, Mapping[int, float]], default: int | None, direction: Direction
) -> int:
    """Return the place of the values to use.

    Differences between tries are mostly luck: of one seed's members, of their few validation
    samples. So an entry keeps the values that it has without a search, unless others are better
    with every seed. Of these, or where its own values are not among those tried, the best in the
    mean over seeds are taken, the first of equals.

    >>> choose({0: {7: 0.8, 8: 0.9}, 1: {7: 0.9, 8: 0.8}}, default=0, direction="higher")
    0

    Args:
        scores: Validation scores by place and seed, of tries that succeeded with every seed.
        default: The place of the values that the entry has without a search.
        direction: Which way is better.
    """
    sign = 1 if direction == "higher" else -1
    known = scores.get(default) if default is not None else None
    rivals = dict(scores)
    if known is not None:
        rivals = {
            place: own
            for place, own in scores.items()
            if all(sign * own[seed] > sign * known[seed] for seed in known)
        }
    if not rivals and default is not None:
        return default

    def mean(place: int) -> float:
        return sign * math.fsum(rivals[place].values()) / len(rivals[place])

    return max(rivals, key=lambda place: (mean(place), -place))
