"""From the tidy table to the scores of a run.

Per client first: a score is the mean over clients with its standard deviation, never a pooled
number in which large clients hide small ones. The last round is reported, and beside it the round
that validation data would have chosen; never the round that happens to look best on test data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import polars as pl

from duotone.measures.metrics import DIRECTIONS, UNITS, Direction
from duotone.types import Unit


@dataclass(frozen=True, slots=True)
class Score:
    """A metric over clients, or one that is measured on samples of many of them.

    Attributes:
        value: Mean over clients, or the measured value.
        std: Standard deviation over clients (population), 0 for a single one; of a measured value
            its bootstrap standard error.
        direction: Which way is better; "reference" for what stands beside a score to judge it by.
        n: Number of clients, or of samples.
        unit: What the value counts in.
        low: Lower end of the 95 % bootstrap interval of a measured value.
        high: Upper end of it.
    """

    value: float
    std: float
    direction: Direction | Literal["reference"]
    n: int
    unit: Unit
    low: float | None = None
    high: float | None = None

    @classmethod
    def over(
        cls, values: Sequence[float], direction: Direction | Literal["reference"], unit: Unit
    ) -> Score:
        """Return the mean of some values with their standard deviation."""
        mean = math.fsum(values) / len(values)
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
        return cls(mean, spread, direction, len(values), unit)

    def as_json(self) -> dict[str, Any]:
        """Return the score as a summary holds it; ends of an interval only where there is one."""
        return {key: value for key, value in asdict(self).items() if value is not None}


def unit_of(name: str, scores: Mapping[str, Mapping[str, Any]]) -> Unit:
    """Return what a score of a summary counts in.

    Runs made before units were recorded hold none. There the unit of a metric is that of its name,
    and a probe for client, group or class is scored by the share of right answers; of everything
    else it is not known, and the score is a plain number.

    Args:
        name: The score.
        scores: All scores of the summary.
    """
    if "unit" in scores[name]:
        unit: Unit = scores[name]["unit"]
        return unit
    start, _, rest = name.partition(".")
    if start in ("member", "newcomer"):
        metric = rest.removesuffix(".selected").partition("@")[0]
        if metric in ("worst", "worst_decile"):
            metric = headline(known.partition(".")[2] for known in scores)
        return UNITS.get(metric, "number")
    asked = rest.partition("_from_")[0]
    is_class = asked == "label" and "member.accuracy" in scores
    return "share" if start == "probe" and (is_class or asked in ("client", "group")) else "number"


def headline(metrics: Iterable[str]) -> str:
    """Return the metric a run is judged by: accuracy, or the squared error for regression."""
    return "accuracy" if "accuracy" in set(metrics) else "mse"


def selected_round(table: pl.DataFrame) -> int | None:
    """Return the evaluated round that validation data would choose, if there is any."""
    best = best_validation(table)
    return None if best is None else best[0]


def best_validation(table: pl.DataFrame) -> tuple[int, float] | None:
    """Return the evaluated round with the best mean validation score of the members, and that.

    The earliest of equals. ``None`` without validation data.
    """
    metric = headline(table["metric"])
    rows = table.filter((pl.col("metric") == f"val_{metric}") & (pl.col("kind") == "member"))
    best: tuple[int, float] | None = None
    for (number,), found in sorted(rows.group_by("round"), key=lambda item: int(item[0][0])):
        value = mean_validation(found["value"])
        if best is None or is_better(value, best[1], metric):
            best = (int(number), value)
    return best


def mean_validation(values: Iterable[float]) -> float:
    """Return the mean of members' validation scores, whatever their order."""
    known = list(values)
    return math.fsum(known) / len(known)


def is_better(value: float, than: float, metric: str) -> bool:
    """Say whether a validation score beats the best one so far."""
    return value > than if DIRECTIONS[metric] == "higher" else value < than


def summarise(table: pl.DataFrame) -> dict[str, Score]:
    """Return the scores of a run by name, such as ``member.accuracy``.

    ``….selected`` is the same at the validation-selected round. ``member.worst_decile`` is the mean
    of the worst tenth of the clients (at least one), ``member.worst`` the worst client.
    ``newcomer.accuracy@5`` is a point of the newcomer curve.
    """
    scores: dict[str, Score] = {}
    measured = pl.col("metric").str.split("@").list.first()
    evaluated = table.filter(measured.is_in(list(DIRECTIONS)))
    if evaluated.is_empty():
        return scores
    rounds = {"": int(evaluated["round"].max())}  # type: ignore[arg-type]
    chosen = selected_round(table)
    if chosen is not None:
        rounds[".selected"] = chosen
    for suffix, number in rounds.items():
        for (role, metric), rows in sorted(
            evaluated.filter(pl.col("round") == number).group_by("kind", "metric"),
            key=lambda item: (str(item[0][0]), str(item[0][1])),
        ):
            name = str(metric)
            if "@" in name and suffix:  # the curve belongs to the last round
                continue
            measured_as = name.partition("@")[0]
            direction, unit = DIRECTIONS[measured_as], UNITS[measured_as]
            values = sorted(rows["value"].to_list(), reverse=direction == "lower")
            scores[f"{role}.{name}{suffix}"] = Score.over(values, direction, unit)
            if name == headline(table["metric"]):
                tenth = max(1, math.floor(len(values) / 10))
                scores[f"{role}.worst_decile{suffix}"] = Score.over(values[:tenth], direction, unit)
                scores[f"{role}.worst{suffix}"] = Score.over(values[:1], direction, unit)
    return scores
