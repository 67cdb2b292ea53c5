"""Look at every update before it is averaged; refuse a bad one and say whose it was."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from duotone.types import ClientUpdate, Params


def refusal(update: ClientUpdate, sent: Params, *, max_norm: float | None = None) -> str | None:
    """Return why ``update`` must not be averaged, or ``None`` if it may.

    Args:
        update: What a client sent.
        sent: The shared part it was sent before training; an honest update has the same form.
        max_norm: Largest allowed Euclidean distance between the two, if bounded.
    """
    if not (math.isfinite(update.weight) and update.weight > 0):
        return f"its weight is {update.weight}"
    if update.shared and not sent:
        return "it names a model that was not sent"
    form = _form_problem(update.shared, sent)
    if form:
        return form
    for name, tensor in (*update.shared.items(), *update.extra.items()):
        if tensor.is_floating_point() and not _all_finite(tensor):
            return f"{name} holds NaN or infinite values"
    if max_norm is not None:
        norm = distance(update.shared, sent)
        if norm > max_norm:
            return f"it moved by {norm:.3g}, more than the allowed {max_norm:g}"
    return None


def _all_finite(tensor: Tensor) -> bool:
    # A finite sum has finite terms and is far cheaper to take; the reverse may fail by overflow.
    return bool(torch.isfinite(tensor.sum()) or torch.isfinite(tensor).all())


def distance(a: Params, b: Params) -> float:
    """Return the Euclidean distance over all floating-point tensors."""
    squares = [
        (a[name].double() - tensor.double()).square().sum()
        for name, tensor in b.items()
        if tensor.is_floating_point()
    ]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0


def _form_problem(given: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> str | None:
    missing = expected.keys() - given.keys()
    if missing:
        return f"it lacks {sorted(missing)[0]}"
    unknown = given.keys() - expected.keys()
    if unknown:
        return f"it has an unexpected {sorted(unknown)[0]}"
    for name, tensor in expected.items():
        if given[name].shape != tensor.shape:
            return f"{name} has shape {tuple(given[name].shape)}, not {tuple(tensor.shape)}"
        if given[name].dtype != tensor.dtype:
            return f"{name} is {given[name].dtype}, not {tensor.dtype}"
    return None
