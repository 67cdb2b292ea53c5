"""The round loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from duotone.errors import ConfigError
from duotone.federation.answers import AnswerLog, answers
from duotone.federation.attacks import Attack
from duotone.federation.backends import Backend, ClientTask
from duotone.federation.backends.serial import Serial, one_thread
from duotone.federation.jobs import CollectJob, TrainJob
from duotone.federation.method import Method
from duotone.federation.protocols import AsksSome, Collects, check_collects
from duotone.federation.screening import Refused, Screen, check_state
from duotone.federation.spill import Spill
from duotone.federation.system import Absence, System
from duotone.federation.watch import Refusals, Standing, standings
from duotone.partition.partition import Population
from duotone.seeding import stream
from duotone.types import ClientState, ClientUpdate, Params, RoundInfo, ServerState


class ClientStates(Protocol):
    """Where client states can be read."""

    def get(self, client: str) -> ClientState | None:
        """Return a client's state, or ``None`` if it never took part."""
        ...


class StateStore(ClientStates, Protocol):
    """Where client states are kept between rounds."""

    def put(self, round: int, client: str, state: ClientState) -> None:
        """Keep a client's state of a round."""
        ...


@dataclass(slots=True)
class MemoryStates:
    """Client states in a dictionary: for scripts and tests that keep nothing on disk."""

    states: dict[str, ClientState] = field(default_factory=dict)

    def get(self, client: str) -> ClientState | None:
        """Return a copy of a client's state, as a disk would."""
        state = self.states.get(client)
        return None if state is None else state.copied()

    def put(self, round: int, client: str, state: ClientState) -> None:
        """Keep a client's state."""
        self.states[client] = state


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin: after a finished round, or before the first one (round 0)."""

    round: int
    server: ServerState


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round did.

    Attributes:
        info: Which round it was.
        server: The server's new state.
        updates: The updates that were averaged, in the order of the partition.
        refused: Client to reason, for clients whose updates or statistics were not used: what they
            sent was bad, or they sent nothing.
        sent_bytes: Bytes of the shared part each sampled client received.
        collected: Statistics that members sent when the round was over, in the order of asking.
        dropped: Client to reason, for updates that count though something was taken out of them.
        standings: How each update compares with the rest, if that was asked for.
        set_aside: Who was refused too often and is not asked any more.
        absent: Who was drawn and sent nothing, because its device is simulated so.
    """

    info: RoundInfo
    server: ServerState
    updates: tuple[ClientUpdate, ...]
    refused: dict[str, str]
    sent_bytes: int
    collected: tuple[ClientUpdate, ...] = ()
    dropped: dict[str, str] = field(default_factory=dict)
    standings: dict[str, Standing] = field(default_factory=dict)
    set_aside: frozenset[str] = frozenset()
    absent: dict[str, Absence] = field(default_factory=dict)


def federate(
    method: Method,
    clients: Population,
    *,
    rounds: int,
    sampled: int | None = None,
    seed: int = 0,
    backend: Backend | None = None,
    states: StateStore | None = None,
    start: Start | None = None,
    max_norm: float | None = None,
    quorum: int = 1,
    max_bytes: int | None = None,
    attack: Attack | None = None,
    refusals: Refusals | None = None,
    watch: bool = False,
    system: System | None = None,
    scratch: Path | None = None,
) -> Iterator[RoundResult]:
    """Train by rounds; yield after each one.

    Args:
        method: What to train, and how.
        clients: The members train; newcomers are left alone.
        rounds: The last round.
        sampled: Members drawn per round; all of them if not given.
        seed: The source of every random draw.
        backend: Where clients are computed; in this process if not given.
        states: Where client states are kept; in memory if not given.
        start: Continue from here instead of from the beginning.
        max_norm: Refuse updates that moved further than this.
        quorum: How many good updates a round needs.
        max_bytes: Refuse updates and statistics that are larger than this.
        attack: Which members are hostile, and what they send.
        refusals: Earlier refusals, and after how many a member is asked no more.
        watch: Whether to compare the updates of a round with each other.
        system: Which members are slow, and who drops out. A round in which all that were drawn
            are absent leaves the model as it is.
        scratch: A folder in which updates wait for their mean where memory would not hold them.

    Raises:
        TrainingError: A round had fewer.
    """
    check_collects(method)
    backend = backend or Serial(method, clients)
    states = states if states is not None else MemoryStates()
    members = clients.partition.members
    before = before_first_round(clients, rounds=rounds, sampled=sampled, seed=seed)
    start = start or Start(0, method.start(before))
    server = start.server
    refusals = refusals or Refusals()
    for round in range(start.round + 1, rounds + 1):
        info = replace(before, round=round)
        aside = refusals.aside()
        drawn = [c for c in sample_clients(members, sampled, info) if c not in aside]
        absent = system.absent(drawn, round) if system else {}
        chosen = [client for client in drawn if client not in absent]
        order = largest_first(chosen, clients)
        tasks = (ClientTask(client, states.get(client)) for client in order)
        log = AnswerLog()
        updates: list[ClientUpdate] = []
        spill = Spill(scratch)
        sent = size_in_bytes(server.shared)
        # More threads would only take the cores from the workers.
        with one_thread():
            extra = method.extra_form(server, info)
            job = TrainJob(server, info, attack)
            for client, reply in answers(backend, job, tasks, chosen, log):
                screen = Screen(
                    client,
                    len(clients.rows(client)),
                    partial(method.sent, server),
                    extra,
                    method.told,
                    max_norm,
                    max_bytes,
                )
                try:
                    update, state = _trained(reply)
                    passed, kept = screen.passed(update), check_state(state)
                except Refused as reason:
                    log.refused[client] = str(reason)  # the old state stays: its model was good
                    continue
                if passed.dropped:
                    log.dropped[client] = "; ".join(passed.dropped)
                updates.append(spill.keep(passed.update))
                if kept:
                    states.put(round, client, kept)

            is_lost = bool(absent) and not chosen and quorum == 1
            if not is_lost:
                log.require(quorum, len(updates), round, len(absent))
            # Workers finish in any order; sums must not notice.
            position = {client: place for place, client in enumerate(chosen)}
            updates.sort(key=lambda update: position[update.client])
            compared = standings(updates, partial(method.sent, server)) if watch else {}
            if not is_lost:
                server = method.server_update(server, updates, info)
            collected: list[ClientUpdate] = []
            if isinstance(method, Collects):
                named = method.asks(members, chosen) if isinstance(method, AsksSome) else members
                asks = [client for client in named if client not in aside]
                for asking in range(1, method.collects(info) + 1):
                    asked = replace(info, asking=asking)
                    told = collect(
                        method, server, clients, asked, states, backend, log, asks, max_bytes
                    )
                    server = method.pool(server, told, asked)
                    collected += told
        refusals.add(log.refused)
        yield RoundResult(
            info,
            server,
            tuple(updates),
            dict(sorted(log.refused.items())),
            sent,
            tuple(collected),
            dict(sorted(log.dropped.items())),
            compared,
            refusals.aside(),
            absent,
        )


def _trained(reply: Any) -> tuple[Any, Any]:
    """Return the two halves of what training returns.

    Raises:
        Refused: It has not two.
    """
    if not isinstance(reply, tuple) or len(reply) != 2:
        raise Refused(f"it is a {type(reply).__name__}, not an update and a state")
    return reply


def collect(
    method: Collects,
    server: ServerState,
    clients: Population,
    info: RoundInfo,
    states: ClientStates,
    backend: Backend,
    log: AnswerLog,
    asks: Sequence[str] | None = None,
    max_bytes: int | None = None,
) -> list[ClientUpdate]:
    """Ask members, by default all, for statistics; return them in their order, refusals aside."""
    members = clients.partition.members if asks is None else asks
    tasks = (ClientTask(client, states.get(client)) for client in members)
    form = method.collected_form(server, info)
    collected: dict[str, ClientUpdate] = {}
    asking = AnswerLog()
    for client, reply in answers(backend, CollectJob(server, info), tasks, members, asking):
        screen = Screen(client, len(clients.rows(client)), lambda _: {}, form, max_bytes=max_bytes)
        try:
            collected[client] = screen.passed(reply).update
        except Refused as reason:
            asking.refused[client] = str(reason)
    for client, why in asking.refused.items():
        also = f"{log.refused[client]}; " if client in log.refused else ""
        log.refused[client] = f"{also}of its statistics, {why}"
    return [collected[client] for client in members if client in collected]


def before_first_round(
    clients: Population, *, rounds: int, sampled: int | None, seed: int
) -> RoundInfo:
    """Return the information of round 0, from which that of every round follows."""
    members = len(clients.partition.members)
    return RoundInfo(0, rounds, seed, clients.info, (sampled or members) / members)


def sample_clients(members: Sequence[str], sampled: int | None, info: RoundInfo) -> list[str]:
    """Draw the members of a round without replacement; return them in the partition's order.

    Raises:
        ConfigError: More clients are asked for than there are members.
    """
    if sampled is None or sampled == len(members):
        return list(members)
    if sampled > len(members):
        raise ConfigError(
            f"{sampled} clients per round were asked for, but there are only {len(members)} "
            "members; lower --sampled."
        )
    rng = stream(info.seed, "sample", info.round)
    drawn = rng.choice(len(members), size=sampled, replace=False)
    return [members[position] for position in sorted(drawn)]


def largest_first(clients: Sequence[str], population: Population) -> list[str]:
    """Return clients by size, so that with several workers no core idles at the end."""
    return sorted(clients, key=population.partition.size, reverse=True)


def size_in_bytes(params: Params) -> int:
    """Return how many bytes some tensors take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in params.values())
