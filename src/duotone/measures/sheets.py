"""Sheets to look at: what is drawn from codes, from random draws, and from another's samples.

A sheet is a grid of images, ``(rows, columns, height, width, channels)`` in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import torch

from duotone.federation.method import Method
from duotone.federation.protocols import Decodes
from duotone.measures.decoding import SAMPLES, Codes, Holder, choose_holders, decode_codes
from duotone.measures.drawing import GRID, SampleJob, Samples
from duotone.measures.generated import GenerationResult
from duotone.measures.judges import styles_of
from duotone.measures.measure import Scene
from duotone.measures.sheet import Images, Sheet, pixels
from duotone.measures.stylists import Stylist, drawn_as, originals_of
from duotone.partition.partition import Population
from duotone.types import DataInfo

Client = TypeVar("Client", bound=Holder | Stylist)

_CLIENTS = 5
_STEPS = 9
_MOST_DIMENSIONS = 8


def draw_sheets(method: Decodes, holders: Sequence[Holder], population: Population) -> list[Sheet]:
    """Draw all sheets of a run: the swap sheet, and a manifold and traversals of two clients."""
    shown = _shown(holders)
    sheets = [swap_sheet(method, shown, population)]
    for number, holder in enumerate(shown[:2]):
        who = f"{holder.role} {holder.client} ({holder.style})"
        sheets.append(traversal_sheet(method, holder, population.info, f"traversal-{number}", who))
        sheets.append(manifold_sheet(method, holder, population.info, f"manifold-{number}", who))
    return sheets


def swap_sheet(method: Decodes, shown: Sequence[Holder], population: Population) -> Sheet:
    """Draw one sample per client in everybody's style.

    The first row and the first column are real samples; at ``[1 + a, 1 + b]`` stands the shared
    code of a's sample with the local code of b's, drawn by b. Reconstructions are on the diagonal.
    """
    places = _different([holder.truth["label"].tolist() for holder in shown])
    shared = np.stack([holder.shared[place] for holder, place in zip(shown, places, strict=True)])
    originals: list[Images] = []
    columns: list[Images] = []
    for holder, place in zip(shown, places, strict=True):
        x = population.data(holder.client, "test").x
        originals.append(pixels(x[place : place + 1])[0])
        model = method.load(holder.params, population.info).eval()
        local = np.tile(holder.local[place], (len(shown), 1))
        columns.append(pixels(decode_codes(method, model, shared, local)))
    names = ", ".join(f"{holder.client} ({holder.style})" for holder in shown)
    return Sheet(
        "swaps",
        "swaps",
        "Everybody's content in everybody's style",
        "The first row and the first column are real samples. Along a row the content should stay, "
        f"down a column the style. Clients in order: {names}.",
        "A decoder of the client's own draws its style even if the local code is dead; the scores "
        "beside this sheet tell the two apart. One sample per client is an anecdote.",
        _crossed(originals, columns),
        heads=(1, 1),
    )


def traversal_sheet(method: Decodes, holder: Holder, info: DataInfo, name: str, who: str) -> Sheet:
    """Draw a sample while one dimension after the other goes from low to high.

    Each row is a dimension, those that vary most first; low and high are the 5th and the 95th
    percentile among the client's codes.
    """
    rows: list[tuple[Codes, Codes]] = []
    counts: list[int] = []
    for part in ("shared", "local"):
        codes: Codes = getattr(holder, part)
        most = np.argsort(-codes.std(axis=0), kind="stable")[:_MOST_DIMENSIONS]
        counts.append(len(most))
        for dimension in most:
            low, high = np.percentile(codes[:, dimension], [5, 95])
            both = {p: np.tile(getattr(holder, p)[0], (_STEPS, 1)) for p in ("shared", "local")}
            both[part][:, dimension] = np.linspace(low, high, _STEPS)
            rows.append((both["shared"], both["local"]))
    model = method.load(holder.params, info).eval()
    tiles = [pixels(decode_codes(method, model, *codes)) for codes in rows]
    return Sheet(
        name,
        "traversals",
        f"One dimension at a time, {who}",
        f"The first {counts[0]} rows move the shared code, the last {counts[1]} the local one. "
        "Content should change in the first and style in the last, never the other way round.",
        "One sample, and dimensions one by one: what two dimensions do together is not seen.",
        np.stack(tiles),
    )


def manifold_sheet(method: Decodes, holder: Holder, info: DataInfo, name: str, who: str) -> Sheet:
    """Draw the plane in which the shared code goes down and the local code to the right.

    The shared code goes along the direction in which the client's codes vary most. The local code
    goes once around its own codes: they often lie on a ring, with nothing in its middle. With one
    dimension per part this is the whole manifold.
    """
    down, right = _main_line(holder.shared), _around(holder.local)
    shared, local = np.repeat(down, _STEPS, axis=0), np.tile(right, (_STEPS, 1))
    model = method.load(holder.params, info).eval()
    tiles = pixels(decode_codes(method, model, shared, local))
    return Sheet(
        name,
        "manifolds",
        f"Shared code downwards, local code to the right, {who}",
        "Rows should differ in content and columns in style. The local codes are some of the "
        "client's own, in the order in which they lie around their middle.",
        "One direction out of many for the shared code; at its ends there may be nothing real.",
        tiles.reshape(_STEPS, _STEPS, *tiles.shape[1:]),
    )


def generation_sheets(
    found: GenerationResult, population: Population, *, conditional: bool
) -> list[Sheet]:
    """Draw all clients' samples beside each other, and for some clients every pair of draws.

    Args:
        found: What was generated.
        population: Every client's real samples, of which one stands at the head of its row.
        conditional: Whether labels were asked for, one after the other.
    """
    rows = [_row(population, client, samples["row"]) for client, samples in found.samples.items()]
    names = ", ".join(f"{item['client']} ({item['style']})" for item in found.clients)
    labels = " and the same label is asked for" if conditional else ""
    sheets = [
        Sheet(
            "samples",
            "samples",
            "The same draws at every client",
            "A row is a client; the first column is a real sample of it. In each other column all "
            f"clients generate from the same draw{labels}, so down a column the content should "
            f"stay, along a row the style. Clients in order: {names}.",
            "Ten draws are an anecdote; the scores have hundreds.",
            np.stack(rows),
            heads=(0, 1),
        )
    ]
    together = "content and label" if conditional else "content"
    shown = [item for item in found.clients if item["kind"] == "member"][: _CLIENTS - 1]
    shown += [item for item in found.clients if item["kind"] == "newcomer"][:1]
    for number, item in enumerate(shown):
        grid = pixels(torch.from_numpy(found.samples[item["client"]]["grid"]))
        sheets.append(
            Sheet(
                f"samples-{number}",
                "samples",
                f"Every content in every style: {item['kind']} {item['client']} ({item['style']})",
                f"Along a row the draw of {together} stays and the draw of style changes; down a "
                "column the style stays. Equal columns mean that the draw of style does nothing.",
                "A client has one style on the whole; the draw of style only moves within it.",
                grid.reshape(GRID, GRID, *grid.shape[1:]),
            )
        )
    return sheets


def sample_tiles(scene: Scene) -> Images:
    """Draw what some members make of the same draws, one row each behind a real sample."""
    population = scene.population
    chosen = choose_holders(population.partition, styles_of(population.partition), 0)
    members = [client for client in chosen if population.partition[client].role == "member"]
    drawn = scene.ask(SampleJob(scene.serving), members)
    return np.stack([_row(population, client, samples) for client, samples in drawn.items()])


def _row(population: Population, client: str, samples: Samples) -> Images:
    real = pixels(population.data(client).x[:1])
    return np.concatenate([real, pixels(torch.from_numpy(samples))])


def restyle_sheet(
    method: Method, stylists: Sequence[Stylist], population: Population, seed: int
) -> Sheet:
    """Draw one test sample per client as everybody else would have it.

    The first row and the first column are real samples; at ``[1 + a, 1 + b]`` stands a's sample in
    the style of b.
    """
    shown = _shown(stylists)
    labels = {one.client: population.data(one.client, "test").labels for one in shown}
    places = _different([labels[one.client].tolist() for one in shown])
    originals = [
        pixels(originals_of(one, population, "test")[place : place + 1])[0]
        for one, place in zip(shown, places, strict=True)
    ]
    columns: list[Images] = []
    for target in shown:
        model = method.load(target.params, population.info).eval()
        drawn = [drawn_as(method, model, one, target, "test", seed) for one in shown]
        chosen = [x[place] for x, place in zip(drawn, places, strict=True)]
        columns.append(pixels(torch.stack(chosen)))
    names = ", ".join(f"{one.client} ({population.partition[one.client].group})" for one in shown)
    return Sheet(
        "restyled",
        "restyled",
        "Everybody's samples in everybody's style",
        "The first row and the first column are real samples that training has not seen. Along a "
        f"row the content should stay, down a column the style. Clients in order: {names}.",
        "What looks like the target's can still give its source away: the scores of attackers "
        "tell. One sample per client is an anecdote.",
        _crossed(originals, columns),
        heads=(1, 1),
    )


def _different(labels: Sequence[Sequence[float]]) -> list[int]:
    """Return for each client the place of a sample whose label is not shown yet, if it has one."""
    places: list[int] = []
    shown: set[float] = set()
    for own in labels:
        fresh = [place for place, label in enumerate(own[:SAMPLES]) if label not in shown]
        places.append(fresh[0] if fresh else 0)
        shown.add(own[places[-1]])
    return places


def _crossed(originals: Sequence[Images], columns: Sequence[Images]) -> Images:
    """Return columns of images with originals above and before them."""
    corner = np.full_like(originals[0], 255)
    rows = [np.stack([corner, *originals])]
    rows += [
        np.stack([original, *row])
        for original, row in zip(originals, np.stack(columns, axis=1), strict=True)
    ]
    return np.stack(rows)


def _main_line(codes: Codes) -> Codes:
    """Return steps along the direction of most variance, two standard deviations both ways."""
    mean = codes.mean(axis=0)
    _, scales, directions = np.linalg.svd(codes - mean, full_matrices=False)
    std = scales[0] / np.sqrt(len(codes))
    # Singular vectors have no sign of their own; the largest entry is made positive.
    direction = directions[0] * np.sign(directions[0][np.abs(directions[0]).argmax()])
    steps = np.linspace(-2, 2, _STEPS)[:, np.newaxis]
    line: Codes = (mean + steps * std * direction).astype(np.float32)
    return line


def _around(codes: Codes) -> Codes:
    """Return some of the codes, in the order of their angle in the plane of most variance."""
    centred = codes - codes.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    plane = centred @ directions[:2].T
    place = np.arctan2(plane[:, -1], plane[:, 0]) if plane.shape[1] > 1 else plane[:, 0]
    order = np.argsort(place, kind="stable")
    walk: Codes = codes[order[np.linspace(0, len(codes) - 1, _STEPS).round().astype(int)]]
    return walk


def _shown(holders: Sequence[Client]) -> list[Client]:
    """Return a few members, the last place being a newcomer's where there is one."""
    newest: list[Client] = [holder for holder in holders if holder.role == "newcomer"][:1]
    others: list[Client] = [holder for holder in holders if holder.role == "member"]
    return [*others[: _CLIENTS - len(newest)], *newest]
