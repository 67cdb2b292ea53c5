"""Maps of the codes: up to ten thousand samples laid flat, and the samples behind the dots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array
from duotone.errors import ConfigError, DuotoneError, RunError
from duotone.explorer.asked_of import Asked, AskedMap, AskedRows
from duotone.explorer.explored import Explored
from duotone.explorer.shown import shown_samples
from duotone.measures.codes import PARTS, comparable, is_alive
from duotone.measures.inks import natural
from duotone.measures.maps import (
    FEWEST_FOR_TSNE,
    choose_rows,
    project_pca,
    project_tsne,
)
from duotone.partition.partition import Rows

MOST_DOTS = 10_000
_MOST_VALUES = 40


def pca_map(explored: Explored, asked: AskedMap) -> dict[str, Any]:
    """Return where samples lie on the two directions of most variance of one part of their codes.

    Raises:
        RunError: The run keeps no codes, or those of this part are absent or dead.
    """

    def make() -> dict[str, Any]:
        latents, code = explored.run.latents, _living_code(explored, asked)
        rows = choose_rows(latents["client"], explored.run.config.seed, MOST_DOTS)
        places, shares = project_pca(code[rows])
        return _map(rows, places, f"two directions of most variance: {shares.sum():.0%} of it")

    return explored.once(("pca", asked.part), make)


def tsne_map(explored: Explored, asked: AskedMap) -> dict[str, Any]:
    """Return where some samples lie by t-SNE, which takes seconds; they are those of the report.

    Raises:
        RunError: As for :func:`pca_map`, or there are too few samples.
    """

    def make() -> dict[str, Any]:
        seed, code = explored.run.config.seed, _living_code(explored, asked)
        rows = choose_rows(explored.run.latents["client"], seed)
        if len(rows) < FEWEST_FOR_TSNE:
            raise RunError(f"t-SNE needs {FEWEST_FOR_TSNE} samples; the run keeps {len(rows)}.")
        return _map(rows, project_tsne(code[rows], seed), "t-SNE has no units")

    return explored.once(("tsne", asked.part), make)


def _living_code(explored: Explored, asked: AskedMap) -> NDArray[np.float64]:
    code = comparable(explored.run.latents, asked.part)
    why = _why_no_map(code, asked.part)
    if why is not None:
        raise RunError(why)
    return code


def _why_no_map(code: NDArray[np.float64], part: str) -> str | None:
    if is_alive(code):
        return None
    if not code.shape[1]:
        return f"This run has no {part} code, so there is no map of it."
    return f"The {part} code is the same for every sample of this run, so there is no map of it."


def _map(rows: Rows, places: NDArray[np.float64], axes: str) -> dict[str, Any]:
    x, y = (_rounded(places[:, column]) for column in (0, 1))
    return {"rows": rows.tolist(), "x": x, "y": y, "axes": axes}


def _rounded(values: NDArray[np.float64]) -> list[float]:
    """Return places on a screen: four digits are more than it has."""
    scale = float(np.abs(values).max()) or 1.0
    return [round(float(value) / scale, 5) for value in values]


def map_colours(explored: Explored, asked: Asked) -> dict[str, Any]:
    """Return what dots can be coloured by, a value for each kept sample, and which maps exist."""
    latents = explored.run.latents
    names = explored.run.folder.class_names()
    found = []
    for name in ("client", "label", "group", "split", "kind", *_factors(latents)):
        values = latents[name]
        if name == "label" and names and not np.issubdtype(values.dtype, np.floating):
            values = np.array([names[int(v)] if v >= 0 else "unknown" for v in values])
        found.append(_colour(name.removeprefix("factor_"), values))
    missing = {part: _why_no_map(comparable(latents, part), part) for part in PARTS}
    return {"colours": [colour for colour in found if colour is not None], "missing": missing}


def _factors(latents: Mapping[str, Array]) -> list[str]:
    return [name for name in latents if name.startswith("factor_")]


def _colour(name: str, values: Array) -> dict[str, Any] | None:
    """Return names with a number for each sample, or a scale; ``None`` if all are alike."""
    if np.issubdtype(values.dtype, np.floating):
        if not np.isfinite(values).any() or np.ptp(values[np.isfinite(values)]) == 0:
            return None
        finite = [round(float(v), 4) if np.isfinite(v) else None for v in values]
        return {"name": name, "names": None, "values": finite}
    texts = values.astype(str)
    names = sorted(set(texts.tolist()), key=natural)
    if len(names) < 2:
        return None
    place = {text: number for number, text in enumerate(names)}
    return {"name": name, "names": names, "values": [place[text] for text in texts.tolist()]}


def correctness(explored: Explored, asked: Asked) -> dict[str, Any]:
    """Return whether each kept sample is answered rightly by its client.

    Raises:
        RunError: The samples are not at hand.
        ConfigError: The run predicts numbers.
    """
    return explored.once("correctness", lambda: _correctness(explored))


def _correctness(explored: Explored) -> dict[str, Any]:
    latents, population = explored.run.latents, explored.population()
    if population.info.task != "classes":
        raise ConfigError("The run predicts numbers, which are not simply right or wrong.")
    found = np.full(len(latents["client"]), 2)
    for name in explored.names:
        for split in ("train", "test"):
            own = np.flatnonzero((latents["client"] == name) & (latents["split"] == split))
            if not len(own):
                continue
            data = population.data(name, split).first(len(own))
            try:
                said = explored.thorough.client(name).scores_from(data.x).argmax(dim=1)
            except DuotoneError:  # one client's model may be broken
                continue
            found[own] = (said == data.labels).numpy().astype(int)
    names = ["wrong", "right", "unknown"]
    return {"name": "correctness", "names": names, "values": found.tolist()}


def tiles(explored: Explored, asked: AskedRows) -> dict[str, Any]:
    """Return the samples behind some dots.

    Raises:
        ConfigError: There is no such row.
    """
    latents = explored.run.latents
    count = len(latents["client"])
    if any(row >= count for row in asked.rows):
        raise ConfigError(f"The run keeps the codes of samples 0 to {count - 1}.")
    places = explored.once("places", lambda: _places(latents))
    pictures: list[str | None] = [None] * len(asked.rows)
    if explored.has_data() and asked.rows:
        samples = explored.samples_at(latents["index"][list(asked.rows)])
        pictures = shown_samples(samples, explored.population().info)
    found = []
    for row, picture in zip(asked.rows, pictures, strict=True):
        name, split = str(latents["client"][row]), str(latents["split"][row])
        label = _label(explored, latents, row)
        entry = {"row": row, "client": name, "split": split, "sample": int(places[row])}
        found.append(entry | {"label": label, "picture": picture})
    return {"tiles": found}


def _label(explored: Explored, latents: Mapping[str, Array], row: int) -> str:
    label, names = latents["label"][row], explored.run.folder.class_names()
    if np.issubdtype(latents["label"].dtype, np.floating):
        return f"{float(label):.4g}"
    return names[int(label)] if names and label >= 0 else str(label)


def _places(latents: Mapping[str, Array]) -> Rows:
    """Return each sample's place among those of its client and split: codes keep their order."""
    seen: dict[tuple[str, str], int] = {}
    found = np.zeros(len(latents["client"]), np.int64)
    pairs = zip(latents["client"].tolist(), latents["split"].tolist(), strict=True)
    for row, pair in enumerate(pairs):
        found[row] = seen.get(pair, 0)
        seen[pair] = int(found[row]) + 1
    return found
