"""Flat maps of the codes: a few samples of every client, projected by PCA and by t-SNE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from duotone.data.dataset import Array
from duotone.partition.partition import Rows
from duotone.seeding import derive, stream

MOST_POINTS = 1000
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


def comparable(latents: Mapping[str, Array], part: str) -> NDArray[np.float64]:
    """Return the codes of a part that can be compared across clients."""
    code = latents.get(f"common_{part}", latents.get(part))
    found = np.zeros((len(latents["client"]), 0)) if code is None else code
    return np.asarray(found, np.float64).reshape(len(found), -1)


def is_alive(code: NDArray[np.float64]) -> bool:
    """Say whether a code exists, is finite, and differs between samples."""
    return code.size > 0 and bool(np.isfinite(code).all()) and float(np.ptp(code, axis=0).max()) > 0


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
