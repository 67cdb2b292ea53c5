"""Figures about what the two parts of a code know: probes, maps, swaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from duotone.measures.inks import (
    GREY,
    PART,
    PART_SYMBOL,
    ROLE,
    dress,
    faded,
    figure,
    natural,
    plain,
    rules,
    series,
    short,
)

MOST_NAMED = 24
"""Maps with more colours than this have no legend; the pointer says who a dot is."""


def probe_figure(table: pl.DataFrame) -> go.Figure:
    """Draw what probes read from each part, beside chance, control and an untrained network.

    Args:
        table: What :func:`duotone.report.tables.probe_table` returns.
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
        "control": ("x-thin-open", GREY, 9, "permuted labels"),
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


def map_figure(points: pl.DataFrame, colour: str, axes: Mapping[str, str]) -> go.Figure:
    """Draw one dot per sample, a panel for each part.

    Args:
        points: ``part, x, y, client, group, label, role``.
        colour: The column that colours the dots; a continuous one gets a scale.
        axes: What the axes are, for each part.
    """
    parts = [part for part in ("shared", "local") if part in points["part"].unique()]
    result = make_subplots(
        rows=1,
        cols=len(parts),
        subplot_titles=[f'<span style="color:{PART[p]}"><b>{p} part</b></span>' for p in parts],
        horizontal_spacing=0.06,
    )
    if points.schema[colour].is_float():
        groups: list[tuple[str, pl.DataFrame]] = [(colour, points)]
    else:
        names = sorted(map(str, points[colour].unique()), key=natural)
        text = pl.col(colour).cast(pl.String)
        groups = [(name, points.filter(text == name)) for name in names]
    for place, (name, own) in enumerate(groups):
        ink, symbol, _ = series(place)
        for column, part in enumerate(parts):
            dots = own.filter(pl.col("part") == part)
            roles = dots["kind"].to_list()
            is_scale = points.schema[colour].is_float()
            marker: dict[str, Any] = {
                "symbol": [symbol if role == "member" else f"{symbol}-open" for role in roles],
                "size": 7,
                "opacity": 0.8,
                "color": dots[colour].to_numpy() if is_scale else ink,
            }
            if is_scale:
                marker |= {"colorscale": "Cividis", "showscale": column == 0}
            result.add_scatter(
                x=dots["x"].to_numpy(),
                y=dots["y"].to_numpy(),
                mode="markers",
                marker=marker,
                name=short(name),
                legendgroup=name,
                showlegend=column == 0 and not is_scale,
                hovertext=[
                    f"client {plain(client)} · group {plain(group)} · label {label}"
                    for client, group, label in dots.select("client", "group", "label").iter_rows()
                ],
                hoverinfo="text",
                row=1,
                col=column + 1,
            )
    dress(
        result,
        max(430, min(120 + 19 * len(groups), 580)),
        margin={"l": 16, "r": 16, "t": 36, "b": 36},
        showlegend=1 < len(groups) <= MOST_NAMED,
        legend={
            "orientation": "v",
            "tracegroupgap": 0,
            "x": 1.01,
            "y": 1,
            "yanchor": "top",
            "title": {"text": colour},
            "font": {"size": 11},
        },
    )
    for column, part in enumerate(parts):
        title = {"text": axes[part], "font": {"size": 11}}
        result.update_xaxes(title=title, col=column + 1)
    result.update_xaxes(showticklabels=False, showgrid=False)
    result.update_yaxes(showticklabels=False, showgrid=False)
    return result


def swap_figure(pairs: pl.DataFrame, score: str) -> go.Figure:
    """Draw a score for each pair of clients: content of the row, local part of the column.

    Args:
        pairs: ``content_client, style_client`` and the score, from 0 to 1.
        score: Which column; the label is what the shared part should keep.
    """
    names = sorted({*pairs["content_client"], *pairs["style_client"]}, key=natural)
    places = {name: place for place, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for content, style, value in pairs.select("content_client", "style_client", score).iter_rows():
        matrix[places[content], places[style]] = np.nan if value is None else value
    shown = [short(name, 14) for name in names]
    ink = PART["shared" if score == "label" else "local"]
    result = figure(max(300, 110 + 26 * len(names)))
    result.add_heatmap(
        z=matrix,
        x=shown,
        y=shown,
        zmin=0,
        zmax=1,
        colorscale=[(0, faded(ink, 0.04)), (1, ink)],
        colorbar={"title": {"text": score}, "thickness": 10},
        hovertemplate="content of %{y}, local part of %{x}: %{z:.2f}<extra></extra>",
        hoverongaps=False,
        texttemplate="%{z:.2f}" if len(names) <= 12 else None,
    )
    result.update_xaxes(type="category", title={"text": "local part of"}, showgrid=False)
    result.update_yaxes(
        type="category", title={"text": "content of"}, autorange="reversed", showgrid=False
    )
    return result


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
        ("control", "x-thin-open", GREY, 9, "permuted labels"),
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
