"""Find concepts in a trained network from members' statistics: moments first, then sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import torch
from torch import Tensor
from torch.nn import functional

from duotone.methods.concepts.chance import LEVEL, by_chance
from duotone.methods.concepts.concept_layer import ConceptLinear
from duotone.methods.concepts.mixture import (
    Sums,
    best_sharpness,
    discriminant_space,
    first_centres,
    mean_places,
    monitors,
    sums_of,
    total,
)
from duotone.methods.concepts.moments import Moments, pooled
from duotone.seeding import stream
from duotone.types import ClientUpdate, RoundInfo, ServerState

MOST = 16
"""Dimensions of the space of concepts; those beyond the rank are zero."""


def with_first_concepts(
    server: ServerState,
    layer: str,
    collected: Sequence[ClientUpdate],
    info: RoundInfo,
    dimensions: int | None,
    concepts: int | None,
) -> ServerState:
    """Return the server's state with a space of concepts, and concepts to start EM from.

    Members sent moments. If these differ by no more than chance there are no concepts, unless the
    user asked for some: a number of ``dimensions``, or of ``concepts``, by default one more.
    """
    told = [Moments.of_update(update) for update in collected]
    scatter = pooled(told)
    chance = by_chance(scatter, told, stream(info.seed, "chance", info.round))
    server = ServerState(server.shared, {**server.extra, "chance": torch.tensor(chance)})
    if chance > LEVEL and not (dimensions or concepts):
        return server
    inward, placed = discriminant_space(scatter, told, dimensions, MOST)
    count = concepts or len(inward) + 1
    centres = first_centres(placed, count, stream(info.seed, "concepts"))
    projection = _padded(inward, MOST, inward.shape[1])
    found = {
        "projection": projection,
        "projection_bias": -(projection @ scatter.mean),
        "centres": _padded(centres, MOST + 1, MOST),
        "sharpness": torch.tensor(0.5, dtype=torch.float64),  # spread inside clients is one
        "shares": _padded(torch.full((count, 1), 1 / count).double(), MOST + 1, 1)[:, 0],
    }
    return with_tensors(server, layer, found)


@torch.no_grad()
def sums_over_concepts(layer: ConceptLinear, hidden: Tensor) -> Sums:
    """Return what a client sends in a pass of EM, from its hidden vectors."""
    places = layer.places(hidden).double()
    return sums_of(places, layer.centres.double(), layer.sharpness.double(), layer.shares > 0)


def with_new_sums(
    server: ServerState, layer: str, collected: Sequence[ClientUpdate], *, moves: bool
) -> ServerState:
    """Return the server's state after a pass of EM, in which members sent sums.

    If nothing ``moves``, concepts stay where training put them.
    """
    told = [Sums.of_extra(update.weight, update.extra) for update in collected]
    centres = server.shared[f"{layer}.centres"].double()
    worth = monitors(told, centres)
    together = total(told)
    found = {"shares": together.mass / together.count}
    if moves:
        found["centres"] = mean_places(together.mass, together.places, centres)
        rank = int(server.shared[f"{layer}.projection"].any(dim=1).sum())
        found["sharpness"] = best_sharpness(together, found["centres"][:, :rank])
    extra = {name: torch.tensor(value) for name, value in asdict(worth).items()}
    new = with_tensors(server, layer, found)
    return ServerState(new.shared, {**new.extra, **extra})


def with_tensors(server: ServerState, layer: str, found: Mapping[str, Tensor]) -> ServerState:
    """Return the server's state with some new tensors of a layer."""
    new = {
        f"{layer}.{key}": tensor.to(server.shared[f"{layer}.{key}"].dtype)
        for key, tensor in found.items()
    }
    return ServerState({**server.shared, **new}, server.extra)


def _padded(values: Tensor, height: int, width: int) -> Tensor:
    """Return a matrix with rows and columns of zeros added, up to a fixed size."""
    more = (0, width - values.shape[1], 0, height - values.shape[0])
    return functional.pad(values, more)
