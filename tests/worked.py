"""Models of one or two weights, and clients whose training can be worked out by hand.

Every client of :func:`client` has one sample, or the same one several times: the input 1 and a
target y. A model w then has the loss (w − y)² and the gradient 2(w − y), and with the learning
rate 0.1 a step is w ← w + (y − w)/5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from duotone.federation.method import Method
from duotone.networks.reading import as_network
from duotone.types import ClientData, ClientState, ClientUpdate, DataInfo, RoundInfo, ServerState

NUMBERS = DataInfo((1,), "regression", 1)
FIRST = RoundInfo(1, 1, 0, NUMBERS)


class Line(nn.Module):
    """The model y = w·x."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.head = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.head.weight, weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x)


class Product(nn.Module):
    """The model y = h·b·x: a body b under a head h."""

    def __init__(self, body: float, head: float) -> None:
        super().__init__()
        self.body = nn.Linear(1, 1, bias=False)
        self.head = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.body.weight, body)
        nn.init.constant_(self.head.weight, head)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def make(kind: type[Method], model: nn.Module, **settings: Any) -> Method:
    """Return a method that takes one step of rate 0.1 in a round, unless told otherwise."""
    config = kind.Config(**{"lr": 0.1, "epochs": 1, "batch_size": 10, **settings})
    return kind(config, as_network(model))


def client(name: str, target: float, samples: int = 1) -> ClientData:
    """Return a client whose samples all say that 1 is worth ``target``."""
    return ClientData(name, torch.ones(samples, 1), torch.full((samples,), float(target)), NUMBERS)


def play(
    method: Method,
    clients: Sequence[ClientData],
    server: ServerState,
    states: dict[str, ClientState],
    info: RoundInfo = FIRST,
) -> tuple[ServerState, dict[str, ClientUpdate]]:
    """Play one round with all clients; ``states`` is read and written."""
    updates = {}
    for data in clients:
        state = states.get(data.client) or method.first_state(server, info)
        updates[data.client], states[data.client] = method.client_update(server, state, data, info)
    return method.server_update(server, list(updates.values()), info), updates


def value(tensor: Tensor) -> float:
    """Return the only number of a tensor."""
    return float(tensor.item())
