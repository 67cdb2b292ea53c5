"""What clients are asked for in a round: to train, and to tell statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch

from duotone.federation.attacks import Attack, Training
from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.protocols import Collects
from duotone.partition.partition import Population
from duotone.seeding import derive
from duotone.types import ClientData, ClientState, ClientUpdate, RoundInfo, ServerState

_CPU = torch.default_generator


@travels
@dataclass(frozen=True, slots=True)
class TrainJob:
    """Train a client for a round; a hostile one sends what its attack makes of that."""

    level: ClassVar[Level] = "scores"
    sends: ClassVar[str] = "update"

    server: ServerState
    info: RoundInfo
    attack: Attack | None = None

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> tuple[ClientUpdate, ClientState]:
        """Return what leaves the client and what stays."""
        data = population.data(task.client).to(method.device)
        if self.attack is None or task.client not in self.attack.hostile:
            return self.trained(method, task, data)
        update, state = self.trained(method, task, self.attack.poisoned(data))
        first = replace(self.info, round=0)
        begin = TrainJob(method.start(first), replace(self.info, round=1))
        training = Training(
            lambda data: self.trained(method, ClientTask(data.client, None), data)[0],
            lambda client: population.data(client).to(method.device),
            partial(method.sent, self.server),
            partial(method.sent, begin.server),
            lambda: begin.trained(method, ClientTask(task.client, None), data)[0],
        )
        return self.attack.hostile_update(update, training, self.info), state

    def trained(
        self, method: Method, task: ClientTask, data: ClientData
    ) -> tuple[ClientUpdate, ClientState]:
        """Return what honest training on some samples gives."""
        server = self.server.copied()  # a client may change its copy
        with client_randomness(self.info, task.client):
            state = member_state(method, server, task, self.info)
            return method.client_update(server, state, data, self.info)


@travels
@dataclass(frozen=True, slots=True)
class CollectJob:
    """Ask a member for its statistics."""

    level: ClassVar[Level] = "scores"
    sends: ClassVar[str] = "statistics"

    server: ServerState
    info: RoundInfo

    def __call__(self, method: Method, population: Population, task: ClientTask) -> ClientUpdate:
        """Return what leaves the client."""
        assert isinstance(method, Collects)
        data = population.data(task.client).to(method.device)
        server = self.server.copied()
        state = member_state(method, server, task, self.info)
        return method.collect(server, state, data, self.info)


def member_state(
    method: Method, server: ServerState, task: ClientTask, info: RoundInfo
) -> ClientState:
    """Return what a member has stored, or its very first state."""
    return method.first_state(server, info) if task.state is None else task.state


@contextmanager
def client_randomness(info: RoundInfo, client: str) -> Iterator[None]:
    """Give torch's own generator (dropout, sampling) a stream of this client in this round."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed takes down a stack trace for every kind of device that is not there.
        seeded = torch.manual_seed if torch.cuda.is_available() else _CPU.manual_seed
        seeded(derive(info.seed, "round", info.round, "client", client))
        yield
