"""Read a hidden layer: what the linear layer after it is given."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.networks.reading import head_inputs, in_batches


def layer_after(model: nn.Module, wanted: str | None) -> str:
    """Return the name of the linear layer after a hidden one, which is given the hidden vectors.

    Args:
        model: The network.
        wanted: The hidden layer; by default the first linear one that is not the last.

    Raises:
        ConfigError: There is no such layer, or nothing linear after it.
    """
    modules: dict[str, nn.Module] = dict(model.named_modules())
    linear = [name for name, module in modules.items() if isinstance(module, nn.Linear)]
    if not linear or linear == [""]:
        raise ConfigError(
            "The model has no hidden layer before a linear one, and the method needs one to read; "
            "take another model: --model mlp"
        )
    if wanted is None:
        return linear[min(1, len(linear) - 1)]
    names = list(modules)
    if wanted not in names:
        raise ConfigError(
            f"The model has no layer called {wanted!r}. Its layers: {', '.join(names[1:])}."
        )
    after = [name for name in linear if names.index(name) > names.index(wanted)]
    if not after:
        raise ConfigError(
            f"No linear layer comes after {wanted!r}, so its output is not read; name an "
            "earlier layer."
        )
    return after[0]


def replace_layer(model: nn.Module, name: str, new: nn.Module) -> None:
    """Put another layer in the place of the one called ``name``."""
    parent, _, own = name.rpartition(".")
    setattr(model.get_submodule(parent), own, new)


@torch.no_grad()
def hidden_vectors(model: nn.Module, layer: nn.Module, x: Tensor) -> Tensor:
    """Return what a layer is given for all samples, one vector per row, in evaluation mode."""
    model.eval()
    return in_batches(lambda part: head_inputs(model, layer, part).flatten(1), x)
