"""Shares of the classes: what a client that adjusts itself to its inputs expects of its samples.

Members may vote to shift the last layer's bias by log(share / share in training). The shares that
a client estimated are read off its bias, and other shares are another shift of its scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from duotone.errors import ConfigError
from duotone.explorer.explored import Explored
from duotone.explorer.moving import FloatArray
from duotone.federation.personalise import bias_name, shifted_bias
from duotone.runs.client import Client
from duotone.runs.last_round import last_election

_LEAST = 1e-3
"""The least share: a class that has none could never be answered."""


def has_class_shares(explored: Explored) -> bool:
    """Say whether clients of a run adjust themselves to shares of the classes."""
    with explored.run.folder.reading("last") as committed:
        elected = last_election(committed)
        is_shared = bias_name(explored.quick.opened.method) in committed.server().shared
    # Where the last layer is a client's own, nobody knows what its bias was before the shift.
    return elected is not None and elected.chosen.way == "prior" and is_shared


def class_shares(explored: Explored, name: str) -> FloatArray | None:
    """Return the shares of the classes that a client estimated; ``None`` if it does not."""

    def make() -> FloatArray | None:
        if not has_class_shares(explored):
            return None
        client = explored.client(name)
        bias = bias_name(client.method)
        with explored.run.folder.reading("last") as committed:
            elected, before = last_election(committed), committed.server().shared[bias]
        assert elected is not None
        shift = (client.params[bias].cpu().double() - before.cpu().double()).numpy()
        return _summing_to_one(np.array(elected.chosen.shares) * np.exp(shift))

    return explored.once(("class shares", name), make)


def share_sliders(explored: Explored, name: str) -> list[dict[str, Any]]:
    """Return a slider for each class, as it stands for a client; none without shares."""
    shares = class_shares(explored, name)
    if shares is None:
        return []
    names = explored.client(name).class_names
    return [
        {"name": words, "low": 0.0, "high": 1.0, "place": round(float(share), 4)}
        for words, share in zip(names, shares, strict=True)
    ]


def with_shares(
    explored: Explored, client: Client, scores: Tensor, places: tuple[float, ...] | None
) -> Tensor:
    """Return a client's scores as if it expected other shares of the classes.

    Args:
        explored: The run.
        client: Whose scores they are.
        scores: ``(samples, classes)``, with the shares that the client estimated.
        places: Where the sliders stand, brought to a sum of one; ``None`` leaves them.

    Raises:
        ConfigError: There are not as many places as classes, or one of them is negative.
    """
    own = class_shares(explored, client.name)
    if places is None:
        return scores
    if own is None or len(places) != len(own):
        count = 0 if own is None else len(own)
        raise ConfigError(f"There are {count} class shares. Got {len(places)}.")
    if min(places) < 0:
        raise ConfigError(f"Class shares are not negative. Got {min(places):g}.")
    new = _summing_to_one(np.array(places))
    return shifted_bias(scores.double(), torch.from_numpy(new), torch.from_numpy(own))


def _summing_to_one(shares: FloatArray) -> FloatArray:
    if not shares.any():  # nothing is expected of any class: all are alike
        shares = np.ones(len(shares))
    raised = np.maximum(shares / shares.sum(), _LEAST)
    return np.asarray(raised / raised.sum(), np.float64)
