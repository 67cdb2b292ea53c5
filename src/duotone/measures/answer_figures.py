"""Figures on what answers are made of."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go
import polars as pl

from duotone.measures.decomposition import PARTS
from duotone.measures.inks import GREY, PART, figure, natural, plain, series, short

_INK = {"sample": PART["shared"], "habit": GREY, "reading": PART["local"]}
_HATCH = {"sample": "", "habit": "/", "reading": "x"}


def shares_figure(shares: Mapping[str, Mapping[str, float]]) -> go.Figure:
    """Draw what answers are made of, a bar for each entry.

    Args:
        shares: By entry and part.
    """
    result = figure(90 + 34 * len(shares), barmode="stack")
    for part in PARTS:
        result.add_bar(
            y=[short(name) for name in shares],
            x=[own[part] for own in shares.values()],
            orientation="h",
            name=part,
            marker={"color": _INK[part], "pattern": {"shape": _HATCH[part]}},
            hovertemplate="%{y}: " + part + " %{x:.1%}<extra></extra>",
        )
    result.update_xaxes(tickformat=".0%", range=[0, 1])
    result.update_yaxes(autorange="reversed")
    return result


def map_figure(clients: pl.DataFrame) -> go.Figure:
    """Draw clients by how they answer; symbols and colours are their groups.

    Args:
        clients: ``client, group, role, x, y``.
    """
    result = figure(380)
    for place, group in enumerate(sorted(clients["group"].unique(), key=natural)):
        own = clients.filter(pl.col("group") == group)
        colour, symbol, _ = series(place)
        is_new = (own["role"] == "newcomer").to_list()
        result.add_scatter(
            x=own["x"].to_numpy(),
            y=own["y"].to_numpy(),
            mode="markers",
            name=short(group) or "clients",
            text=[plain(name) for name in own["client"]],
            marker={
                "color": colour,
                "size": 11,
                "symbol": [f"{symbol}-open" if new else symbol for new in is_new],
            },
            hovertemplate="%{text}<extra></extra>",
        )
    result.update_yaxes(scaleanchor="x", scaleratio=1)
    return result
