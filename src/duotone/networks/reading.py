"""How to read any network: its tensors, its last layer, what that is given."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.types import DataInfo

Network: TypeAlias = Callable[[DataInfo], nn.Module]
"""Builds a network from the form of the data."""
BATCH = 100
"""Samples that a network is given at once when nothing is trained: larger batches leave a CPU's
cache."""


def in_batches(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return a function of many samples, computed a batch at a time."""
    return torch.cat([function(part) for part in torch.split(x, BATCH)])


def named_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor, nn.Module]]:
    """Yield every parameter and persistent buffer with its full name and the module it is in."""
    kept = model.state_dict().keys()
    for prefix, owner in model.named_modules(remove_duplicate=False):
        tensors = [
            *owner.named_parameters(recurse=False),
            *owner.named_buffers(recurse=False),
        ]
        for name, tensor in tensors:
            full = f"{prefix}.{name}" if prefix else name
            if full in kept:
                yield full, tensor, owner


def head_name(model: nn.Module, name: str | None = None) -> str | None:
    """Return the name of a model's last layer: the one asked for, else its last linear layer.

    A model that is nothing but a linear layer is its own head, and that has no name: "".

    Raises:
        ConfigError: There is no layer of the name asked for.
    """
    modules = dict(model.named_modules())
    if name is not None and name not in modules:
        raise ConfigError(
            f"The model has no layer called {name!r}. Its layers: {', '.join(list(modules)[1:])}."
        )
    if name is not None:
        return name
    linear = [key for key, module in modules.items() if isinstance(module, nn.Linear)]
    return linear[-1] if linear else None


def find_head(model: nn.Module, name: str | None = None) -> nn.Module:
    """Return a model's last layer: the one called ``name``, else its last linear layer.

    Raises:
        ConfigError: There is no such layer.
    """
    found = head_name(model, name)
    if found is None:
        raise ConfigError(
            "The model has no linear layer, so its features cannot be found; name its last layer "
            "with --set head=NAME."
        )
    return model.get_submodule(found)


def head_inputs(model: nn.Module, head: nn.Module, x: Tensor) -> Tensor:
    """Return what a model's last layer is given for a batch."""
    return seen_by(model, (head,), x)[1][0]


def seen_by(
    model: nn.Module, layers: Sequence[nn.Module], x: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """Return a model's output for a batch, and what some of its layers are given on the way."""
    seen: dict[nn.Module, Tensor] = {}

    def note(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        seen.setdefault(layer, inputs[0])

    hooks = [layer.register_forward_pre_hook(note) for layer in layers]
    try:
        output = model(x)
    finally:
        for hook in hooks:
            hook.remove()
    if len(seen) < len(set(layers)):
        raise ConfigError(
            "The layer taken for the model's head is not used by the model; name the last layer "
            "with --set head=NAME."
        )
    return output, [seen[layer] for layer in layers]


@torch.no_grad()
def check_head(model: nn.Module, head: nn.Module, x: Tensor) -> None:
    """Make sure that a layer is a model's last one; a softmax after it does no harm.

    Raises:
        ConfigError: The layer's output is not the model's.
    """
    whole = model(x)
    try:
        ours = head(head_inputs(model, head, x))
    except (IndexError, RuntimeError, ValueError):  # it cannot even be given its own inputs
        ours = torch.empty(0)
    is_last = ours.shape == whole.shape and (
        torch.allclose(ours, whole, rtol=1e-3, atol=1e-4)
        or torch.allclose(ours.log_softmax(1), whole.log_softmax(1), rtol=1e-3, atol=1e-4)
    )
    if not is_last:
        raise ConfigError(
            "The layer taken for the model's head does not give the model's output; name the last "
            "layer with --set head=NAME."
        )


def as_network(model: nn.Module | Callable[..., nn.Module]) -> Network:
    """Turn what a user gives as a model into a network builder.

    A class or function is called with the :class:`DataInfo` if it takes an argument, without one
    otherwise. A module is copied, so every run starts from its weights.
    """
    if isinstance(model, nn.Module):
        return _Copies(model)
    return _Built(model)


class _Copies:
    """Builds copies of a module (a class, so that it can be sent to worker processes)."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __call__(self, data: DataInfo) -> nn.Module:
        return copy.deepcopy(self.module)


class _Built:
    """Calls a class or function with the form of the data, if it wants to know."""

    def __init__(self, function: Callable[..., nn.Module]) -> None:
        self.function = function

    def __call__(self, data: DataInfo) -> nn.Module:
        required = [
            parameter
            for parameter in inspect.signature(self.function).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        return self.function(data) if required else self.function()
