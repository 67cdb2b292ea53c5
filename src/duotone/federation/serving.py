"""Serve clients: which model each of them uses, and jobs done with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from duotone.errors import ClientError
from duotone.federation.answers import AnswerLog, answers
from duotone.federation.backends import Backend, ClientJob, ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.engine import ClientStates, largest_first
from duotone.federation.jobs import client_randomness, member_state
from duotone.federation.method import Method
from duotone.federation.personalise import Personalisation, personalised
from duotone.federation.store import Shelf
from duotone.partition.partition import Population
from duotone.types import ClientData, ClientState, NewcomerRule, Params, RoundInfo, ServerState


@travels
@dataclass(frozen=True, slots=True)
class Serving:
    """How a client gets the model it uses after a round.

    Attributes:
        server: The server's state.
        info: The round.
        rule: What newcomers start from.
        shots: Samples a newcomer has, if not all of its training samples.
        chosen: How clients adjust their models to their inputs, if they do.
        shelf: Where adapted states are kept for the next question about the same clients.
    """

    server: ServerState
    info: RoundInfo
    rule: NewcomerRule
    shots: int | None = None
    chosen: Personalisation | None = None
    shelf: Shelf | None = None

    def model(self, method: Method, population: Population, task: ClientTask) -> nn.Module:
        """Return the client's model, in evaluation mode."""
        return method.load(self.personal(method, population, task), self.info.data).eval()

    def personal(self, method: Method, population: Population, task: ClientTask) -> Params:
        """Return the parameters a client uses.

        A member takes its last local step on its training data. A newcomer starts from what the
        rule allows; it has never been seen, so nothing else is known of it.

        Raises:
            ClientError: They are not numbers.
        """
        server = self.server.copied()  # a client may change its copy
        data = population.data(task.client).to(method.device)
        is_member = population.partition[task.client].role == "member"
        allowed = data if is_member else self._allowed(data)
        state = None if self.shelf is None else self.shelf.get(task.client)
        if state is None:
            with client_randomness(self.info, task.client):
                if is_member:
                    stored = member_state(method, server, task, self.info)
                    state = method.before_use(server, stored, data, self.info)
                else:
                    state = self._newcomer(method, server, allowed)
            if self.shelf is not None:
                self.shelf.put(task.client, state)
        params = method.personal(server, state)
        if self.chosen is not None and allowed is not None:
            params = personalised(method, params, allowed.x, self.info, self.chosen)
        # Infinite values may be meant: networks keep masks of them.
        broken = [name for name, tensor in params.items() if bool(torch.isnan(tensor).any())]
        if broken:
            raise ClientError(f"its model answers NaN: {broken[0]} holds it")
        return params

    def _newcomer(
        self, method: Method, server: ServerState, allowed: ClientData | None
    ) -> ClientState:
        """Return a newcomer's state; some methods have no rule for inputs without labels."""
        is_unused = self.rule == "label-free" and "label-free" not in method.rules(method.config)
        if allowed is None or is_unused:
            return method.first_state(server, self.info)
        return method.join(server, allowed, self.info)

    def _allowed(self, data: ClientData) -> ClientData | None:
        """Return what a newcomer may show of its training data."""
        if self.rule == "zero-shot":
            return None
        given = data if self.shots is None else data.first(self.shots)
        return given.without_labels() if self.rule == "label-free" else given


def by_client(
    job: ClientJob,
    clients: Sequence[str],
    population: Population,
    states: ClientStates,
    backend: Backend,
) -> dict[str, Any]:
    """Do a job for some clients; return what each gave, in the order of ``clients``.

    A client that fails or does not answer is left out, and the user is told.

    Raises:
        DuotoneError: Nobody answered, and all for the same reason.
    """
    # States are fetched one by one, so that memory does not grow with the number of clients.
    order = largest_first(clients, population)
    tasks = (ClientTask(client, states.get(client)) for client in order)
    log = AnswerLog()
    found = dict(answers(backend, job, tasks, clients, log, population))
    if not found:
        log.raise_common()
    for client, reason in sorted(log.refused.items()):
        backend.say(f"Client {client!r} is left out: {reason}.")
    return {client: found[client] for client in clients if client in found}
