"""Figures of probes: what each part of a code gives away."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go
import polars as pl

from duotone.measures.inks import (
    GREY,
    PART,
    PART_SYMBOL,
    ROLE,
    faded,
    figure,
    rules,
    short,
)


def probe_figure(table: pl.DataFrame) -> go.Figure:
    """Draw what probes read from each part, beside chance, control and an untrained network.

    Args:
        table: What :func:`duotone.measures.probes.probe_table` returns.
    """
    asked = table.filter(pl.col("probe") == "mlp").select("question", "part", "measure")
    lanes = {(question, part): i for i, (question, part, _) in enumerate(asked.iter_rows())}
    table = table.filter(
        pl.struct("question", "part").map_elements(
            lambda row: (row["question"], row["part"]) in lanes, return_dtype=pl.Boolean
        )
    )
    lowest = min(0.0, max(-0.25, float(table["value"].min() or 0.0)))  # type: ignore[arg-type]
    result = figure(
        130 + 30 * len(lanes),
        xaxis={
            "title": {"text": "accuracy, unless another measure is named"},
            "range": [lowest - 0.03, 1.03],
        },
    )
    marks = {
        "chance": ("line-ns-open", GREY, 15, "chance"),
        "control": ("x-thin-open", GREY, 9, "dealt at random"),
        "bar": ("triangle-right-open", GREY, 9, "bar: right of it counts as read"),
        "untrained": ("triangle-up-open", GREY, 10, "untrained network"),
        "newcomers": ("square-open", ROLE["newcomer"], 9, "newcomers"),
    }
    for probe, (symbol, ink, size, name) in marks.items():
        own = table.filter(pl.col("probe") == probe)
        if not own.is_empty():
            _add_marks(result, own, lanes, symbol, ink, size, name)
    for part in ("shared", "local"):
        for probe, words in (("mlp", "MLP"), ("linear", "linear")):
            own = table.filter((pl.col("probe") == probe) & (pl.col("part") == part))
            symbol = PART_SYMBOL[part] + ("" if probe == "mlp" else "-open")
            if not own.is_empty():
                _add_marks(result, own, lanes, symbol, PART[part], 12, f"{part} part, {words}")
    result.update_yaxes(
        tickvals=list(lanes.values()),
        ticktext=[
            f"{short(question)}{'' if measure == 'accuracy' else f' ({measure})'} from {part}"
            for question, part, measure in asked.iter_rows()
        ],
        range=[len(lanes) - 0.5, -0.5],
    )
    questions = asked["question"].to_list()
    ends = [i - 0.5 for i in range(1, len(lanes)) if questions[i] != questions[i - 1]]
    result.update_layout(shapes=rules(ends, faded(GREY, 0.6)))
    return result


def _add_marks(
    result: go.Figure,
    own: pl.DataFrame,
    lanes: Mapping[tuple[str, str], int],
    symbol: str,
    ink: str,
    size: int,
    name: str,
) -> None:
    value = own["value"].to_numpy()
    low, high = (own[end].fill_null(own["value"]).to_numpy() for end in ("low", "high"))
    has_interval = own["low"].is_not_null().any()
    result.add_scatter(
        x=value,
        y=[lanes[question, part] for question, part in own.select("question", "part").iter_rows()],
        mode="markers",
        marker={"symbol": symbol, "color": ink, "size": size, "line": {"width": 2, "color": ink}},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": high - value,
            "arrayminus": value - low,
            "color": faded(ink, 0.7),
            "visible": bool(has_interval and ink != GREY),
        },
        name=name,
        hovertemplate=f"{name}: %{{x:.3f}}<extra></extra>",
    )


def probes_of_entries_figure(table: pl.DataFrame, question: str, part: str) -> go.Figure:
    """Draw one probe for several entries beside each other.

    Args:
        table: ``entry, probe, value, low, high`` of that probe.
        question: What is asked.
        part: The part it is asked of.
    """
    entries = table["entry"].unique(maintain_order=True).to_list()
    renamed = table.with_columns(pl.col("entry").alias("question"), pl.lit(part).alias("part"))
    lanes = {(entry, part): i for i, entry in enumerate(entries)}
    result = figure(
        120 + 30 * len(entries),
        xaxis={"title": {"text": f"{question} from the {part} part"}, "rangemode": "tozero"},
    )
    for probe, symbol, ink, size, name in (
        ("chance", "line-ns-open", GREY, 15, "chance"),
        ("control", "x-thin-open", GREY, 9, "dealt at random"),
        ("bar", "triangle-right-open", GREY, 9, "bar: right of it counts as read"),
        ("untrained", "triangle-up-open", GREY, 10, "untrained network"),
        ("mlp", PART_SYMBOL[part], PART[part], 12, "MLP"),
        ("linear", f"{PART_SYMBOL[part]}-open", PART[part], 12, "linear"),
    ):
        own = renamed.filter(pl.col("probe") == probe)
        if not own.is_empty():
            _add_marks(result, own, lanes, symbol, ink, size, name)
    result.update_yaxes(
        tickvals=list(lanes.values()),
        ticktext=[short(entry, 32) for entry in entries],
        range=[len(entries) - 0.5, -0.5],
    )
    return result
