"""Figures of the result pages, drawn from finished runs.

python -m studies.figures curves runs/studies/feddva-target-shift docs/images/curves.png
python -m studies.figures groups runs/studies/fedcd-curves docs/images/groups.png
python -m studies.figures scatter runs/feddva docs/images/scatter.png
python -m studies.figures manifolds runs/feddva docs/images/manifolds.png
python -m studies.figures maps runs/fedcd docs/images/maps.png
python -m studies.figures local_maps runs/fedvc runs/paper docs/images/local-maps.png
python -m studies.figures concepts runs/fedvc docs/images/concepts.png
python -m studies.figures trends runs/studies/simpson docs/images/simpson.png
python -m studies.figures swaps runs/content-style docs/images/content-style.png
python -m studies.figures pushed_styles runs/content-style docs/images/content-style-pushed.png
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import polars as pl
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread, imsave
from matplotlib.ticker import MaxNLocator
from torch.nn.functional import cross_entropy

import duotone
from duotone.federation.backends import ClientTask
from duotone.federation.backends.choice import make_backend
from duotone.federation.engine import before_first_round
from duotone.federation.protocols import Decodes
from duotone.federation.serving import Serving
from duotone.measures.decoding import choose_holders, encode_holders
from duotone.measures.judges import train_judges
from duotone.measures.maps import code_maps
from duotone.measures.sheet import Images, pixels
from duotone.measures.sheets import manifold_sheet
from duotone.methods.content_style.content_networks import ContentStyle
from duotone.methods.content_style.content_style import ContentStyleFL, pushed
from duotone.runs import load_run
from duotone.runs.last_round import last_serving
from duotone.runs.opened import OpenedRun

# Okabe and Ito's colours, told apart with any colour vision.
_INKS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SHOWN = 10
"""Samples in a row of a sheet."""
_BATCH = 50
"""Samples over which styles are measured."""


def curves(study: Path, out: Path) -> None:
    """Draw the accuracy of every entry over the rounds, members and newcomers side by side.

    Lines are means over clients and seeds, shades one standard deviation over clients.
    """
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    entries = sorted(path for path in study.iterdir() if (path / "seed0").is_dir())
    for ink, entry in zip(_INKS, entries, strict=False):
        tables = [load_run(path).metrics for path in sorted(entry.glob("seed*"))]
        found = pl.concat(tables).filter(pl.col("metric") == "accuracy")
        for axis, kind in zip(axes, ("member", "newcomer"), strict=True):
            by_round = (
                found.filter(pl.col("kind") == kind)
                .group_by("round")
                .agg(pl.col("value").mean().alias("mean"), pl.col("value").std().alias("std"))
                .sort("round")
            )
            x, mean, std = (by_round[name].to_numpy() for name in ("round", "mean", "std"))
            axis.plot(x, 100 * mean, color=ink, label=entry.name)
            axis.fill_between(x, 100 * (mean - std), 100 * (mean + std), color=ink, alpha=0.12)
            axis.set_title(f"{kind}s")
            axis.set_xlabel("round")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_ylabel("accuracy, %")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside right")
    FigureCanvasAgg(figure).print_png(str(out))


def groups(study: Path, out: Path) -> None:
    """Draw the accuracy of every entry over the rounds, a panel for each group of clients.

    Lines are means over the clients of a group and over seeds, shades one standard deviation.
    """
    entries = sorted(path for path in study.iterdir() if path.is_dir())
    tables = {
        entry.name: pl.concat(load_run(path).metrics for path in sorted(entry.glob("seed*")))
        .filter(pl.col("metric") == "accuracy")
        .group_by("group", "kind", "round")
        .agg(pl.col("value").mean(), pl.col("value").std().alias("std").fill_null(0))
        .sort("round")
        for entry in entries
    }
    known = next(iter(tables.values()))
    names = known["group"].unique().sort().to_list()
    rows = math.ceil(len(names) / 5)
    columns = math.ceil(len(names) / rows)
    figure = Figure(figsize=(11, 0.6 + 2.3 * rows), layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True))
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, names, strict=False):
        for ink, (entry, table) in zip(_INKS, tables.items(), strict=False):
            for kind, dashes in (("member", "-"), ("newcomer", ":")):
                own = table.filter((pl.col("group") == name) & (pl.col("kind") == kind))
                label = f"{entry}, {kind}s"
                axis.plot(own["round"], 100 * own["value"], dashes, color=ink, label=label)
                low, high = (100 * (own["value"] + sign * own["std"]) for sign in (-1, 1))
                axis.fill_between(own["round"], low, high, color=ink, alpha=0.12)
        axis.set_title(name)
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    figure.supxlabel("round")
    figure.supylabel("accuracy, %")
    figure.legend(*axes.flat[0].get_legend_handles_labels(), frameon=False, loc="outside right")
    FigureCanvasAgg(figure).print_png(str(out))


def scatter(folder: Path, out: Path) -> None:
    """Draw codes of one dimension each: the local one across, the shared one up, by client."""
    run = load_run(folder)
    codes, is_test = run.latents, run.latents["split"] == "test"
    figure = Figure(figsize=(5, 4), layout="constrained")
    axis = figure.subplots()
    for number, group in enumerate(np.unique(codes["group"])):
        own = is_test & (codes["group"] == group)
        dots = codes["local"][own, 0], codes["shared"][own, 0]
        axis.scatter(*dots, s=6, alpha=0.6, color=_INKS[number], label=str(group))
    axis.set(xlabel="local code c", ylabel="shared code z")
    figure.legend(*axis.get_legend_handles_labels(), frameon=False, loc="outside right")
    FigureCanvasAgg(figure).print_png(str(out))


def maps(folder: Path, out: Path) -> None:
    """Draw t-SNE maps of a run's two codes, by group and by label."""
    run = load_run(folder)
    members = run.latents["kind"] == "member"
    latents = {name: values[members] for name, values in run.latents.items()}
    found = code_maps(latents, run.config.seed)[-1].points
    figure = Figure(figsize=(9, 8), layout="constrained")
    panels = [(part, by) for by in ("group", "label") for part in ("shared", "local")]
    for axis, (part, by) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        own = found.filter(pl.col("part") == part)
        for number, value in enumerate(own[by].unique().sort()):
            dots = own.filter(pl.col(by) == value)
            axis.scatter(dots["x"], dots["y"], s=7, color=f"C{number}", label=str(value))
        axis.set_title(f"{part} code, by {by}")
        axis.set_xticks([])
        axis.set_yticks([])
        if part == "local":
            axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    FigureCanvasAgg(figure).print_png(str(out))


def local_maps(*paths: Path) -> None:
    """Draw t-SNE maps of the local codes of several runs, by group; the last path is the figure."""
    *folders, out = paths
    figure = Figure(figsize=(4 * len(folders), 4), layout="constrained")
    axes = figure.subplots(1, len(folders), squeeze=False)[0]
    for axis, folder in zip(axes, folders, strict=True):
        run = load_run(folder)
        members = run.latents["kind"] == "member"
        latents = {name: values[members] for name, values in run.latents.items()}
        found = code_maps(latents, run.config.seed)[-1].points.filter(pl.col("part") == "local")
        for number, value in enumerate(found["group"].unique().sort()):
            dots = found.filter(pl.col("group") == value)
            axis.scatter(dots["x"], dots["y"], s=7, color=_INKS[number], label=str(value))
        axis.set_title(folder.parent.name, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside right")
    FigureCanvasAgg(figure).print_png(str(out))


def concepts(folder: Path, out: Path) -> None:
    """Draw what clients are mixtures of, beside the most typical samples of each concept."""
    told = load_run(folder).concepts
    assert told is not None
    clients = sorted(told["clients"], key=lambda own: (own["kind"], own["group"]))
    weights = np.array([own["weights"] for own in clients])
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 2.4))
    left.imshow(weights, aspect="auto", cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    names = [own["group"] for own in clients]
    firsts = [i for i, name in enumerate(names) if i == 0 or name != names[i - 1]]
    ends = [*firsts[1:], len(names)]
    middles = [(first + end - 1) / 2 for first, end in zip(firsts, ends, strict=True)]
    members = sum(own["kind"] == "member" for own in clients)
    left.set_yticks(
        middles,
        [names[i] + (", new" if i >= members else "") for i in firsts],
        fontsize=8,
    )
    for first in firsts[1:]:
        left.axhline(first - 0.5, color="black", linewidth=0.5)
    left.set_xticks(range(weights.shape[1]))
    left.set_xlabel("concept")
    right.imshow(imread(folder / "figures" / "concepts.png"), aspect="equal")
    right.set_axis_off()
    right.set_title("the most typical samples of each concept, concept 0 at the top", fontsize=9)
    FigureCanvasAgg(figure).print_png(str(out))


def manifolds(folder: Path, out: Path) -> None:
    """Draw the manifold sheet of every client of a run, side by side."""
    run = load_run(folder)
    plan = OpenedRun(run).plan
    method, population = plan.method, plan.population
    assert isinstance(method, Decodes)
    config = plan.config
    assert config.rounds is not None
    info = before_first_round(
        population, rounds=config.rounds, sampled=config.sampled, seed=config.seed
    )
    judges = train_judges(population, config.seed)
    chosen = choose_holders(population.partition, judges.style_of, config.seed)
    with (
        make_backend(method, population, config, lambda line: None) as backend,
        run.folder.reading() as last,
    ):
        serving = Serving(last.server(), info, plan.rule)
        holders = encode_holders(chosen, judges, serving, population, last, backend)
    figure = Figure(figsize=(2.6 * len(holders), 2.9), layout="constrained")
    for axis, holder in zip(figure.subplots(1, len(holders)), holders, strict=True):
        tiles = manifold_sheet(method, holder, population.info, "", "").tiles
        rows = [np.concatenate(list(row), axis=1) for row in tiles]
        axis.imshow(np.concatenate(rows).squeeze(), cmap="gray", vmin=0, vmax=255)
        axis.set_title(f"{holder.role} {holder.client} ({holder.style})", fontsize=9)
        axis.set_axis_off()
    FigureCanvasAgg(figure).print_png(str(out))


def trends(study: Path, out: Path) -> None:
    """Draw the line that every client of a linear regression uses, a panel for each entry.

    Dots are training and test samples; of every entry the first seed is shown.
    """
    entries = sorted(path for path in study.iterdir() if (path / "seed0").is_dir())
    figure = Figure(figsize=(2.8 * len(entries), 3), layout="constrained")
    axes = figure.subplots(1, len(entries), sharex=True, sharey=True)
    for axis, entry in zip(axes, entries, strict=True):
        run = load_run(entry / "seed0")
        plan = OpenedRun(run).plan
        method, population = plan.method, plan.population
        with run.folder.reading() as last:
            serving = last_serving(plan, last)
            states = {client: last.get(client) for client in population.partition}
        for number, client in enumerate(population.partition):
            rows = [population.data(client, split) for split in ("train", "val", "test")]
            x, y = (torch.cat([getattr(part, name) for part in rows]) for name in ("x", "y"))
            axis.scatter(x, y, s=6, alpha=0.5, color=f"C{number}")
            model = serving.model(method, population, ClientTask(client, states[client]))
            ends = torch.tensor([[float(x.min()) - 0.25], [float(x.max()) + 0.25]])
            with torch.inference_mode():
                axis.plot(ends, method.predict(model, ends), color=f"C{number}")
        axis.set_title(entry.name, fontsize=9)
        axis.set_xlabel("x")
    axes[0].set_ylabel("y")
    FigureCanvasAgg(figure).print_png(str(out))


def swaps(folder: Path, out: Path) -> None:
    """Draw the first test samples of two members, each row above the same in the other's style."""
    first, second = OpenedRun(load_run(folder)).plan.population.partition.members[:2]
    rows = []
    for source, target in ((first, second), (second, first)):
        drawn = duotone.restyle(folder, source=source, target=target)
        rows += [drawn.original, drawn.x]
    print_rows(rows, out)


def pushed_styles(folder: Path, out: Path) -> None:
    """Draw what content–style FL learns from: samples, in the styles of others, and pushed.

    The first training samples of every member; below them the same digits in the style of the next
    sample, and in that style pushed by one and by two deviations to where the classifier errs.
    """
    run = load_run(folder)
    plan = OpenedRun(run).plan
    method, population = plan.method, plan.population
    assert isinstance(method, ContentStyleFL)
    with run.folder.reading() as last:
        serving = last_serving(plan, last)
        states = {client: last.get(client) for client in population.partition}
    rows = []
    for client in population.partition.members:
        model = serving.model(method, population, ClientTask(client, states[client]))
        assert isinstance(model, ContentStyle)
        data = population.data(client)
        x, y = data.x[:_BATCH], data.labels[:_BATCH]
        content = model.content(x).detach()
        manner = model.mapping(model.style(x)).detach().roll(1, 0).requires_grad_()
        loss = cross_entropy(model(model.decoder(content, manner)), y)
        (gradient,) = torch.autograd.grad(loss, manner)
        rows.append(pixels(x)[:_SHOWN])
        for far in (0.0, 1.0, 2.0):
            harder = pushed(manner.detach(), gradient, torch.full((len(x), 1), far))
            rows.append(pixels(model.decoder(content, harder).detach())[:_SHOWN])
    print_rows(rows, out)


def print_rows(rows: list[Images], out: Path) -> None:
    """Write rows of images as a sheet with white lines in between, twice as large."""
    tiles = np.pad(np.stack(rows), ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)), constant_values=255)
    sheet = np.concatenate([np.concatenate(list(row), axis=1) for row in tiles])
    if sheet.shape[2] == 1:
        sheet = sheet.repeat(3, axis=2)
    imsave(out, sheet.repeat(2, axis=0).repeat(2, axis=1))


if __name__ == "__main__":
    figures = (
        curves,
        groups,
        scatter,
        manifolds,
        maps,
        local_maps,
        concepts,
        trends,
        swaps,
        pushed_styles,
    )
    draw = {figure.__name__: figure for figure in figures}[sys.argv[1]]
    draw(*map(Path, sys.argv[2:]))
