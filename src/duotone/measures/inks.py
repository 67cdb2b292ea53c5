"""The colours of a report and the plain look of its figures.

The two inks belong to the parts: a blue-green for what is shared, vermilion for what is local.
Everything else uses other colours of Okabe and Ito, which are told apart with any colour vision.
All of them are dark enough for white paper and light enough for a dark screen, and no difference
is shown by colour alone: symbols, dashes or positions say it too.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

import plotly.graph_objects as go

from duotone.measures.metrics import DIRECTIONS, is_share

PART = {"shared": "#00798A", "local": "#D55E00"}
PART_SYMBOL = {"shared": "circle", "local": "diamond"}
ROLE = {"member": "#0072B2", "newcomer": "#BF6297"}
ROLE_DASH = {"member": "solid", "newcomer": "dash"}
ROLE_SYMBOL = {"member": "circle", "newcomer": "square"}
GREY = "#8A8F94"
SERIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A8F94")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


def faded(colour: str, opacity: float) -> str:
    """Return a colour that lets the page shine through, so that it suits light and dark.

    >>> faded("#D55E00", 0.2)
    'rgba(213,94,0,0.2)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def series(place: int) -> tuple[str, str, str]:
    """Return colour, symbol and dash of the n-th of many things; 35 of them all differ."""
    return SERIES[place % 7], SYMBOLS[place % 5], DASHES[place % 5]


def plain(text: str) -> str:
    """Return a name that Plotly shows as it is; unescaped it would read tags in it."""
    return html.escape(str(text), quote=False)


def short(text: str, longest: int = 24) -> str:
    """Return a name that fits beside an axis."""
    return plain(text if len(text) <= longest else text[: longest - 1] + "…")


def figure(height: int, **layout: Any) -> go.Figure:
    """Return an empty figure in the report's look; the page colours text and grid by its theme."""
    result = go.Figure()
    dress(result, height, **layout)
    return result


def dress(result: go.Figure, height: int, **layout: Any) -> None:
    """Give a figure the report's look."""
    look: dict[str, Any] = {
        "template": "none",
        "height": height,
        "margin": {"l": 56, "r": 16, "t": 24, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#555555"},
        "hoverlabel": {"align": "left"},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        # A finger that moves over a figure shall scroll the page; zooming is behind a button.
        "dragmode": False,
    }
    result.update_layout(**{**look, **layout})
    line = faded(GREY, 0.35)
    title = {"font": {"size": 13}, "standoff": 8}
    axis = {"gridcolor": line, "linecolor": line, "zeroline": False, "automargin": True}
    result.update_xaxes(title=title, ticks="", **axis)
    result.update_yaxes(title=title, ticks="", **axis)


def bar_fill(role: str) -> dict[str, Any]:
    """Return how bars of a role of client are filled; newcomers are hatched as well."""
    hatch = {"shape": "/", "fillmode": "overlay", "fgcolor": "#ffffff", "fgopacity": 0.7, "size": 6}
    return {"color": ROLE[role], "pattern": hatch if role == "newcomer" else {"shape": ""}}


def rules(heights: Iterable[float], ink: str = GREY) -> list[dict[str, Any]]:
    """Return horizontal lines across a whole figure, for its layout's ``shapes``."""
    line = {"color": ink, "width": 1}
    return [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}
        for y in heights
    ]


def metric_axis(metric: str) -> dict[str, Any]:
    """Return title and number format of an axis that shows a metric."""
    title = f"{metric} ({DIRECTIONS[metric]} is better)"
    return {"title": {"text": title}, "tickformat": number_format(metric)}


def number_format(metric: str) -> str:
    """Return how Plotly writes a metric: in percent where it is a share."""
    return ".1~%" if is_share(metric) else ".3~g"


def titled(metric: str) -> str:
    """Return a metric's name as a heading begins with it."""
    return metric.capitalize() if metric == "accuracy" else metric.upper()


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts names with numbers as people do.

    >>> sorted(["10", "9", "c2", "c10"], key=natural)
    ['9', '10', 'c2', 'c10']
    """
    pieces = re.findall(r"\d+|\D+", name)
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in pieces)
