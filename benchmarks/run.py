"""Measure duotone against a DataLoader loop, and its memory: ``python benchmarks/run.py``.

Every contender is a process of its own. They take turns, sweep after sweep, and the best turn of
each counts: a busy machine slows some turns of all of them, rarely every turn of one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

import torch

import memory
import peers
from duotone.evaluation.clients import Serving, evaluate
from duotone.federation.backends import Backend
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import federate
from duotone.federation.store import FolderStore
from workloads import convolution_peak, registered_population, step_flops, workload

Turn: TypeAlias = dict[str, float]

RESULTS = Path(__file__).parent / "results"
WORKERS = 2
FOREVER = 1_000_000
QUIET_LOAD_PER_CORE = 0.5

PEER = "DataLoader loop"
PEER_ONE_THREAD = "DataLoader loop, 1 thread"
SERIAL = "duotone serial"
PROCESSES = f"duotone {WORKERS} processes"


def duotone_rounds(name: str, short: bool, parallel: bool) -> Iterator[Turn]:
    """Yield the seconds and the loss of one training round after the other."""
    work = workload(name, short=short)
    population = work.population()
    backend: Backend = Serial(work.method, population)
    if parallel:
        backend = Processes(work.method, population, WORKERS)
        backend.is_ready(patience=None)
    with backend:
        rounds = federate(work.method, population, rounds=FOREVER, backend=backend)
        while True:
            begin = perf_counter()
            result = next(rounds)
            seconds = perf_counter() - begin
            losses = [update.metrics["train_loss"] for update in result.updates]
            yield {"seconds": seconds, "loss": sum(losses) / len(losses)}


def duotone_whole_rounds(short: bool) -> Iterator[Turn]:
    """Yield the seconds of training some clients, evaluating all, and saving the round."""
    work = workload("W1", short=short)
    population = registered_population(work)
    with (
        tempfile.TemporaryDirectory() as folder,
        Processes(work.method, population, WORKERS) as backend,
    ):
        backend.is_ready(patience=None)
        store = FolderStore(Path(folder))
        clients = population.partition.clients
        rounds = federate(
            work.method,
            population,
            rounds=FOREVER,
            sampled=work.clients,
            backend=backend,
            states=store,
        )
        while True:
            begin = perf_counter()
            result = next(rounds)
            trained = perf_counter()
            serving = Serving(result.server, result.info, "zero-shot")
            rows = evaluate(serving, clients, population.partition, store, backend)
            evaluated = perf_counter()
            store.commit(result.info.round, result.server, {})
            saved = perf_counter()
            accuracy = [row.value for row in rows if row.metric == "accuracy"]
            yield {
                "train": trained - begin,
                "evaluate": evaluated - trained,
                "save": saved - evaluated,
                "accuracy": sum(accuracy) / len(accuracy),
            }


def serve(connection: Connection, contender: Callable[..., Iterator[Turn]], *args: Any) -> None:
    """Take turns in a process of its own, until the connection closes."""
    turns = contender(*args)
    connection.send("ready")
    try:
        while connection.recv():
            connection.send(next(turns))
    except EOFError:
        turns.close()  # type: ignore[attr-defined]


class Contender:
    """A process that takes turns."""

    def __init__(self, contender: Callable[..., Iterator[Turn]], *args: Any) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, contender, *args))
        self._process.start()
        theirs.close()
        self._connection.recv()  # loading libraries must not disturb anybody's turn
        self.turns: list[Turn] = []

    def best(self, *parts: str) -> float:
        """Return the seconds of the best turn, as the sum of its parts."""
        return min(sum(turn[part] for part in parts) for turn in self.turns)

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join()

    @staticmethod
    def take_turn(*contenders: Contender) -> None:
        """Let one contender take its turn, or several at the same time."""
        for contender in contenders:
            contender._connection.send(True)
        for contender in contenders:
            contender.turns.append(contender._connection.recv())


def measure_training(*, short: bool, sweeps: int) -> dict[str, Any]:
    """Measure training rounds of three workloads, print a table, and return the figures."""
    pair = [Contender(convolution_peak) for _ in range(WORKERS)]
    one: list[float] = []
    two: list[float] = []
    turns: dict[str, dict[str, list[Turn]]] = {}
    for name in ("W1", "W2", "W3"):
        contenders = {
            PEER: Contender(peers.train_rounds, name, short, None),
            PEER_ONE_THREAD: Contender(peers.train_rounds, name, short, 1),
            SERIAL: Contender(duotone_rounds, name, short, False),
            PROCESSES: Contender(duotone_rounds, name, short, True),
        }
        for _ in range(sweeps):
            Contender.take_turn(pair[0])
            one.append(pair[0].turns[-1]["gflops"])
            Contender.take_turn(*pair)
            two.append(sum(contender.turns[-1]["gflops"] for contender in pair))
            for contender in contenders.values():
                Contender.take_turn(contender)
        for contender in contenders.values():
            contender.close()
        turns[name] = {label: contender.turns for label, contender in contenders.items()}
    for contender in pair:
        contender.close()
    return {}
