"""Flat maps of the codes: a few samples of every client, projected by PCA and by t-SNE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl
from numpy.typing import NDArray
from plotly.subplots import make_subplots
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from duotone.data.dataset import Array
from duotone.measures.codes import PARTS, comparable, is_alive, kept_codes
from duotone.measures.inks import PART, dress, natural, plain, series, short
from duotone.measures.measure import Findings, Measure, Record, Scene
from duotone.measures.panels import Block, Note, Panel, Section, View
from duotone.partition.partition import Rows
from duotone.seeding import derive, stream

MOST_POINTS = 1000
MOST_NAMED = 24
"""Maps with more colours than this have no legend; the pointer says who a dot is."""
PERPLEXITY = 30.0
ITERATIONS = 500
FEWEST_FOR_TSNE = 10


@dataclass(frozen=True, slots=True)
class CodeMap:
    """A projection of the parts of a code.

    Attributes:
        name: "PCA" or "t-SNE".
        axes: What the axes are, for each part.
        points: ``part, x, y, client, group, label, role, split, index``, a row per part and sample.
    """

    name: str
    axes: Mapping[str, str]
    points: pl.DataFrame


def code_maps(latents: Mapping[str, Array], seed: int) -> list[CodeMap]:
    """Return the maps of all parts that are there; none without codes.

    Where clients encode with parameters of their own, the codes of one member's encoder are used:
    codes of different encoders have no common axes.

    Args:
        latents: The arrays of ``latents.npz``.
        seed: The run's seed; the same seed draws the same map.
    """
    codes = {part: comparable(latents, part) for part in ("shared", "local")}
    codes = {part: code for part, code in codes.items() if is_alive(code)}
    chosen = choose_rows(latents["client"], seed)
    if not codes or len(chosen) < 3:
        return []
    facts = pl.DataFrame(
        {
            name: latents[name][chosen]
            for name in ("client", "group", "label", "kind", "split", "index")
        }
    )
    pca: dict[str, NDArray[np.float64]] = {}
    tsne: dict[str, NDArray[np.float64]] = {}
    axes: dict[str, str] = {}
    for part, code in codes.items():
        projected, shares = project_pca(code[chosen])
        pca[part] = projected
        axes[part] = f"two directions of most variance: {shares.sum():.0%} of it"
        if len(chosen) >= FEWEST_FOR_TSNE:
            tsne[part] = project_tsne(code[chosen], seed)
    maps = [CodeMap("PCA", axes, _points(pca, facts))]
    if tsne:
        maps.append(
            CodeMap("t-SNE", dict.fromkeys(tsne, "t-SNE has no units"), _points(tsne, facts))
        )
    return maps


def choose_rows(clients: Array, seed: int, most: int = MOST_POINTS) -> Rows:
    """Return rows to show, evenly many of each client as far as it has them, in their order."""
    rng = stream(seed, "report", "map")
    order = rng.permutation(len(clients))
    # A sample's turn is its place among those of its client: first everybody's first, and so on.
    _, inverse = np.unique(clients, return_inverse=True)
    turn = np.zeros(len(clients), np.int64)
    seen = np.zeros(inverse.max(initial=0) + 1, np.int64)
    for row in order:
        turn[row] = seen[inverse[row]]
        seen[inverse[row]] += 1
    picked = order[np.argsort(turn[order], kind="stable")][:most]
    return np.sort(picked)


def project_pca(code: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each sample on the two directions of most variance, and the shares of variance."""
    count = min(2, code.shape[1])
    model = PCA(count, svd_solver="full").fit(code)
    projected = np.zeros((len(code), 2))
    projected[:, :count] = model.transform(code)
    return projected, np.asarray(model.explained_variance_ratio_)


def project_tsne(code: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return a t-SNE embedding in two dimensions, started from PCA; the same for the same seed."""
    narrow = code
    if code.shape[1] > 50:
        narrow = PCA(min(50, len(code)), svd_solver="full").fit_transform(code)
    model = TSNE(
        perplexity=min(PERPLEXITY, (len(code) - 1) / 3),
        init="pca" if narrow.shape[1] > 1 else "random",
        max_iter=ITERATIONS,
        random_state=derive(seed, "report", "t-SNE") % 2**32,
    )
    # More threads add up in another order, so that the map would depend on the machine; and for so
    # few points they wait for each other longer than they work.
    with threadpool_limits(1):
        return np.asarray(model.fit_transform(narrow / narrow.std()), np.float64)


def _points(projected: Mapping[str, NDArray[np.float64]], facts: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(
        [
            pl.DataFrame({"part": [part] * len(xy), "x": xy[:, 0], "y": xy[:, 1]})
            .with_columns(pl.col("x", "y").cast(pl.Float32))
            .hstack(facts)
            for part, xy in projected.items()
        ]
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
        for column, part in enumerate(parts):
            dots = own.filter(pl.col("part") == part)
            _add_dots(result, dots, colour, name, place, column)
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


def _add_dots(
    result: go.Figure, dots: pl.DataFrame, colour: str, name: str, place: int, column: int
) -> None:
    """Add the dots of one name to one panel; newcomers' marks are open."""
    ink, symbol, _ = series(place)
    is_scale = dots.schema[colour].is_float()
    marker: dict[str, Any] = {
        "symbol": [symbol if role == "member" else f"{symbol}-open" for role in dots["kind"]],
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


class Maps(Measure):
    """The codes themselves, kept for maps and for further questions; no score."""

    name = "maps"

    def applies(self, scene: Scene) -> bool:
        """Say whether codes are kept."""
        return bool(scene.config.latents and scene.clients)

    def measure(self, scene: Scene) -> Findings:
        """Return the codes of some samples of every client."""
        return Findings(arrays=scene.once(kept_codes))

    def section(self, record: Record) -> Section | None:
        """Return maps of both parts."""
        if record.latents is None:
            return None
        blocks = [*_map_panel(record, record.latents), *_notes(record.latents)]
        intro = (
            f"The codes of at most {MOST_POINTS:,} samples, evenly many of each client, laid flat."
        )
        return Section("maps", "Maps", intro, blocks)


def _map_panel(record: Record, latents: Mapping[str, Array]) -> list[Block]:
    colours = ["client", "label"]
    if len(set(latents["group"])) not in (1, len(set(latents["client"]))):
        colours.append("group")
    label = latents["label"]
    if not np.issubdtype(label.dtype, np.floating) and record.facts.get("class_names"):
        latents = {**latents, "label": np.array([record.class_name(int(n)) for n in label])}
    maps = code_maps(latents, record.config.seed)
    if not maps:
        return []
    points = pl.concat([m.points.with_columns(pl.lit(m.name).alias("map")) for m in maps])
    count = maps[0].points.select("client", "index", "split").unique().height
    views = [View((m.name, c), map_figure(m.points, c, m.axes)) for m in maps for c in colours]
    return [
        Panel(
            "map",
            f"Each dot is a sample ({count} of them)",
            tuple(views),
            "Coloured by client, a shared part should look mixed and a local part sorted; "
            "coloured by label, the other way round. Open marks are newcomers.",
            "A flat map drops most of the code: what looks mixed may be cleanly apart in "
            "another direction, so trust the probes. In t-SNE (perplexity 30, started from "
            "PCA) distances, sizes and gaps mean nothing, and noise has clusters too.",
            points,
            ("projection", "coloured by"),
            min_width=620,
        )
    ]


def _notes(latents: Mapping[str, Array]) -> list[Block]:
    blocks: list[Block] = []
    for part in PARTS:
        code = comparable(latents, part)
        if code.shape[1] == 0:
            blocks.append(Note(f"This run has no {part} code, so there is no map of it."))
        elif not is_alive(code):
            blocks.append(Note(f"The {part} code is the same for every sample: it is dead."))
        elif f"common_{part}" in latents:
            blocks.append(
                Note(
                    f"Clients encode the {part} part with parameters of their own, so all samples "
                    "were passed through one member's encoder: codes of different encoders have no "
                    "common axes."
                )
            )
    return blocks
