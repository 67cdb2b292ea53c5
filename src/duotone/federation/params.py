"""Copy, pack and unpack the named tensors that states hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from duotone.networks.reading import named_tensors
from duotone.types import Params

Parts: TypeAlias = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Shared and local tensors of a model."""


def stored(tensor: Tensor) -> Tensor:
    """Return a copy as states hold it: detached, on the CPU, in the usual memory format."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def divided(model: nn.Module, is_shared: Callable[[str, nn.Module], bool]) -> Parts:
    """Copy a model's parameters and buffers into (shared, local)."""
    shared: dict[str, Tensor] = {}
    local: dict[str, Tensor] = {}
    for name, tensor, owner in named_tensors(model):
        part = shared if is_shared(name, owner) else local
        part[name] = stored(tensor)
    return shared, local


def whole(model: nn.Module) -> dict[str, Tensor]:
    """Return copies of all parameters and buffers of a model."""
    return {name: stored(tensor) for name, tensor, _ in named_tensors(model)}


def packed(params: Params, under: str) -> dict[str, Tensor]:
    """Name some tensors ``under/name``, to keep a whole model beside other things."""
    return {f"{under}/{name}": tensor for name, tensor in params.items()}


def unpacked(params: Params, under: str) -> dict[str, Tensor]:
    """Return what :func:`packed` named."""
    start = f"{under}/"
    return {n.removeprefix(start): tensor for n, tensor in params.items() if n.startswith(start)}
