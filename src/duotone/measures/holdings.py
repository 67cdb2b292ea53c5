"""Who holds what? The mix of every client's samples, and what they look like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from duotone.config import MANY_CLIENTS
from duotone.measures.inks import ROLE, bar_fill, dress, faded, rules, short
from duotone.measures.measure import Findings, Measure, Record, Scene
from duotone.measures.panels import Block, Panel, Section, View, gathered
from duotone.measures.sheet import Sheet
from duotone.partition.lines import Line, examples_of, lines_of


class Holdings(Measure):
    """The partition as a picture; no score."""

    name = "holdings"
    file = "holdings"

    def measure(self, scene: Scene) -> Findings:
        """Return the lines of the picture, and a few images per client."""
        dataset, partition = scene.population.dataset, scene.population.partition
        lines, note = lines_of(dataset, partition)
        listed = partition if len(partition) <= MANY_CLIENTS else scene.clients
        table = {
            "lines": [line_json(line) for line in lines],
            "heading": "label" if dataset.classes else "tenth of the targets",
            "note": f"{note[0].upper()}{note[1:]}; training samples, validation included.",
            "tested": {client: partition.size(client, "test") for client in listed},
        }
        sheets = [
            Sheet(
                f"examples-{number}",
                "examples",
                f"What samples look like: {example.name}",
                "What sets clients apart beyond their labels.",
                "Eight samples do not show a distribution. They are real samples of these clients: "
                "pass the page on only to those who may see them.",
                example.images[np.newaxis, np.newaxis],
            )
            for number, example in enumerate(examples_of(dataset, partition))
        ]
        return Findings(table=table, sheets=sheets)

    def section(self, record: Record) -> Section | None:
        """Return the picture of the partition, with examples."""
        table = record.tables.get("holdings")
        if table is None:
            return None
        lines, heading = [line_of(line) for line in table["lines"]], table["heading"]
        columns = [str(number) for number in range(len(lines[0].shares))]
        if heading == "label":
            columns = [record.class_name(number) for number in range(len(columns))]
        blocks: list[Block] = [
            Panel(
                "partition",
                "Who holds what",
                (View((), partition_figure(lines, heading, columns)),),
                "Rows with different dark cells: those clients see different labels. Lines part "
                "groups; newcomers, at the bottom, take no part in training. " + table["note"],
                "Shades are shares of one client's samples; a pale row may still be a large "
                "client. How samples look is not in this picture.",
                line_table(lines, heading, columns),
                min_width=560,
            )
        ]
        blocks += gathered(record.pictures_of("examples"))
        return Section("holdings", "Data", "On whose samples it was trained.", blocks)


def line_json(line: Line) -> dict[str, Any]:
    """Return a line as a run folder keeps it."""
    return {
        "name": line.name,
        "group": line.group,
        "kind": line.role,
        "shares": line.shares.round(6).tolist(),
        "sizes": line.sizes.tolist(),
    }


def line_of(kept: Mapping[str, Any]) -> Line:
    """Return what :func:`line_json` made a mapping of."""
    shares, sizes = np.array(kept["shares"]), np.array(kept["sizes"], np.int64)
    return Line(kept["name"], kept["group"], kept["kind"], shares, sizes)


def line_table(lines: Sequence[Line], heading: str, columns: Sequence[str]) -> pl.DataFrame:
    """Return ``client, group, kind, samples`` and a column for each share, by its name."""
    return pl.DataFrame(
        [
            {
                "client": line.name,
                "group": line.group,
                "kind": line.role,
                "samples": float(np.median(line.sizes)),
                **{f"{heading} {n}": s for n, s in zip(columns, line.shares, strict=True)},
            }
            for line in lines
        ]
    )


def partition_figure(lines: Sequence[Line], heading: str, columns: Sequence[str]) -> go.Figure:
    """Draw who holds which labels, and how many samples.

    Args:
        lines: One per client (or per group of very many clients), members first.
        heading: What the columns are.
        columns: What each of them is called.
    """
    tall = 22 if len(lines) <= 30 else 14
    names = [_line_name(line) for line in lines]
    places = np.arange(len(lines))
    result = make_subplots(
        rows=1, cols=2, column_widths=[0.7, 0.3], shared_yaxes=True, horizontal_spacing=0.03
    )
    for role in ROLE:
        own = [i for i, line in enumerate(lines) if line.role == role]
        if own:
            _add_lines(result, lines, own, names, heading)
    dress(result, 96 + tall * len(lines), bargap=0.25, barmode="overlay")
    result.update_yaxes(
        tickmode="array",
        tickvals=places,
        ticktext=names,
        range=[len(lines) - 0.5, -0.5],
        showgrid=False,
        tickfont={"size": 12 if tall == 22 else 10},
    )
    shown = range(0, len(columns), 1 if len(columns) <= 20 else len(columns) // 10)
    result.update_xaxes(
        title={"text": heading},
        tickvals=list(shown),
        ticktext=[short(columns[i], 14) for i in shown],
        showgrid=False,
        col=1,
    )
    result.update_xaxes(title={"text": "training samples"}, nticks=5, col=2)
    # Where every client is a group of its own, lines between all of them would part nothing.
    has_groups = len({line.group for line in lines}) < len(lines)
    ends = [
        len(list(run))
        for _, run in groupby(lines, lambda line: (line.role, line.group if has_groups else ""))
    ]
    result.update_layout(shapes=rules(float(end) - 0.5 for end in np.cumsum(ends)[:-1]))
    return result


def _add_lines(
    result: go.Figure, lines: Sequence[Line], own: list[int], names: list[str], heading: str
) -> None:
    """Add the shares and sizes of the lines of one role."""
    role, columns = lines[own[0]].role, len(lines[0].shares)
    most = max(float(line.shares.max()) for line in lines)
    shares = np.full((len(lines), columns), np.nan)
    shares[own] = [lines[i].shares for i in own]
    result.add_heatmap(
        z=shares,
        y=np.arange(len(lines)),
        colorscale=[(0, faded(ROLE[role], 0.03)), (1, ROLE[role])],
        zmin=0,
        # Uniform shares stay pale, lest the noise of alike clients look like a difference.
        zmax=max(min(1.0, 4 / columns), most),
        showscale=False,
        xgap=1,
        ygap=1,
        customdata=np.tile(np.array(names)[:, None], (1, columns)),
        hovertemplate="%{customdata}<br>" + heading + " %{x}: %{z:.1%}<extra></extra>",
        hoverongaps=False,
        row=1,
        col=1,
    )
    result.add_bar(
        x=[float(np.median(lines[i].sizes)) for i in own],
        y=own,
        orientation="h",
        name=f"{role}s",
        marker=bar_fill(role),
        hovertemplate="%{x} samples<extra></extra>",
        row=1,
        col=2,
    )


def _line_name(line: Line) -> str:
    group = "" if line.group in ("", line.name) or line.name.startswith(line.group) else line.group
    return short(line.name, 16) + (f" · {short(group, 20)}" if group else "")
