"""Draw a row's figure from its study: curves by group, maps of codes, who holds what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from duotone.measures.inks import natural
from duotone.measures.maps import code_maps
from duotone.partition.picture import draw_partition
from duotone.reproduction.rows import Row, study_values
from duotone.runs import Run, plan_population
from duotone.runs.study_results import read_results

PANEL = (3.2, 2.6)
"""Width and height of a panel, in inches."""
MOST_PANELS = 12
SHADE = 0.15


def draw_clients(row: Row, path: Path) -> None:
    """Draw who holds what in a row's setting."""
    assert row.study is not None
    settings = study_values(row.study)["settings"]
    known = ("data", "style", "partition", "table")
    population = plan_population({name: settings[name] for name in known if name in settings})
    draw_partition(population.dataset, population.partition, path)


def draw_runs(row: Row, folder: Path, path: Path) -> bool:
    """Draw curves or maps of a study's first seed; return whether there was anything to draw.

    Args:
        row: What is drawn.
        folder: The study's folder.
        path: The picture.
    """
    entries = {
        entry["name"]: Run(folder / entry["runs"][0])
        for entry in read_results(folder)["entries"]
        if entry["runs"]
    }
    shown = dict(list(entries.items())[:MOST_PANELS])
    if row.shows == "curves":
        return _draw(path, [(name, _curves(run)) for name, run in shown.items()], _curve_panel)
    if row.shows == "codes":
        maps = [panel for name, run in shown.items() for panel in _maps(name, run)]
        return _draw(path, maps, _map_panel)
    return False


def _draw(path: Path, panels: Sequence[tuple[str, pl.DataFrame]], draw: Any) -> bool:
    if not panels:
        return False
    columns = min(4, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    names = sorted({str(name) for _, table in panels for name in table["group"]}, key=natural)
    inks = {name: colormaps["tab10"](place % 10) for place, name in enumerate(names)}
    for place, (title, table) in enumerate(panels):
        axes = figure.add_subplot(rows, columns, place + 1)
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=7)
        draw(axes, table, inks)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if len(labels) <= 12:
        figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=7)
    figure.savefig(path, dpi=130)
    return True


def _curves(run: Run) -> pl.DataFrame:
    """Return ``group, kind, round, mean, std``: a metric over the rounds, by group of clients."""
    metric = str(run.summary["headline"])
    table = run.metrics.filter((pl.col("metric") == metric) & (pl.col("group") != ""))
    means = table.group_by("group", "kind", "round").agg(
        pl.mean("value").alias("mean"), pl.std("value").fill_null(0.0).alias("std")
    )
    return means.sort("group", "kind", "round")


def _curve_panel(axes: Axes, table: pl.DataFrame, inks: Mapping[str, Any]) -> None:
    for (group, kind), own in table.group_by("group", "kind", maintain_order=True):
        x, y, spread = (np.asarray(own[name]) for name in ("round", "mean", "std"))
        # As in the thesis: clients that did not train have dashed lines.
        style = "--" if kind == "newcomer" else "-"
        axes.plot(x, y, style, color=inks[str(group)], linewidth=1, label=f"{group} ({kind})")
        axes.fill_between(x, y - spread, y + spread, color=inks[str(group)], alpha=SHADE, lw=0)
    axes.set_xlabel("communication round", fontsize=7)


def _maps(name: str, run: Run) -> list[tuple[str, pl.DataFrame]]:
    """Return the t-SNE maps of a run's codes, or for one dimension each their scatter."""
    latents = run.latents
    if latents["shared"].shape[1] == 1 and latents["local"].shape[1:] == (1,):
        table = {"x": latents["local"][:, 0], "y": latents["shared"][:, 0]}
        return [(f"{name}: c across, z up", pl.DataFrame({**table, "group": latents["group"]}))]
    found = code_maps(latents, run.config.seed)
    if not found:
        return []
    points = found[-1].points
    return [
        (f"{name}: {part}", points.filter(pl.col("part") == part))
        for part in ("shared", "local")
        if (points["part"] == part).any()
    ]


def _map_panel(axes: Axes, table: pl.DataFrame, inks: Mapping[str, Any]) -> None:
    for (group,), own in table.group_by("group", maintain_order=True):
        axes.scatter(own["x"], own["y"], s=3, color=inks[str(group)], label=str(group))
    axes.set_xticks([])
    axes.set_yticks([])
