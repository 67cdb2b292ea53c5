"""How long runs will take and how much memory, before they start: a step of each is tried."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path

from duotone.federation.backends import ClientTask
from duotone.federation.backends.processes import available_cores
from duotone.federation.backends.serial import one_thread
from duotone.federation.engine import before_first_round, size_in_bytes
from duotone.federation.jobs import client_randomness
from duotone.federation.serving import Serving
from duotone.measures.evaluation import EvaluateJob, choose_clients
from duotone.runs.plan import Plan
from duotone.runs.study import is_finished
from duotone.runs.study_plan import StudyPlan
from duotone.types import ClientUpdate, RoundInfo, ServerState

WARMING, FEWEST = 8, 32
"""Samples of a first update, which loads what is needed, and at least of the timed one."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run will ask of this machine.

    Attributes:
        training: Seconds of training on all cores that the run uses.
        evaluation: Seconds of evaluations, likewise. Measures and the report come on top.
        memory: Bytes that all processes take together while it trains; ``None`` where the system
            does not say what a process holds: only Linux does.
        processes: How many there are: this one, and worker processes if it starts any.
    """

    training: float
    evaluation: float
    memory: int | None
    processes: int


def forecast(plan: Plan) -> Forecast:
    """Try one client's update and one client's evaluation; return what a whole run will take."""
    training, server, update = _trained(plan)
    evaluation = _evaluated(plan, server)
    # Memory last: what a step loads and takes is part of it.
    return Forecast(training, evaluation, _memory(plan, update), _workers(plan) + 1)


def seconds_of(plan: Plan) -> float:
    """Return about how long the training of a run takes on this machine, all cores used.

    One client's update is timed on a batch. Evaluations, measures at the end and what else
    the machine does come on top.
    """
    return _trained(plan)[0]


def seconds_left(plan: StudyPlan) -> float:
    """Return about how long the runs of a study that are not finished will train."""
    total = 0.0
    for entry in plan.entries:
        choice = entry.choices[0]
        seeds = [
            seed for seed in plan.config.seeds if not is_finished(plan.place(entry, choice, seed))
        ]
        if seeds:
            total += len(seeds) * seconds_of(plan.plan(choice, seeds[0]))
    return total


def _first_round(plan: Plan) -> RoundInfo:
    config = plan.config
    info = before_first_round(
        plan.population, rounds=config.rounds_made, sampled=config.sampled, seed=config.seed
    )
    return replace(info, round=1)


def _trained(plan: Plan) -> tuple[float, ServerState, ClientUpdate]:
    """Return the seconds of training, and the states that the tried step began and ended with."""
    config, population, method = plan.config, plan.population, plan.method
    info = _first_round(plan)
    members = population.partition.members
    data = population.data(members[0]).to(method.device)
    count = min(len(data), max(FEWEST, method.config.batch_size))
    with one_thread(), client_randomness(info, members[0]):
        server = method.start(info)
        state = method.first_state(server, info)
        method.client_update(server, state, data.first(WARMING), info)
        began = time.perf_counter()
        update, _ = method.client_update(server, state, data.first(count), info)
        spent = time.perf_counter() - began
    drawn = config.sampled or len(members)
    mean = statistics.fmean(len(population.rows(client)) for client in members)
    return spent / count * mean * drawn * config.rounds_made / _at_once(drawn), server, update


def _evaluated(plan: Plan, server: ServerState) -> float:
    """Return the seconds of all evaluations: the smallest member's one is timed."""
    config, population = plan.config, plan.population
    clients = choose_clients(population.partition, config.evaluate_clients, config.seed)
    if not clients:
        return 0.0
    info = _first_round(plan)
    sizes = {client: _samples(plan, client) for client in clients}
    smallest = min(clients, key=sizes.__getitem__)
    job = EvaluateJob(Serving(server, info, plan.rule, config.shots))
    with one_thread(), client_randomness(info, smallest):
        task = ClientTask(smallest, None)
        job(plan.method, population, task)
        began = time.perf_counter()
        job(plan.method, population, task)
        spent = time.perf_counter() - began
    times = -(-config.rounds_made // config.rounds_between)
    whole = spent / sizes[smallest] * sum(sizes.values())
    return times * whole / _at_once(len(clients))


def _samples(plan: Plan, client: str) -> int:
    partition = plan.population.partition
    return max(1, sum(partition.size(client, split) for split in ("train", "val", "test")))


def _at_once(clients: int) -> int:
    return min(available_cores(), clients)


def _workers(plan: Plan) -> int:
    """Return how many worker processes a run that is worth them has."""
    config = plan.config
    if config.backend in ("serial", "batched", "flower") or plan.method.device != "cpu":
        return 0
    workers = config.workers or available_cores()
    return workers if config.backend in ("processes", "flower-ray") or workers > 1 else 0


def _memory(plan: Plan, update: ClientUpdate) -> int | None:
    """Return about how much memory a run takes.

    This process has made a step of a client, as every worker will: it holds the libraries, the
    network and what training takes. Workers share the files of libraries with it, and look at the
    samples here instead of copies. The largest client's samples are floats while it is computed,
    and the server holds a round's updates.
    """
    held = _held()
    if held is None:
        return None
    population, drawn = plan.population, plan.config.sampled or 1
    samples = population.dataset.x.nbytes + population.dataset.y.nbytes
    largest = max(population.partition.size(client) for client in population.partition)
    of_client = largest * population.data(population.partition.clients[0]).x[:1].nbytes
    updates = drawn * (size_in_bytes(update.shared) + size_in_bytes(update.extra))
    here, own = held
    return here + of_client + updates + _workers(plan) * max(0, own - samples + of_client)


def _held() -> tuple[int, int] | None:
    """Return how many bytes this process holds, and how many of them no file is behind."""
    try:
        lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    except OSError:  # only Linux says
        return None
    kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return kilobytes["Rss"] * 1024, kilobytes["Anonymous"] * 1024
