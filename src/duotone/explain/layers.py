"""The layers in which two clients differ, and what exchanging them does to one answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from duotone.explain.shapley import MOST_PLAYERS, faithfulness, shapley
from duotone.federation.backends.serial import one_thread
from duotone.measures.decomposition import FloatArray
from duotone.runs.client import Client
from duotone.types import Params

_ALONE, _REST = 0.8, 0.2
"""What a layer must do of the whole difference to be named alone, and what others may do."""
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


@dataclass(frozen=True, slots=True)
class LayerShares:
    """How much of a difference is due to each layer.

    Attributes:
        names: The layers, in the order of the network.
        values: Their Shapley values.
        total: The whole difference; the sum of the values.
        faithfulness: See :func:`duotone.explain.shapley.faithfulness`.
        passes: How many networks were tried.
        alone: The difference if the largest layer alone is exchanged.
        others: The difference if all others are.
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    total: float
    faithfulness: float
    passes: int
    alone: float
    others: float

    @property
    def largest(self) -> str:
        """The layer that did most towards the whole difference."""
        return self.names[_largest(self.values, self.total)]

    @property
    def is_one_layers_doing(self) -> bool:
        """Whether one layer does it by itself, and the others do not, so that it may be named."""
        if not self.total:
            return False
        return self.alone / self.total >= _ALONE and self.others / self.total <= _REST


def _largest(values: Sequence[float], total: float) -> int:
    return int(np.argmax((1 if total >= 0 else -1) * np.array(values)))


def differing_tensors(first: Params, *others: Params) -> list[str]:
    """Return the tensors in which a model differs from any of some others.

    Counters say nothing of an answer and are passed over.
    """
    return [
        name
        for name, tensor in first.items()
        if (tensor.is_floating_point() or tensor.dtype == torch.bool)
        and any(not torch.equal(tensor, other[name]) for other in others)
    ]


def as_layers(names: Sequence[str], most: int = MOST_PLAYERS) -> dict[str, tuple[str, ...]]:
    """Return tensors by the layer they are in; if there are too many, neighbours are put together.

    >>> as_layers(["norm1.weight", "norm1.bias", "head.weight"])
    {'norm1': ('norm1.weight', 'norm1.bias'), 'head': ('head.weight',)}
    """
    layers: dict[str, list[str]] = {}
    for name in names:
        layers.setdefault(name.rpartition(".")[0] or name, []).append(name)
    stretches = [list(layers)[i : i + 1] for i in range(len(layers))]
    if len(layers) > most:
        places = [len(layers) * i // most for i in range(most + 1)]
        stretches = [list(layers)[a:b] for a, b in itertools.pairwise(places)]
    return {
        own[0] if len(own) == 1 else f"{own[0]} … {own[-1]}": tuple(
            tensor for layer in own for tensor in layers[layer]
        )
        for own in stretches
    }


def local_layers(client: Client, others: Sequence[Params]) -> dict[str, tuple[str, ...]]:
    """Return the layers in which a client differs from any of some models, in network order."""
    places = {name: place for place, name in enumerate(client.model().state_dict())}
    return as_layers(sorted(differing_tensors(client.params, *others), key=places.__getitem__))


def exchange_values(
    client: Client,
    x: Tensor,
    other: Params,
    layers: Mapping[str, Sequence[str]],
    worth: Callable[[Tensor], float],
) -> FloatArray:
    """Return what an answer is worth for every set of layers that are taken from ``other``.

    Args:
        client: Whose model it is without any exchange.
        x: One sample, as a network sees it.
        other: The parameters of the model that layers come from.
        layers: The layers and their tensors.
        worth: Says what scores ``(1, outputs)`` are worth.

    Returns:
        ``(2ⁿ,)``; layer p is exchanged where bit p of the place is set.
    """
    network = client.model()
    state = network.state_dict()
    own = {name: state[name].clone() for names in layers.values() for name in names}
    tensors = list(layers.values())
    found = np.empty(1 << len(tensors))
    place = 0
    with torch.inference_mode(), one_thread():
        for step in range(len(found)):
            if step:  # Gray's order: one layer changes at a time
                player = (step & -step).bit_length() - 1
                place ^= 1 << player
                source = other if place >> player & 1 else own
                for name in tensors[player]:
                    state[name].copy_(source[name])
            scores = client.method.predict(network, x.to(client.method.device))
            found[place] = worth(scores.double().cpu())
    return found


def layer_shares(
    client: Client, x: Tensor, others: Sequence[Params], worth: Callable[[Tensor], float]
) -> LayerShares | None:
    """Return which layers make an answer differ from that of some other models, on average.

    The values add up to the mean worth of the others' answers less that of the client's. ``None``
    if fewer than two layers differ, so that there is nothing to share out.
    """
    # All others are asked about the same players: the layers in which any of them differs.
    layers = local_layers(client, others)
    if len(layers) < 2:
        return None
    tables = [exchange_values(client, x, other, layers, worth) for other in others]
    values = np.mean(tables, axis=0)
    found = shapley(values)
    total = float(values[-1] - values[0])
    place = 1 << _largest(found.tolist(), total)
    return LayerShares(
        names=tuple(layers),
        values=tuple(float(value) for value in found),
        total=total,
        faithfulness=faithfulness(values, found),
        passes=len(values) * len(others),
        alone=float(values[place] - values[0]),
        others=float(values[(len(values) - 1) ^ place] - values[0]),
    )


def layer_words(network: nn.Module, layer: str) -> str:
    """Say which layer is meant: "its first normalisation layer (norm1)".

    Args:
        network: The network.
        layer: The name of a layer, or of a stretch of them.
    """
    modules = dict(network.named_modules())
    if layer not in modules:
        return f"its layers {layer}" if " … " in layer else f"its tensor {layer}"
    kinds: tuple[tuple[tuple[type[nn.Module], ...], str], ...] = (
        ((_BatchNorm, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d), "normalisation layer"),
        ((nn.Conv1d, nn.Conv2d), "convolution"),
        ((nn.Linear,), "linear layer"),
    )
    for types, word in kinds:
        if isinstance(modules[layer], types):
            alike = [name for name, module in modules.items() if isinstance(module, types)]
            place = alike.index(layer)
            if len(alike) == 1:
                return f"its {word} ({layer})"
            if place == len(alike) - 1:
                return f"its last {word} ({layer})"
            order = _ORDINALS[place] if place < len(_ORDINALS) else f"{place + 1}th"
            return f"its {order} {word} ({layer})"
    return f"its layer {layer}"
