"""What came of a published number: six words, and the rule for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Verdict: TypeAlias = Literal[
    "reached", "exceeded", "not reached", "contradicted", "not comparable", "not run yet"
]

MEANING: dict[Verdict, str] = {
    "reached": "the published number lies in our interval, on the published side",
    "exceeded": "our whole interval is better than the published number",
    "not reached": "our whole interval is worse than the published number, or a claimed difference "
    "is not shown",
    "contradicted": "our whole interval lies on the other side: the opposite of the claim",
    "not comparable": "data, metric or number are not to be had here; the row says which",
    "not run yet": "there is a command, and no committed number",
}


@dataclass(frozen=True, slots=True)
class Value:
    """A number of ours.

    Attributes:
        mean: Its mean over seeds.
        low: Lower end of the 95 % interval over seeds; ``None`` with one seed.
        high: Upper end, likewise.
        seeds: How many seeds.
        file: The committed file it is from.
        share: Of the published training; ``None`` where that is not printed.
        scale: Share of its own rounds that the run made.
    """

    mean: float
    low: float | None
    high: float | None
    seeds: int
    file: str
    share: float | None = None
    scale: float = 1.0


def verdict(
    value: Value | None,
    published: float | None,
    *,
    direction: Literal["higher", "lower"] = "higher",
    nothing: float | None = None,
) -> Verdict:
    """Judge a number of ours by the published one.

    With one seed there is no interval, and the number itself stands for it.

    Args:
        value: Ours.
        published: The published number; ``None`` if only its side of `nothing` is claimed.
        direction: Which way is better.
        nothing: Where the claim turns into its opposite.

    >>> verdict(Value(0.5, 0.2, 0.8, 3, ""), 0.7, nothing=0.0)
    'reached'
    >>> verdict(Value(-0.5, -0.8, -0.2, 3, ""), 0.7, nothing=0.0)
    'contradicted'
    """
    if value is None:
        return "not run yet"
    sign = 1 if direction == "higher" else -1
    low, high = sorted(
        sign * (value.mean if end is None else end) for end in (value.low, value.high)
    )
    if nothing is not None:
        if high < sign * nothing:
            return "contradicted"
        if sign * value.mean <= sign * nothing or (published is None and low <= sign * nothing):
            return "not reached"
        if published is None:
            return "reached"
    assert published is not None, "a number, or a side of something, must be claimed"
    if low > sign * published:
        return "exceeded"
    return "reached" if high >= sign * published else "not reached"
