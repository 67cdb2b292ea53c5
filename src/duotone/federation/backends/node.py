"""The client's side of a federation over messages: take a job, do it, keep the state, answer.

What leaves is the answer. The state stays with the node, which keeps two for each client: the one
the server last named, and the newest. The server names states by the round in which they arose, so
a refused update, a crash or a resumed run need no further agreement.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

import duotone.errors
from duotone.errors import ClientError, DuotoneError
from duotone.federation.backends import ClientResult, ClientTask, Failure, Home
from duotone.federation.backends.codec import Arrays, packed, unpacked
from duotone.federation.backends.serial import compute, one_thread
from duotone.federation.jobs import CollectJob, TrainJob
from duotone.federation.levels import Level, check_level
from duotone.federation.method import Method
from duotone.federation.protocols import Collects
from duotone.federation.screening import Refused, check_state, declared
from duotone.partition.partition import Population
from duotone.types import ClientState, FarState

_LOG = logging.getLogger("duotone.node")
NO_STATE = 0
"""The round of a state that a client does not have yet."""


class HeldStates(Protocol):
    """Where a node keeps the states of its clients."""

    def get(self, client: str, round: int) -> ClientState | None:
        """Return the state of a round; none is kept for longer than it may be needed."""
        ...

    def put(self, client: str, round: int, state: ClientState, accepted: int) -> None:
        """Keep the newest state, and the one that the server has named; others may go."""
        ...


@dataclass(slots=True)
class HeldInMemory:
    """States in a dictionary, for nodes that live as long as the run."""

    states: dict[str, dict[int, ClientState]] = field(default_factory=dict)

    def get(self, client: str, round: int) -> ClientState | None:
        """Return a copy of the state of a round."""
        held = self.states.get(client, {})
        kept = held.get(round)
        return None if kept is None else kept.copied()

    def put(self, client: str, round: int, state: ClientState, accepted: int) -> None:
        """Keep a state."""
        self.states.setdefault(client, {})[round] = state


@dataclass(frozen=True, slots=True)
class Request:
    """What a server asks a node.

    Attributes:
        client: Whom the server takes it for.
        state: The round whose state counts; 0: none yet.
        token: Comes back with the answer, so that an old answer is known as such.
        job: The job as text.
        arrays: The arrays it refers to.
    """

    client: str
    state: int
    token: str
    job: str
    arrays: Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a node answers.

    Attributes:
        client: Who answers.
        token: That of the request.
        answer: The answer as text; empty if there is none.
        arrays: The arrays it refers to.
        failure: Why there is no answer.
        error: The class of what was raised on purpose, by name.
        kept: The round of the state that the node has kept; 0: none.
    """

    client: str
    token: str
    answer: str = ""
    arrays: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    failure: str = ""
    error: str = ""
    kept: int = NO_STATE

    def facts(self) -> dict[str, str | int]:
        """Return everything but the arrays."""
        return {
            "client": self.client,
            "token": self.token,
            "answer": self.answer,
            "failure": self.failure,
            "error": self.error,
            "kept": self.kept,
        }


@dataclass(frozen=True, slots=True)
class Node:
    """Computes clients for a server that sends messages.

    Attributes:
        method: The method, as the run's configuration says.
        population: The samples of the node's clients.
        states: Where their states are kept.
        level: What the node lets a server learn.
        home: Where its client keeps what is its own, on a machine of its own.
    """

    method: Method
    population: Population
    states: HeldStates
    level: Level
    home: Home | None = None

    def answer(self, request: Request) -> Reply:
        """Do a job; whatever goes wrong is the answer."""
        client, token = request.client, request.token
        result = ClientResult(client)
        kept = NO_STATE
        text, arrays = "", Arrays()
        try:
            job = unpacked(request.job, request.arrays)
            if client not in self.population.partition:
                raise ClientError(f"this node does not hold the data of {client!r}")
            check_level(job, self.level)
            task = ClientTask(client, self._state(request), self.home)
            with one_thread():
                result = compute(job, self.method, self.population, task)
            if result.failure is None:
                value = result.value
                if isinstance(job, CollectJob):
                    assert isinstance(self.method, Collects)
                    form = self.method.collected_form(job.server, job.info)
                    value = declared(value, {}, form, ())
                if isinstance(job, TrainJob):
                    value, state = result.value
                    sent = self.method.sent(job.server, value)
                    form = self.method.extra_form(job.server, job.info)
                    value = declared(value, sent, form, self.method.told)
                    if check_state(state):
                        kept = job.info.round
                        self.states.put(client, kept, state, request.state)
                text, arrays = packed(value)
        except Refused as reason:
            result = ClientResult(client, failure=Failure.of(ClientError(str(reason))))
        except Exception as error:  # a full disk, a message of another version, anything
            result = ClientResult(client, failure=Failure.of(error))
        if result.failure is not None:
            return failed_reply(client, token, result.failure, self.level)
        return Reply(client, token, text, arrays, kept=kept)

    def _state(self, request: Request) -> ClientState | None:
        if request.state == NO_STATE:
            return None
        state = self.states.get(request.client, request.state)
        if state is None:
            raise ClientError(
                f"it no longer has its state of round {request.state}; restore its states from a "
                "copy, or start the run anew"
            )
        return state


def failed_reply(client: str, token: str, failure: Failure, level: Level) -> Reply:
    """Return the reply of a client that failed.

    What was raised on purpose says what is wrong. Any other error may quote a client's data, so
    outside of simulations only its kind leaves; the rest goes to the node's log.
    """
    if failure.error is not None:
        return Reply(client, token, failure=failure.reason, error=type(failure.error).__name__)
    if level == "simulation":
        return Reply(client, token, failure=failure.reason)
    _LOG.error("client %r failed: %s\n%s", client, failure.reason, failure.details)
    kind = failure.reason.partition(":")[0]
    return Reply(client, token, failure=f"{kind} on its node, whose log says more")


def result_of(reply: Reply, client: str, token: str, *, trained: int | None) -> ClientResult:
    """Return what a reply says; one that cannot be used is a failure, and the reason says why.

    Args:
        reply: What came back.
        client: Who was asked.
        token: That of the request.
        trained: The round in which the client was to train, and whose state it keeps; ``None`` if
            it was asked for something else.
    """
    if reply.token != token:
        return _failed(client, "it answered another question, such as that of an earlier round")
    if reply.client != client:
        return _failed(client, f"it answered in the name of {reply.client!r}")
    if reply.failure:
        return ClientResult(client, failure=Failure(reply.failure, _raised(reply)))
    try:
        value = unpacked(reply.answer, reply.arrays)
    except Exception as error:  # whatever a strange message does when it is read
        return _failed(client, f"its answer cannot be read: {error}")
    if reply.kept not in (NO_STATE, trained):
        return _failed(client, f"it says that it kept a state of round {reply.kept}")
    if trained is not None:
        value = (value, FarState(round=reply.kept) if reply.kept else ClientState())
    return ClientResult(client, value)


def _failed(client: str, reason: str) -> ClientResult:
    return ClientResult(client, failure=Failure(reason))


def _raised(reply: Reply) -> DuotoneError | None:
    kind = getattr(duotone.errors, reply.error, None) if reply.error.isidentifier() else None
    if isinstance(kind, type) and issubclass(kind, DuotoneError):
        return kind(reply.failure)
    return None


def read_reply(facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> Reply:
    """Return the reply that some facts and arrays are.

    Raises:
        ValueError: They are none.
    """
    texts = {
        name: facts.get(name, "") for name in ("client", "token", "answer", "failure", "error")
    }
    kept = facts.get("kept", NO_STATE)
    is_int = isinstance(kept, int) and not isinstance(kept, bool) and kept >= 0
    if not (is_int and all(isinstance(text, str) for text in texts.values())):
        raise ValueError(f"its reply is of another form: {json.dumps(sorted(map(str, facts)))}")
    return Reply(arrays=arrays, kept=kept, **texts)
