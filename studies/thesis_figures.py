"""Figures of the thesis' chapters on FedCD and FedVC, in its own form, from finished studies.

python -m studies.thesis_figures group_curves runs/fedcd-curves docs/images/fedcd-groups.png
python -m studies.thesis_figures hidden_layers runs/fedcd-curves docs/images/fedcd-hidden-layers.png
python -m studies.thesis_figures preferences runs/fedvc-tables docs/images/fedvc-preferences.png
python -m studies.thesis_figures by_iota runs/fedvc-tables docs/images/fedvc-iota.png
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from studies.domains_told import Points, points_of

from duotone.measures.inks import natural
from duotone.runs import Run, load_run
from duotone.runs.study_results import read_results

SHADE = 0.12
COLUMNS = 5


def group_curves(study: Path, out: Path) -> None:
    """Draw accuracy over the rounds: a panel for each method, a line for each group of clients.

    Newcomers are dashed. Shades are one standard deviation over the clients of a group.
    """
    entries = [entry for entry in read_results(study)["entries"] if entry["runs"]]
    rows = math.ceil(len(entries) / COLUMNS)
    figure = Figure(figsize=(12.5, 0.5 + 2.4 * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
    handles: dict[str, object] = {}
    for axis, entry in zip(axes, entries, strict=False):
        table = grouped([Run(study / path) for path in entry["runs"]])
        names = sorted(table["group"].unique(), key=natural)
        for number, name in enumerate(names):
            for kind, dashes in (("member", "-"), ("newcomer", "--")):
                own = table.filter((pl.col("group") == name) & (pl.col("kind") == kind))
                if own.is_empty():
                    continue
                x, mean, std = (own[key].to_numpy() for key in ("round", "mean", "std"))
                ink = colormaps["tab10"](number % 10)
                (line,) = axis.plot(x, 100 * mean, dashes, color=ink, linewidth=1.2)
                axis.fill_between(x, 100 * (mean - std), 100 * (mean + std), color=ink, alpha=SHADE)
                handles.setdefault(name if kind == "member" else f"{name}, newcomers", line)
        axis.set_title(entry["name"], fontsize=9)
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    for axis in axes[len(entries) :]:
        axis.set_visible(False)
    figure.supxlabel("round", fontsize=9)
    figure.supylabel("accuracy, %", fontsize=9)
    figure.legend(
        list(handles.values()), list(handles), frameon=False, fontsize=7, loc="outside right"
    )
    FigureCanvasAgg(figure).print_png(str(out))


def grouped(runs: Sequence[Run]) -> pl.DataFrame:
    """Return mean and deviation of accuracy by group, kind and round, over clients and seeds."""
    wanted = (pl.col("metric") == "accuracy") & pl.col("kind").is_in(("member", "newcomer"))
    return (
        pl.concat(run.metrics for run in runs)
        .filter(wanted)
        .group_by("group", "kind", "round")
        .agg(pl.col("value").mean().alias("mean"), pl.col("value").std().fill_null(0).alias("std"))
        .sort("round")
    )


def hidden_layers(study: Path, out: Path) -> None:
    """Draw fig. 5.8: what FedAvg and FedBN hand to their last layer, and FedCD's codes."""
    shown = (
        ("fedavg-batchnorm", "shared", "FedAvg, BatchNorm: features"),
        ("fedbn", "local", "FedBN: features"),
        ("fedcd-fc1", "local", "FedCD as printed, FC1: Pᵀz"),
        ("fedcd-exact", "local", "FedCD, exact, FC1: Pᵀz"),
    )
    panels = [
        (title, points_of(load_run(study / folder / "seed0")), code)
        for folder, code, title in shown
    ]
    _print_points(panels, out)


def preferences(study: Path, out: Path) -> None:
    """Draw fig. 6.7: FedAvg's features, and p̂ of FedVC with and without the client's weights."""
    seed = "seed0"
    panels = [("FedAvg: features", points_of(load_run(study / "fedavg" / seed)), "shared")]
    for folder, title in (("as-printed", "FedVC"), ("gamma-0.1", "FedVC-sg")):
        points = points_of(load_run(study / folder / seed))
        panels += [
            (f"{title}: p̂, the client's weights", points, "own weights"),
            (f"{title}: p̂, equal weights", points, "equal weights"),
        ]
    _print_points(panels, out)


def by_iota(study: Path, out: Path) -> None:
    """Draw fig. 6.8: p̂ of FedVC with the client's weights, for each ι of table 6.7."""
    folders = ("iota-0.001", "iota-0.005", "iota-0.01", "as-printed")
    titles = ("ι = 0.001", "ι = 0.005", "ι = 0.01", "ι = 0.1")
    panels = [
        (title, points_of(load_run(study / folder / "seed0")), "own weights")
        for folder, title in zip(folders, titles, strict=True)
    ]
    _print_points(panels, out)


def _print_points(panels: Sequence[tuple[str, Points, str]], out: Path) -> None:
    """Write t-SNE maps side by side, by group."""
    figure = Figure(figsize=(3.2 * len(panels), 3.4), layout="constrained")
    axes: Sequence[Axes] = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, points, code) in zip(axes, panels, strict=True):
        places = points.map_of(code)
        for number, name in enumerate(sorted(set(points.group), key=natural)):
            own = places[np.array(points.group) == name]
            axis.scatter(*own.T, s=6, color=colormaps["tab10"](number), label=name)
        axis.set_title(title, fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=8, ncols=5, loc="outside lower center")
    FigureCanvasAgg(figure).print_png(str(out))


if __name__ == "__main__":
    figures = (group_curves, hidden_layers, preferences, by_iota)
    draw = {figure.__name__: figure for figure in figures}[sys.argv[1]]
    draw(*map(Path, sys.argv[2:]))
