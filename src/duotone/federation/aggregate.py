"""Reductions over updates: how many versions of the shared part become one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from duotone.errors import TrainingError
from duotone.federation.robust import Rule, assumed_hostile, combined, shortage
from duotone.types import ClientUpdate, Params, ServerState


def aggregated(
    updates: Sequence[ClientUpdate], sent: Params, rule: Rule, share: float
) -> dict[str, Tensor]:
    """Make one version of the shared part out of many.

    Args:
        updates: The versions.
        sent: The shared part they started from.
        rule: How; see :mod:`duotone.federation.robust`. The mean alone minds the weights.
        share: Which share of the clients may be hostile; the mean bears none.

    Raises:
        TrainingError: There are too few clients to bear that share.
    """
    if rule == "mean":
        return weighted_mean(updates)
    if short := shortage(rule, len(updates), share):
        raise TrainingError(f"{short}; draw more with --sampled, or lower hostile.")
    return _robust(updates, sent, rule, assumed_hostile(len(updates), share))


def _robust(
    updates: Sequence[ClientUpdate], sent: Params, rule: Rule, hostile: int
) -> dict[str, Tensor]:
    """Combine all floating-point tensors as one vector per client; of integers, take the median."""
    first = updates[0].shared
    names = [name for name, tensor in first.items() if tensor.is_floating_point()]
    result = {
        name: torch.stack([update.shared[name] for update in updates]).median(0).values
        for name in first.keys() - set(names)
    }
    if names:
        vectors = torch.stack([as_vector(update.shared, names) for update in updates])
        flat = combined(rule, vectors, as_vector(sent, names), hostile)
        parts = torch.split(flat, [first[name].numel() for name in names])
        for name, part in zip(names, parts, strict=True):
            result[name] = part.reshape(first[name].shape).to(first[name].dtype)
    return {name: result[name] for name in first}


def as_vector(params: Params, names: Iterable[str]) -> Tensor:
    """Return some tensors as one long float64 vector."""
    return torch.cat([params[name].flatten().double() for name in names])


def weighted_mean(updates: Sequence[ClientUpdate]) -> dict[str, Tensor]:
    """Average the shared part of some updates by their weights, buffers included.

    The mean of BatchNorm's running statistics is taken like that of any parameter. Integer tensors
    (BatchNorm's batch counter) cannot be averaged: the largest one stands for all.

    Sums are taken in float64, so that the result does not depend on how many clients there are,
    and in the order of the updates.
    """
    total = sum(update.weight for update in updates)
    mean: dict[str, Tensor] = {}
    for name, first in updates[0].shared.items():
        # One version at a time: those of a large round are on disk.
        versions = (update.shared[name] for update in updates)
        if first.is_floating_point():
            summed = torch.zeros(first.shape, dtype=torch.float64)
            for update, version in zip(updates, versions, strict=True):
                summed.add_(version.double(), alpha=update.weight / total)
            mean[name] = summed.to(first.dtype)
        else:
            mean[name] = reduce(torch.maximum, versions)
    return mean


@dataclass(frozen=True, slots=True)
class ServerAdam:
    """FedAdam (Reddi et al., ICLR 2021, Algorithm 2): Adam on the mean change of a round.

    Attributes:
        lr: Server learning rate, η in the paper.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        tau: Degree of adaptivity, τ in the paper; also the start of the second moment, τ².
    """

    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def step(self, server: ServerState, mean: Params, buffers: Collection[str]) -> ServerState:
        """Move the server towards ``mean``; ``buffers`` are not parameters and simply follow it."""
        shared: dict[str, Tensor] = {}
        moments: dict[str, Tensor] = {}
        for name, value in mean.items():
            if name in buffers or not value.is_floating_point():
                shared[name] = value
                continue
            old = server.shared[name]
            change = value - old
            first = server.extra.get(f"adam.m/{name}", torch.zeros_like(old))
            second = server.extra.get(f"adam.v/{name}", torch.full_like(old, self.tau**2))
            first = self.beta1 * first + (1 - self.beta1) * change
            second = self.beta2 * second + (1 - self.beta2) * change.square()
            shared[name] = old + self.lr * first / (second.sqrt() + self.tau)
            moments[f"adam.m/{name}"] = first
            moments[f"adam.v/{name}"] = second
        return ServerState(shared, {**server.extra, **moments})
