"""Whether contenders learned alike, and how their turns compare: arithmetic only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from statistics import fmean, median
from typing import TypeAlias

Turn: TypeAlias = Mapping[str, float]

SAME_START = 1e-4
"""How far the loss before the first round may be from the median contender's, as a share of it."""
JUDGED = 3
"""How many of the last turns are judged, by their mean: single rounds swing."""
LOSS_BAND = 1.25
"""How many times higher or lower than the median contender's a loss may be in the end."""
ACCURACY_BAND = 0.15
"""How far from the median contender's an accuracy may be in the end; wide, because in the first
rounds it swings between seeds that have the same loss."""


def objections(turns: Mapping[str, Sequence[Turn]]) -> dict[str, str]:
    """Return, for each contender, why its figure is void; an empty text if it is not.

    Args:
        turns: The state before the first round and after each, of contenders that all had the same
            number of turns.
    """
    ends = {name: in_the_end(own) for name, own in turns.items()}
    start = _usual([own[0]["loss"] for own in turns.values()])
    loss = _usual([end["loss"] for end in ends.values()])
    accuracy = _usual([end["accuracy"] for end in ends.values()])
    return {
        name: _objection(own[0], ends[name], start, loss, accuracy) for name, own in turns.items()
    }


def in_the_end(turns: Sequence[Turn]) -> Turn:
    """Return loss and accuracy after the last turns, in the mean."""
    last = turns[1:][-JUDGED:]
    return {what: fmean(turn[what] for turn in last) for what in ("loss", "accuracy")}


def _usual(values: Sequence[float]) -> float:
    # A NaN has no place in an order, and would move the median at random.
    numbers = [value for value in values if isfinite(value)]
    return median(numbers) if numbers else nan


def _objection(first: Turn, last: Turn, start: float, loss: float, accuracy: float) -> str:
    # A NaN compares as false: each condition says what is good, not what is bad.
    if not abs(first["loss"] - start) <= SAME_START * start:
        return f"started at a loss of {first['loss']:.4f}, the others at {start:.4f}"
    if not loss / LOSS_BAND <= last["loss"] <= loss * LOSS_BAND:
        return f"loss {last['loss']:.3f}, the others {loss:.3f}"
    if not abs(last["accuracy"] - accuracy) <= ACCURACY_BAND:
        return f"accuracy {last['accuracy']:.3f}, the others {accuracy:.3f}"
    return ""


def ratios(own: Sequence[float], reference: Sequence[float]) -> dict[str, float]:
    """Compare turn with turn; return median, lowest and highest ratio."""
    found = [mine / theirs for mine, theirs in zip(own, reference, strict=True)]
    return {"median": median(found), "lowest": min(found), "highest": max(found)}
