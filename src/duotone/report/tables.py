"""From a run's tidy table to the small tables behind the figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from duotone.measures.summary import unit_of

PROBES = ("mlp", "linear", "samples", "newcomers", "chance", "label", "control", "untrained")
_PROBE = re.compile(
    r"probe\.(?P<question>.+)_from_(?P<part>shared|local)"
    r"(?:\.(?P<probe>linear|samples|newcomers|chance|label|control|untrained))?"
)
_MEASURES = {"share": "accuracy", "R²": "R²", "cosine": "cosine"}
_SCHEMA = {
    "question": pl.String,
    "part": pl.String,
    "probe": pl.String,
    "measure": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
}


def learning_curves(
    metrics: pl.DataFrame, metric: str, by: Sequence[str] = ("kind",)
) -> pl.DataFrame:
    """Return ``round, *by, mean, std, clients``: a metric over clients, round by round.

    Args:
        metrics: The tidy table of a run.
        metric: Which metric.
        by: What curves are apart by: ``kind``, or ``kind`` and ``group``.
    """
    return (
        metrics.filter(pl.col("metric") == metric)
        .group_by("round", *by)
        .agg(
            pl.col("value").mean().alias("mean"),
            pl.col("value").std(ddof=0).alias("std"),
            pl.len().cast(pl.Int64).alias("clients"),
        )
        .sort(*by, "round")
    )


def last_values(metrics: pl.DataFrame, metric: str, number: int) -> pl.DataFrame:
    """Return ``client, group, role, value``: what each client reached in a round."""
    return metrics.filter((pl.col("metric") == metric) & (pl.col("round") == number)).select(
        "client", "group", "kind", "value"
    )


def newcomer_points(metrics: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return ``point, mean, std, clients`` of the newcomer curve, in the order it was measured."""
    return (
        metrics.filter(pl.col("metric").str.starts_with(f"{metric}@"))
        .with_columns(pl.col("metric").str.strip_prefix(f"{metric}@").alias("point"))
        .group_by("point", maintain_order=True)
        .agg(
            pl.col("value").mean().alias("mean"),
            pl.col("value").std(ddof=0).alias("std"),
            pl.len().cast(pl.Int64).alias("clients"),
        )
    )


def traffic(metrics: pl.DataFrame) -> pl.DataFrame:
    """Return ``round, clients, bytes_up, bytes_down``: what all clients sent and received."""
    return _bytes_by(metrics, "round").rename({"times": "clients"})


def ledger(metrics: pl.DataFrame) -> pl.DataFrame:
    """Return ``client, rounds, bytes_up, bytes_down``: what left and reached each client."""
    return _bytes_by(metrics, "client").rename({"times": "rounds"})


def _bytes_by(metrics: pl.DataFrame, column: str) -> pl.DataFrame:
    def total(name: str) -> pl.Expr:
        return pl.col("value").filter(pl.col("metric") == name).sum().cast(pl.Int64).alias(name)

    return (
        metrics.filter(pl.col("metric").is_in(["bytes_up", "bytes_down"]))
        .group_by(column, maintain_order=True)
        .agg(
            (pl.col("metric") == "bytes_up").sum().cast(pl.Int64).alias("times"),
            total("bytes_up"),
            total("bytes_down"),
        )
    )


def probe_table(scores: Mapping[str, Mapping[str, Any]]) -> pl.DataFrame:
    """Return ``question, part, probe, measure, value, low, high, n`` of all probes of a run.

    Questions come in the order client, group, label, other factors. The measure is the accuracy, or
    R² for what is continuous; "score" where an old run does not say which.

    Args:
        scores: The ``scores`` of a summary.
    """
    rows: list[dict[str, Any]] = []
    for name, score in scores.items():
        match = _PROBE.fullmatch(name)
        if match is None:
            continue
        rows.append(
            {
                "question": match["question"],
                "part": match["part"],
                "probe": match["probe"] or "mlp",
                "measure": measure_of(name, scores),
                "value": score["value"],
                "low": score.get("low"),
                "high": score.get("high"),
                "n": score["n"],
            }
        )
    order = {"client": 0, "group": 1, "label": 2}
    rows.sort(
        key=lambda row: (
            order.get(row["question"], 3),
            row["question"],
            row["part"] == "local",
            PROBES.index(row["probe"]),
        )
    )
    return pl.DataFrame(rows, schema=_SCHEMA)


def measure_of(name: str, scores: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what a reading is measured by; "score" where an old run does not say."""
    return _MEASURES.get(unit_of(name, scores), "score")


def size_text(count: float) -> str:
    """Return a number of bytes for people.

    >>> size_text(1_690_176)
    '1.69 MB'
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def count_text(number: int, thing: str) -> str:
    """Return a number of things in words.

    >>> count_text(1, "round"), count_text(1200, "round")
    ('1 round', '1,200 rounds')
    """
    return f"{number:,} {thing}{'s'[: number != 1]}"
