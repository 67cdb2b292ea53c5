"""What robust rules, screening and the ledger cost: ``python benchmarks/run.py --only overheads``.

Updates of a CNN with 0.42 M parameters, made up near one another; what a rule takes does not depend
on more. Beside them one client's training, one epoch over 600 images. All are seconds of the
processor on one thread, in turns within one process; the best turn of each counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch

from duotone.data.dataset import Dataset
from duotone.federation.aggregate import aggregated
from duotone.federation.backends import ClientTask
from duotone.federation.jobs import TrainJob
from duotone.federation.ledger import Ledger
from duotone.federation.robust import Rule
from duotone.federation.screening import Screen
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import cnn
from duotone.networks.reading import as_network
from duotone.partition import build_population
from duotone.types import ClientUpdate, Params, RoundInfo, ServerState

CLIENTS = (10, 25)
SAMPLES = 600
HOSTILE = 0.2
RULES: tuple[Rule, ...] = get_args(Rule)


def near(shared: Params, clients: int) -> list[ClientUpdate]:
    """Return updates that moved by about as much as each other, in all directions."""
    generator = torch.Generator().manual_seed(0)
    return [
        ClientUpdate(
            f"client-{number}",
            {n: t + 0.01 * torch.randn(t.shape, generator=generator) for n, t in shared.items()},
            SAMPLES,
            {},
            {"train_loss": 1.0},
        )
        for number in range(clients)
    ]


def one_client() -> tuple[ServerState, TrainJob, Callable[[], object]]:
    """Return the server before the first round, its job, and a client's training."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (SAMPLES + 10, 28, 28), dtype=np.uint8)
    y = np.arange(len(x)) % 10
    data = Dataset.from_arrays("made up", x[:-10], y[:-10], x[-10:], y[-10:])
    settings = {"clients": 1, "validation": 0.0, "min_test": 0}
    population = build_population(data, "iid", settings, seed=0)
    method = FedAvg(FedAvg.Config(epochs=1, batch_size=32), as_network(cnn))
    info = RoundInfo(1, 1, 0, population.info)
    server = method.start(replace(info, round=0))
    job = TrainJob(server, info)
    (name,) = population.partition.members
    return server, job, lambda: job(method, population, ClientTask(name, None))


def work(
    server: ServerState, job: TrainJob, updates: list[ClientUpdate]
) -> dict[str, Callable[[], object]]:
    """Return what a server does once a round, by name."""

    def screened() -> None:
        for update in updates:
            Screen(update.client, SAMPLES, lambda _: server.shared, {}, ("train_loss",)).passed(
                update
            )

    def written() -> str:
        ledger = Ledger()
        for update in updates:
            ledger.enter(job, update.client, update)
        return ledger.lines(job.info.round)

    rules = {
        rule: lambda rule=rule: aggregated(updates, server.shared, rule, HOSTILE) for rule in RULES
    }
    return {**rules, "screening": screened, "ledger": written}


def measure(*, short: bool, sweeps: int = 3) -> dict[str, Any]:
    """Measure everything, print tables, and return the figures."""
    torch.set_num_threads(1)
    server, job, train = one_client()
    turns: dict[str, dict[str, list[float]]] = {}
    for clients in CLIENTS[:1] if short else CLIENTS:
        todo = {"training of one": train, **work(server, job, near(server.shared, clients))}
        own = turns[str(clients)] = {name: [] for name in todo}
        for _ in range(sweeps + 1):  # the first is cold
            for name, act in todo.items():
                begin = time.process_time()
                act()
                own[name].append(time.process_time() - begin)
        best = {name: min(seconds[1:]) for name, seconds in own.items()}
        training = clients * best.pop("training of one")
        print(f"\n{clients} clients, {training:.1f} s of training in a round")
        print(f"{'':<18}{'s':>9}{'of mean':>9}{'of training':>13}")
        for name, seconds in best.items():
            shares = f"{seconds / best['mean']:>9.2f}{seconds / training:>13.2%}"
            print(f"{name:<18}{seconds:>9.4f}{shares}")
    return {"samples": SAMPLES, "hostile": HOSTILE, "seconds": turns}
