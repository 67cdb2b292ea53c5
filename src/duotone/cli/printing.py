"""Tables on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from duotone.words import RULES

NARROW = 80
"""Columns of a terminal below which tables show less."""


def table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table; a column name that starts with ">" is aligned to the right."""
    result = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for number, column in enumerate(columns):
        result.add_column(
            column.removeprefix(">"),
            justify="right" if column.startswith(">") else "left",
            no_wrap=number == 0 or (is_narrow() and column.startswith(">")),  # names stay whole
        )
    return result


def is_narrow() -> bool:
    """Say whether there is room for the most important columns only."""
    return sys.stdout.isatty() and Console().width < NARROW


def value_text(scores: Mapping[str, Any], name: str, *, spread: bool = True) -> str:
    """Return a score of a summary as "91.2 ± 3.4" (in percent if it is a share).

    Where there is little room, three decimals do, and a spread of nothing is left out.
    """
    if name not in scores:
        return "–"
    score = scores[name]
    narrow = is_narrow()
    scale, digits = (100, 1) if score.get("unit") == "share" else (1, 3 if narrow else 4)
    text = f"{score['value'] * scale:.{digits}f}"
    spread = spread and score["n"] > 1 and not (narrow and score["std"] == 0)
    return f"{text} ± {score['std'] * scale:.{digits}f}" if spread else text


def results_table(summaries: Sequence[tuple[str, Mapping[str, Any]]]) -> Table:
    """Return one row per run: members, their worst client, newcomers and what those were given.

    Args:
        summaries: A name and the content of ``summary.json`` for each run.
    """
    metric = str(summaries[0][1]["headline"])
    unit = " %" if metric == "accuracy" else ""
    narrow = is_narrow()
    result = (
        table("method", ">members", ">newcomers", "giving")
        if narrow
        else table(
            "method",
            f">members {metric}{unit}",
            ">worst member",
            f">newcomers {metric}{unit}",
            ">worst newcomer",
            "newcomers give",
        )
    )
    for name, summary in summaries:
        scores = summary["scores"]
        has_newcomers = f"newcomer.{metric}" in scores
        given = RULES[summary["newcomer_rule"]] if has_newcomers else "–"
        means, worst = (
            [value_text(scores, f"{role}.{score}") for role in ("member", "newcomer")]
            for score in (metric, "worst")
        )
        if narrow:
            result.add_row(name, *means, given)
        else:
            result.add_row(name, means[0], worst[0], means[1], worst[1], given)
    return result
