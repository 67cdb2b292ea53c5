"""Flower as the way between server and clients: one more backend, for one machine or for many.

A job goes out as one message for each client, and a reply comes back. Both are a
:class:`~flwr.app.RecordDict` of a few texts and the tensors; no message holds a client's state, see
:mod:`duotone.federation.backends.node`. Everything else is as on one machine: the same round loop,
screening, aggregation and evaluation.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from flwr.app import ArrayRecord, Context, Message, Metadata, RecordDict
from flwr.clientapp import ClientApp

from duotone.federation.backends import Backend, ClientJob, ClientResult, ClientTask, Failure
from duotone.federation.backends.codec import packed
from duotone.federation.backends.node import (
    NO_STATE,
    HeldInMemory,
    Node,
    Reply,
    Request,
    failed_reply,
    read_reply,
    result_of,
)
from duotone.federation.jobs import TrainJob
from duotone.federation.method import Method
from duotone.messenger import (
    MESSAGE,
    VERSION,
    Answer,
    Arrays,
    Facts,
    arrays_of,
    client_app,
    content_of,
    facts_of,
    record_of,
)
from duotone.partition.partition import Population
from duotone.types import ClientState, FarState

FOREVER = 12 * 3600.0
"""Seconds after which Flower itself gives a message up."""


class Way(Protocol):
    """What is used of Flower's grid, the way to the nodes: messages out, replies back."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages; return their names."""
        ...

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to some messages, as far as they are there."""
        ...


@dataclass(frozen=True, slots=True)
class _Asked:
    """A client that was sent a message: what its answer must repeat, and when it is late."""

    client: str
    token: str
    until: float


class Flower(Backend):
    """Computes clients on the nodes of a Flower federation.

    Args:
        grid: Flower's way to the nodes.
        nodes: Returns the node of each client that is connected now.
        run: What nodes must know of the run, as text; goes with every job.
        deadline: Seconds after which a client that has not answered is left out.
        at_once: How many clients are asked at the same time; all, if not given.
        pause: Seconds between two looks for replies.
    """

    is_far = True

    def __init__(
        self,
        grid: Way,
        nodes: Callable[[], Mapping[str, int]],
        *,
        run: str = "",
        deadline: float = FOREVER,
        at_once: int | None = None,
        pause: float = 0.5,
    ) -> None:
        self.grid = grid
        self.nodes = nodes
        self.run = run
        self.deadline = deadline
        self.at_once = at_once
        self.pause = pause

    def map_clients(self, job: ClientJob, tasks: Iterable[ClientTask]) -> Iterator[ClientResult]:
        """Yield results as replies come; a client that is late or gone yields its failure."""
        text, arrays = packed(job)
        record = record_of(arrays)
        rest = iter(tasks)
        waiting: dict[str, _Asked] = {}
        while True:
            room = None if self.at_once is None else self.at_once - len(waiting)
            if some := list(islice(rest, room)):
                yield from self._ask(text, record, some, waiting)
            elif not waiting:
                return
            if waiting:
                yield from self._answers(job, waiting)

    def _answers(self, job: ClientJob, waiting: dict[str, _Asked]) -> Iterator[ClientResult]:
        """Look once for replies; yield what came, and who is late."""
        for message in self.grid.pull_messages(list(waiting)):
            asked = waiting.pop(message.metadata.reply_to_message_id, None)
            if asked is not None:
                yield self._result(job, message, asked.client, asked.token)
        now = time.monotonic()
        for name in [name for name, asked in waiting.items() if now > asked.until]:
            late = waiting.pop(name).client
            yield _left_out(late, f"it did not answer within {self.deadline:g} seconds")
        if waiting:
            time.sleep(self.pause)

    def _ask(
        self, text: str, record: ArrayRecord, tasks: list[ClientTask], waiting: dict[str, _Asked]
    ) -> Iterator[ClientResult]:
        """Send a job to clients and note who is waited for; yield those who cannot be asked."""
        nodes = self.nodes()
        asked: list[tuple[str, str]] = []
        messages: list[Message] = []
        for task in tasks:
            if task.client not in nodes:
                yield _left_out(task.client, "its node is not connected")
                continue
            token = secrets.token_hex(8)
            content = {
                "client": task.client,
                "state": self._reference(task),
                "token": token,
                "job": text,
                "run": self.run,
                "duotone": VERSION,
            }
            records = content_of("request", content, record)
            asked.append((task.client, token))
            messages.append(self._message(records, nodes[task.client]))
        sent = list(self.grid.push_messages(messages)) if messages else []
        until = time.monotonic() + self.deadline
        if len(sent) == len(asked):
            waiting.update(
                {name: _Asked(*who, until) for name, who in zip(sent, asked, strict=True)}
            )
            return
        for client, _ in asked:
            yield _left_out(client, "its message could not be sent")

    def _message(self, content: RecordDict, node: int) -> Message:
        return Message(content, node, MESSAGE, ttl=self.deadline)

    def _reference(self, task: ClientTask) -> int:
        """Return the round of the state that counts.

        Raises:
            TypeError: The task holds a state; it would have to leave its client.
        """
        if task.state is None:
            return NO_STATE
        if not isinstance(task.state, FarState):
            raise TypeError(f"the state of {task.client!r} is here, not with its node")
        return task.state.round

    def _result(self, job: ClientJob, message: Message, client: str, token: str) -> ClientResult:
        if message.has_error():
            error = message.error
            return _left_out(client, f"its node failed: {error.reason or f'code {error.code}'}")
        try:
            reply = reply_of(message.content)
        except Exception as error:  # whatever a strange message does when it is read
            return _left_out(client, f"its reply cannot be read: {error}")
        return result_of(reply, client, token, trained=trained_round(job))


class OneMachineFlower(Flower):
    """Flower's messages and a ``ClientApp``, all in this process: no daemon, no network, no Ray.

    Args:
        method: The method.
        population: The samples.
    """

    is_far = False

    def __init__(self, method: Method, population: Population) -> None:
        self.held = HeldInMemory()
        numbers = {client: number for number, client in enumerate(population.partition, start=2)}
        node = Node(method, population, self.held, "simulation")
        app = client_app(lambda _, *message: answered(lambda run: node, *message))
        super().__init__(_OneMachine(app), lambda: numbers)
        self.at_once = 1  # states are fetched one by one
        self.pause = 0.0

    def _message(self, content: RecordDict, node: int) -> Message:
        data = Metadata(0, secrets.token_hex(8), 1, node, "", "", time.time(), FOREVER, MESSAGE)
        return Message(content=content, metadata=data)

    def _reference(self, task: ClientTask) -> int:
        """Lay the state down where the node looks for it; the message only names it."""
        if task.state is None:
            return NO_STATE
        self.held.states[task.client] = {NO_STATE + 1: task.state}
        return NO_STATE + 1

    def _result(self, job: ClientJob, message: Message, client: str, token: str) -> ClientResult:
        result = super()._result(job, message, client, token)
        held = self.held.states.pop(client, {})
        if trained_round(job) is None or result.failure is not None:
            return result
        update, state = result.value
        kept = held[state.round] if isinstance(state, FarState) else ClientState()
        return ClientResult(client, (update, kept))


class _OneMachine:
    """Gives each message to the client app, one after the other, when its reply is asked for."""

    def __init__(self, app: ClientApp) -> None:
        self.app = app
        self._waiting: dict[str, Message] = {}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        new = {message.metadata.message_id: message for message in messages}
        self._waiting |= new
        return list(new)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = []
        for name in message_ids:
            message = self._waiting.pop(name)
            context = Context(0, message.metadata.dst_node_id, {}, RecordDict(), {})
            replies.append(self.app(message, context))
        return replies


def request_of(facts: Facts, arrays: Arrays) -> Request:
    """Return what a message asks.

    Raises:
        KeyError: It asks nothing that is known.
    """
    text = {name: str(facts[name]) for name in ("client", "token", "job")}
    return Request(state=int(facts["state"]), arrays=arrays, **text)


def answered(node_of: Callable[[str], Node], facts: Facts, arrays: Arrays) -> Answer:
    """Return a node's reply to a message.

    Args:
        node_of: Returns the node that computes, from what the server says of the run.
        facts: The message.
        arrays: Its arrays.
    """
    request = request_of(facts, arrays)
    try:
        reply = node_of(str(facts["run"])).answer(request)
    except Exception as error:  # data that is not there, settings of another version
        reply = failed_reply(request.client, request.token, Failure.of(error), "scores")
    return reply.facts(), reply.arrays


def reply_of(content: RecordDict) -> Reply:
    """Return the reply that a message's content is.

    Raises:
        ValueError: It is none.
    """
    facts = facts_of("reply", content)
    # A node of another version says so, and may send its arrays in another form.
    return read_reply(facts, {} if facts.get("failure") else arrays_of(content))


def trained_round(job: ClientJob) -> int | None:
    """Return the round in which a job trains; ``None`` if it does not train."""
    return job.info.round if isinstance(job, TrainJob) else None


def _left_out(client: str, reason: str) -> ClientResult:
    return ClientResult(client, failure=Failure(reason))
