"""Heads of concepts, learnt by all clients for a network that does not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from duotone.federation.local_training import train
from duotone.federation.params import stored
from duotone.federation.settings import MethodSettings
from duotone.methods.concepts.concept_layer import ConceptLinear
from duotone.networks.reading import BATCH, seen_by
from duotone.types import ClientData, Form, Params, RoundInfo


def learn_heads(
    model: nn.Module,
    layer: ConceptLinear,
    last: nn.Module,
    data: ClientData,
    settings: MethodSettings,
    info: RoundInfo,
) -> dict[str, Tensor]:
    """Train the heads on one client's samples; return them, and its samples of each concept.

    Args:
        model: The network.
        layer: Places samples among concepts, and has the heads.
        last: The network's last layer.
        data: The client's labelled samples.
        settings: Learning rate, batch size, epochs.
        info: Where in the run we are.
    """
    heads = layer.heads
    assert heads is not None
    model.eval()
    with torch.no_grad():
        parts = [seen_by(model, (layer, last), x) for x in torch.split(data.x, BATCH)]
        scores = torch.cat([output for output, _ in parts])
        hidden, features = (torch.cat([seen[i].flatten(1) for _, seen in parts]) for i in (0, 1))
        layer.fit(hidden)
        shares = layer.shares_of(hidden)
    ends = (shares.shape[1], shares.shape[1] + scores.shape[1])

    def loss(heads: nn.Module, packed: Tensor, y: Tensor) -> Tensor:
        own, before, z = packed.tensor_split(ends, dim=1)
        return functional.cross_entropy(before + heads(z, own), y)

    packed = replace(data, x=torch.cat([shares, scores, features], dim=1))
    train(heads, packed, settings, info, loss=loss, phase=f"heads {info.asking}")
    found = {"mass": shares.sum(dim=0), "weight": heads.weight, "bias": heads.bias}
    return {name: stored(tensor) for name, tensor in found.items()}


def heads_form(layer: ConceptLinear) -> dict[str, Form]:
    """Declare what :func:`learn_heads` returns."""
    assert layer.heads is not None
    return {
        "mass": Form(tuple(layer.shares.shape), layer.shares.dtype, "nonnegative"),
        "weight": Form.of(layer.heads.weight),
        "bias": Form.of(layer.heads.bias),
    }


def mean_heads(told: Sequence[Params]) -> dict[str, Tensor]:
    """Return the mean of clients' heads; for a concept, a client counts by its samples of it.

    With plain weights a head would be diluted by all who have no sample to train it with.
    """
    mass = torch.stack([own["mass"] for own in told])
    part = mass / mass.sum(dim=0).clamp_min(1e-8)
    return {
        "weight": torch.einsum("km,kmcw->mcw", part, torch.stack([own["weight"] for own in told])),
        "bias": torch.einsum("km,kmc->mc", part, torch.stack([own["bias"] for own in told])),
    }
