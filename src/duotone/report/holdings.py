"""Who holds what in a run: read once more from its data, or from its codes, and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from duotone.config import RunConfig
from duotone.data.dataset import Array
from duotone.errors import DuotoneError, RunError
from duotone.measures.inks import ROLE, bar_fill, dress, faded, natural, rules, short
from duotone.partition.describe import class_shares
from duotone.partition.lines import MOST_LINES, Example, Line, examples_of, lines_of
from duotone.partition.partition import Population
from duotone.runs import plan_population
from duotone.types import ROLES


@dataclass(frozen=True, slots=True)
class Holdings:
    """Who holds what, as far as it is known.

    Attributes:
        lines: A line per client, or per group of very many; empty if nothing is known.
        heading: What the columns of the lines are.
        note: Where the lines come from.
        tested: Test samples by client, where known.
        examples: A few images per client.
    """

    lines: list[Line]
    heading: str
    note: str
    tested: Mapping[str, int]
    examples: list[Example]


def read_holdings(
    config: RunConfig, facts: Mapping[str, Any], latents: Mapping[str, Array] | None
) -> Holdings:
    """Build a run's clients again, or read from its codes what they still know of them."""
    try:
        population = _population(config, facts)
    except DuotoneError as error:
        why = str(error).split("\n")[0]
        lines, heading = ([], "") if latents is None else lines_of_latents(latents)
        rest = (
            "so who holds what is not shown."
            if latents is None
            else "so the picture counts the saved codes: at most "
            f"{config.latents} training samples of each client."
        )
        return Holdings(lines, heading, f"The data is not at hand ({why}), {rest}", {}, [])
    lines, note = lines_of(population.dataset, population.partition)
    return Holdings(
        lines,
        "label" if population.dataset.classes else "tenth of the targets",
        f"{note[0].upper()}{note[1:]}; training samples, validation included.",
        {c: population.partition.size(c, "test") for c in population.partition},
        examples_of(population.dataset, population.partition),
    )


def _population(config: RunConfig, facts: Mapping[str, Any]) -> Population:
    """Build the run's clients again, and make sure that they are the same.

    Raises:
        DuotoneError: The data is missing, was made in Python, or has changed.
    """
    if config.data.startswith("object:"):
        raise RunError("it was given in Python")
    population = plan_population(config.model_dump())
    if (
        population.dataset.fingerprint() != facts["data_fingerprint"]
        or population.partition.fingerprint() != facts["partition_fingerprint"]
    ):
        raise RunError("it is no longer what the run was made with")
    return population


def lines_of_latents(latents: Mapping[str, Array]) -> tuple[list[Line], str]:
    """Return the lines of a partition picture as far as saved codes know them, at most 60."""
    is_train = latents["split"] == "train"
    label = latents["label"]
    if np.issubdtype(label.dtype, np.floating):
        columns = np.searchsorted(np.quantile(label, np.linspace(0.1, 0.9, 9)), label)
        heading = "tenth of the targets"
    else:
        columns, heading = label.astype(np.int64), "label"
    width = int(columns.max(initial=0)) + 1
    lines: list[Line] = []
    for client in sorted(map(str, np.unique(latents["client"])), key=natural):
        own = latents["client"] == client
        counts = np.bincount(columns[own & is_train], minlength=width)
        first = int(np.flatnonzero(own)[0])
        role = ROLES[latents["kind"][first] == "newcomer"]
        group = str(latents["group"][first])
        lines.append(Line(client, group, role, class_shares(counts[None])[0], counts.sum()[None]))
    lines.sort(key=lambda line: (ROLES.index(line.role), natural(line.group)))
    return lines[:MOST_LINES], heading


def partition_figure(lines: Sequence[Line], heading: str) -> go.Figure:
    """Draw who holds which labels, and how many samples.

    Args:
        lines: One per client (or per group of very many clients), members first.
        heading: What the columns are.
    """
    columns = len(lines[0].shares)
    tall = 22 if len(lines) <= 30 else 14
    names = [_line_name(line) for line in lines]
    places = np.arange(len(lines))
    result = make_subplots(
        rows=1, cols=2, column_widths=[0.7, 0.3], shared_yaxes=True, horizontal_spacing=0.03
    )
    most = max(float(line.shares.max()) for line in lines)
    for role, ink in ROLE.items():
        own = [i for i, line in enumerate(lines) if line.role == role]
        if not own:
            continue
        shares = np.full((len(lines), columns), np.nan)
        shares[own] = [lines[i].shares for i in own]
        result.add_heatmap(
            z=shares,
            y=places,
            colorscale=[(0, faded(ink, 0.03)), (1, ink)],
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
    dress(result, 96 + tall * len(lines), bargap=0.25, barmode="overlay")
    result.update_yaxes(
        tickmode="array",
        tickvals=places,
        ticktext=names,
        range=[len(lines) - 0.5, -0.5],
        showgrid=False,
        tickfont={"size": 12 if tall == 22 else 10},
    )
    step = 1 if columns <= 20 else columns // 10
    result.update_xaxes(
        title={"text": heading}, tickvals=list(range(0, columns, step)), showgrid=False, col=1
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


def _line_name(line: Line) -> str:
    group = "" if line.group in ("", line.name) or line.name.startswith(line.group) else line.group
    return short(line.name, 16) + (f" · {short(group, 20)}" if group else "")
