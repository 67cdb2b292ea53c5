"""The federation: what all answers are made of, and where clients lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duotone.errors import DuotoneError
from duotone.explain import federation_card
from duotone.explain.portrait import concept_weights
from duotone.explorer.asked_of import Asked
from duotone.explorer.explored import Explored
from duotone.explorer.shown import shown_samples
from duotone.measures.codes import comparable, is_alive
from duotone.measures.maps import project_pca
from duotone.runs import Run

_MOST_THUMBNAILS = 200


def federation(explored: Explored, asked: Asked) -> dict[str, Any]:
    """Return the federation's card and maps of its clients, from the run folder alone."""
    try:
        card: dict[str, Any] | None = federation_card(explored.run).as_json()
        note = None
    except DuotoneError as error:
        card, note = None, str(error)
    return {"card": card, "note": note, "maps": _maps(explored)}


def thumbnails(explored: Explored, asked: Asked) -> dict[str, Any]:
    """Return a test sample of each client, if they are images and at hand."""
    info = explored.quick.opened.info
    if not info.is_image:
        return {"pictures": {}}
    found: dict[str, str | None] = {}
    for name in explored.names[:_MOST_THUMBNAILS]:
        try:
            first = explored.samples_at(explored.test_rows(name)[:1])
        except DuotoneError:
            continue
        found[name] = shown_samples(first, info)[0]
    return {"pictures": found}


def _maps(explored: Explored) -> list[dict[str, Any]]:
    """Return the maps on which clients differ, and last those on which they do not."""
    run = explored.run
    found: list[tuple[str, str, dict[str, tuple[float, float]]]] = []
    table = explored.quick.table
    if table is not None:
        words = "Clients that lie together say the same of the same samples."
        found.append(("answers", words, table.places))
    if (run.path / "latents.npz").exists():
        found += _code_maps(run)
    weights = _concept_rows(run)
    if weights:
        words = "Clients that lie together are made of the same concepts."
        found.append(("concepts", words, _laid_flat(weights)))
    maps = [
        {"by": by, "words": words, "places": places, "is_flat": _is_flat(places)}
        for by, words, places in found
    ]
    return sorted(maps, key=lambda one: bool(one["is_flat"]))


def _code_maps(run: Run) -> list[tuple[str, str, dict[str, tuple[float, float]]]]:
    latents = run.latents
    clients = latents["client"]
    names = list(dict.fromkeys(clients.tolist()))
    found = []
    for part in ("local", "shared"):
        code = comparable(latents, part)
        if is_alive(code):
            means = {name: code[clients == name].mean(axis=0) for name in names}
            words = f"Clients that lie together have like mean {part} codes."
            found.append((f"{part} codes", words, _laid_flat(means)))
    return found


def _concept_rows(run: Run) -> dict[str, NDArray[np.float64]]:
    """Return the clients' weights of concepts, a row for each client."""
    weights = concept_weights(run)
    clients = list(dict.fromkeys(name for own in weights.values() for name in own))
    return {name: np.array([own.get(name, 0.0) for own in weights.values()]) for name in clients}


def _laid_flat(rows: Mapping[str, NDArray[np.float64]]) -> dict[str, tuple[float, float]]:
    if len(rows) < 2:
        return dict.fromkeys(rows, (0.0, 0.0))
    places, _ = project_pca(np.stack(list(rows.values())))
    return {name: (float(x), float(y)) for name, (x, y) in zip(rows, places, strict=True)}


def _is_flat(places: Mapping[str, tuple[float, float]]) -> bool:
    """Say whether all clients lie in one place."""
    return not places or float(np.ptp(np.array(list(places.values())), axis=0).max()) < 1e-4
