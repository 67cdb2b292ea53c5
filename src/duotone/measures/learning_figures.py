"""Figures about learning: pure functions from plain tables to Plotly figures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from duotone.measures.inks import (
    ROLE,
    ROLE_DASH,
    ROLE_SYMBOL,
    bar_fill,
    dress,
    faded,
    figure,
    metric_axis,
    natural,
    number_format,
    plain,
    series,
    short,
)
from duotone.measures.metrics import DIRECTIONS, is_share

MOST_BARS = 60
MOST_GROUPS = 16


def learning_figure(curves: pl.DataFrame, metric: str) -> go.Figure:
    """Draw members and newcomers round by round, shaded by one standard deviation over clients.

    Args:
        curves: ``round, role, mean, std``.
        metric: What was measured.
    """
    result = figure(360, xaxis=_rounds_axis(curves), yaxis=metric_axis(metric))
    for role, ink in ROLE.items():
        own = curves.filter(pl.col("kind") == role)
        if not own.is_empty():
            _add_band(result, own, f"{role}s", ink, ROLE_DASH[role], ROLE_SYMBOL[role], metric)
    return result


def _rounds_axis(curves: pl.DataFrame) -> dict[str, Any]:
    """Return an axis of rounds; a few rounds are all named, and nothing between them."""
    rounds = sorted(set(curves["round"]))
    named = {"tickvals": rounds} if len(rounds) <= 5 else {}
    return {"title": {"text": "round"}, **named}


def _add_band(
    result: go.Figure,
    curve: pl.DataFrame,
    name: str,
    ink: str,
    dash: str,
    symbol: str,
    metric: str,
    *,
    legend: bool = True,
    row: int | None = None,
    col: int | None = None,
) -> None:
    """Add a line and, around it, the band of ``mean ± std``."""
    rounds, mean, std = (curve[key].to_numpy() for key in ("round", "mean", "std"))
    low, high = mean - std, mean + std
    if is_share(metric):
        low, high = np.clip(low, 0, 1), np.clip(high, 0, 1)
    place = {} if row is None else {"row": row, "col": col}
    result.add_scatter(
        x=np.concatenate([rounds, rounds[::-1]]),
        y=np.concatenate([high, low[::-1]]),
        fill="toself",
        fillcolor=faded(ink, 0.18),
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        legendgroup=name,
        showlegend=False,
        **place,
    )
    result.add_scatter(
        x=rounds,
        y=mean,
        error_y={"array": std, "color": faded(ink, 0.6)} if len(rounds) == 1 else None,
        mode="lines+markers",
        line={"color": ink, "dash": dash, "width": 2},
        marker={"symbol": symbol, "size": 7 if len(rounds) < 30 else 4},
        name=plain(name),
        legendgroup=name,
        showlegend=legend,
        customdata=std,
        hovertemplate=f"{plain(name)}, round %{{x}}: %{{y:{number_format(metric)}}} "
        f"± %{{customdata:{number_format(metric)}}}<extra></extra>",
        **place,
    )


def group_figure(curves: pl.DataFrame, metric: str) -> go.Figure:
    """Draw every group in a small figure of its own, its spread over clients shaded.

    Args:
        curves: ``round, role, group, mean, std, clients``; of more than 16 groups, those that
            ended lowest (for an error: highest) are drawn.
        metric: What was measured.
    """
    chosen = hardest_groups(curves, metric)
    columns = min(4, len(chosen))
    rows = -(-len(chosen) // columns)
    result = make_subplots(
        rows=rows,
        cols=columns,
        shared_xaxes=True,
        shared_yaxes="all",
        subplot_titles=[short(name) for name in chosen],
        horizontal_spacing=0.025,
        vertical_spacing=min(0.12, 0.25 / rows),
    )
    named: set[str] = set()
    for place, group in enumerate(chosen):
        row, col = divmod(place, columns)
        for role, ink in ROLE.items():
            own = curves.filter((pl.col("group") == group) & (pl.col("kind") == role))
            if own.is_empty():
                continue
            _add_band(
                result,
                own,
                f"{role}s",
                ink,
                ROLE_DASH[role],
                ROLE_SYMBOL[role],
                metric,
                legend=role not in named,
                row=row + 1,
                col=col + 1,
            )
            named.add(role)
    dress(result, 110 + 165 * rows, margin={"l": 56, "r": 8, "t": 56, "b": 48})
    result.update_layout(legend={"y": 1 + 30 / (165 * rows)})
    result.update_annotations(font={"size": 12})
    result.update_yaxes(tickformat=number_format(metric), nticks=5)
    result.update_xaxes(nticks=5, tickvals=_rounds_axis(curves).get("tickvals"))
    result.update_xaxes(title={"text": "round"}, row=rows)
    return result


def hardest_groups(curves: pl.DataFrame, metric: str, most: int = MOST_GROUPS) -> list[str]:
    """Return the groups to draw, in the order of their names: all, or those that ended worst."""
    last = curves.sort("round").group_by("group").agg(pl.col("mean").last())
    worst_first = last.sort("mean", "group", descending=[DIRECTIONS[metric] == "lower", False])
    return sorted(worst_first["group"].to_list()[:most], key=natural)


def client_figure(values: pl.DataFrame, metric: str) -> go.Figure:
    """Draw a bar per client, best first, so that the worst stands at the bottom by name.

    Args:
        values: ``client, group, role, value`` and, where known, ``test_samples``; of more than 60
            clients the 60 worst are drawn.
        metric: What was measured.
    """
    rising = DIRECTIONS[metric] == "higher"
    ordered = values.sort("value", "client", descending=[rising, False]).tail(MOST_BARS)
    tall = 22 if len(ordered) <= 30 else 15
    result = figure(90 + tall * len(ordered), xaxis=metric_axis(metric))
    if metric == "accuracy":
        result.update_xaxes(range=[0, 1.12], tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1])
    places = ordered.with_row_index("place")
    for role, ink in ROLE.items():
        own = places.filter(pl.col("kind") == role)
        if own.is_empty():
            continue
        result.add_bar(
            x=own["value"].to_numpy(),
            y=own["place"].to_numpy(),
            orientation="h",
            # Set, or each role would be as thick as its own clients are apart.
            width=0.75,
            name=f"{role}s",
            marker=bar_fill(role),
            text=[f"{v:.1%}" if "%" in number_format(metric) else f"{v:.3g}" for v in own["value"]],
            textposition="outside",
            cliponaxis=False,
            hovertext=[_client_text(row) for row in own.to_dicts()],
            hovertemplate="%{hovertext}<br>%{x:" + number_format(metric) + "}<extra></extra>",
        )
        every = values.filter(pl.col("kind") == role)["value"]
        mean = math.fsum(every) / len(every)
        result.add_vline(x=mean, line={"color": ink, "width": 1.5, "dash": "dot"}, layer="below")
    names = [short(name) for name in ordered["client"]]
    names[-1] = f"<b>worst: {names[-1]}</b>"
    result.update_yaxes(
        tickvals=list(range(len(ordered))),
        ticktext=names,
        range=[len(ordered) - 0.5, -0.5],
        showgrid=False,
        tickfont={"size": 12 if tall == 22 else 10},
    )
    result.update_layout(barmode="overlay")
    return result


def _client_text(row: dict[str, object]) -> str:
    tested = row.get("test_samples")
    return f"{plain(str(row['client']))} · group {plain(str(row['group']))}" + (
        f" · {tested} test samples" if tested is not None else ""
    )


def overlaid_figure(curves: pl.DataFrame, metric: str) -> go.Figure:
    """Draw the curves of several entries over each other; the band is over seeds.

    Args:
        curves: ``entry, round, mean, std``.
        metric: What was measured.
    """
    result = figure(380, xaxis={"title": {"text": "round"}}, yaxis=metric_axis(metric))
    for place, entry in enumerate(curves["entry"].unique(maintain_order=True)):
        ink, symbol, dash = series(place)
        own = curves.filter(pl.col("entry") == entry)
        _add_band(result, own, entry, ink, dash, symbol, metric)
    return result
