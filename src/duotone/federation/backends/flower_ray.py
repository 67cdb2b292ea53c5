"""Flower's simulation engine on Ray: clients on the actors of one machine, for scaling studies.

The messages are those of every Flower backend. Each goes to one of Flower's actors, processes that
Ray keeps, with the client's state beside it in Flower's ``Context``; the new state comes back
there. Method and samples lie in Ray's shared memory once; an actor loads them with its first
message. Only Flower's pool of actors is used, not its loops: they look for messages every tenth of
a second, and end with the process.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

import ray
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.server.superlink.fleet.vce.backend.raybackend import RayBackend

from duotone.errors import TrainingError
from duotone.federation.backends import ClientJob, ClientResult, ClientTask
from duotone.federation.backends.flower import OneMachineFlower, answered
from duotone.federation.backends.node import NO_STATE, HeldInMemory, Node
from duotone.federation.backends.processes import WORKER_ENVIRONMENT
from duotone.federation.method import Method
from duotone.federation.state_files import packed_state, unpacked_state
from duotone.messenger import Answer, Arrays, Facts, client_app
from duotone.partition.partition import Population
from duotone.types import ClientState

_LOOK_SECONDS = 1.0
_STATE = "state"
"""The state's place in a ``Context``."""
_FAILED = 0
"""Flower's code for an error that it does not know."""
_ACTOR = {"num_cpus": 1, "max_restarts": -1, "max_task_retries": 1}
"""One core; an actor that dies is replaced, and its client computed once more."""
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


class RayFlower(OneMachineFlower):
    """Flower's messages, answered by Flower's Ray actors on this machine.

    Args:
        method: The method.
        population: The samples.
        workers: Number of actors.

    Raises:
        TrainingError: Ray does not start.
    """

    def __init__(self, method: Method, population: Population, workers: int) -> None:
        super().__init__(method, population)
        self._is_ours = not ray.is_initialized()
        with _as_it_was(_QUIET | WORKER_ENVIRONMENT):
            self._engine = _engine(workers)
        everything = ray.put((method, population.arrays(), population.form()))
        self._engine.build(_Loaded(everything))
        self._actors = list(self._engine.pool.pool)
        self.grid = _Actors(self._engine, self.held)
        self.at_once = 2 * self._engine.num_workers  # an actor never waits for its next client

    def map_clients(self, job: ClientJob, tasks: Iterable[ClientTask]) -> Iterator[ClientResult]:
        """Yield results as they come."""
        self.run = type(job).__module__  # an actor knows the job when it has imported that
        yield from super().map_clients(job, tasks)

    def close(self) -> None:
        """End the actors, and Ray if it was started here."""
        if self._is_ours:
            ray.shutdown()
            return
        for actor in self._actors:  # Flower's own way to end them would let Ray start them anew
            ray.kill(actor)


class _Actors:
    """Hands messages to idle actors, with the states of the clients they are for."""

    def __init__(self, engine: RayBackend, held: HeldInMemory) -> None:
        self.engine, self.held = engine, held
        self._queue: deque[Message] = deque()
        self._asked: dict[Any, Message] = {}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        new = list(messages)
        self._queue += new
        self._hand_out()
        return [message.metadata.message_id for message in new]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = set(message_ids)
        ready, _ = ray.wait(list(self._asked), timeout=_LOOK_SECONDS)
        replies = [self._reply(future, wanted) for future in ready]
        self._hand_out()
        return replies

    def _hand_out(self) -> None:
        pool = self.engine.pool
        while self._queue and pool.is_actor_available():
            message = self._queue.popleft()
            client = _client(message)
            context = Context(0, message.metadata.dst_node_id, {}, RecordDict(), {})
            states = self.held.states.get(client, {})
            if states:
                context.state = _record(NO_STATE + 1, states[NO_STATE + 1])
            job = (self.engine.app_fn, message, client, context)
            self._asked[pool.submit(_run, job)] = message

    def _reply(self, future: Any, wanted: set[str]) -> Message:
        message = self._asked.pop(future)
        try:
            reply, context = self.engine.pool.fetch_result_and_return_actor_to_pool(future)
        except ray.exceptions.RayError as error:
            self.engine.pool.add_actor_back_to_pool(future)
            reason = str(error).strip().splitlines()[0]
            return Message(Error(_FAILED, reason), reply_to=message)
        if message.metadata.message_id in wanted:
            client = _client(message)
            for round, state in _states(context):
                self.held.put(client, round, state, NO_STATE)
        return reply


def _run(actor: Any, *job: Any) -> Any:
    return actor.run.remote(*job)


def _client(message: Message) -> str:
    return str(message.content.config_records["request"]["client"])


def _record(round: int, state: ClientState) -> RecordDict:
    """Return a client's state as Flower keeps it beside a client app."""
    packed = packed_state(state.local, state.extra)
    return RecordDict({_STATE: ConfigRecord({"round": round, "tensors": packed})})


def _states(context: Context) -> Iterator[tuple[int, ClientState]]:
    """Yield the state that a client has, with its round; none, if it has none."""
    if _STATE in context.state.config_records:
        found = context.state.config_records[_STATE]
        yield found["round"], ClientState(*unpacked_state(found["tensors"]))


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Makes the client app in an actor.

    Attributes:
        everything: Where Ray holds method and samples.
    """

    everything: Any

    def __call__(self) -> ClientApp:
        return client_app(partial(_answer, self.everything))


def _answer(everything: Any, context: Context, facts: Facts, arrays: Arrays) -> Answer:
    """Answer in an actor: take the state from the context, and leave the new one there."""
    client, held = str(facts["client"]), HeldInMemory()
    for round, state in _states(context):
        held.put(client, round, state, NO_STATE)

    def node(room: str) -> Node:
        import_module(room)
        method, population = _held_by_ray(everything)
        return Node(method, population, held, "simulation")

    told, found = answered(node, facts, arrays)
    kept = int(told["kept"])
    context.state = _record(kept, held.states[client][kept]) if kept else RecordDict()
    return told, found


@lru_cache(maxsize=1)
def _held_by_ray(everything: Any) -> tuple[Method, Population]:
    method, arrays, form = ray.get(everything)
    return method, Population.from_arrays(arrays, form)


def _engine(workers: int) -> RayBackend:
    """Return Flower's engine; it starts Ray here, with nothing to look at and nothing to say.

    Raises:
        TrainingError: Ray does not start.
    """
    settings = {
        "address": "local",
        "num_cpus": workers,
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": logging.WARNING,
    }
    try:
        return RayBackend({"init_args": settings, "client_resources": _ACTOR})
    except Exception as error:  # it raises all sorts, a plain Exception after half a minute too
        raise TrainingError(
            f"Ray did not start: {str(error).strip()} If the machine is busy, try again later; "
            "--backend processes needs no Ray."
        ) from error


@contextmanager
def _as_it_was(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables; put them, and signal handlers, back to what they were.

    Processes that Ray starts inherit the variables. Flower adds another one and Ray takes SIGTERM,
    with which a run is asked to end after its round.
    """
    before = dict(os.environ)
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    os.environ |= variables
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        if is_main:
            signal.signal(signal.SIGTERM, handler)
