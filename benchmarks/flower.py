"""What Flower's messages cost per exchange: every client is asked once and answers.

``python benchmarks/flower.py`` trains FedAvg with 3, 10 and 30 clients that hardly have anything to
train, so that what is left is the way there and back: in one process, in worker processes, and over
Flower's messages on this machine. ``--nodes 3 10 30`` also measures true federations of that many
nodes, all on this machine, with warm and with cold workers: see ``flower_nodes.py``. What was
measured before stays in the results until it is measured again.
"""

from __future__ import annotations

import argparse
import json
import os
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from duotone.data.dataset import Dataset
from duotone.federation.backends import Backend
from duotone.federation.backends.flower import OneMachineFlower
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import federate
from duotone.federation.method import Method
from duotone.methods import METHODS
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network
from duotone.partition import Population, build_population
from flower_nodes import measured

CLIENTS = (3, 10, 30)
ROUNDS = 12
WORKERS = 2
RESULTS = Path(__file__).parent / "results" / "flower.json"


def population_of(clients: int) -> Population:
    """Return clients with ten samples each."""
    rng = np.random.default_rng(0)
    rows = clients * 12
    x = rng.integers(0, 256, (rows, 28, 28), dtype=np.uint8)
    y = np.arange(rows) % 10
    data = Dataset.from_arrays("noise", x, y, x[: clients * 2], y[: clients * 2])
    settings = {"clients": clients, "validation": 0}
    return build_population(data, "iid", settings, seed=0)


def backend_of(name: str, method: Method, population: Population) -> Backend:
    """Return a backend by its name."""
    if name == "processes":
        return Processes(method, population, WORKERS)
    return (Serial if name == "serial" else OneMachineFlower)(method, population)


def seconds_per_exchange(name: str, clients: int) -> list[float]:
    """Return the time of each round after the first two, which also load and start things."""
    kind = METHODS.load("fedavg")
    method = kind(kind.Config(epochs=1), as_network(cnn_bn))
    population = population_of(clients)
    times = []
    with backend_of(name, method, population) as backend:
        began = perf_counter()
        for _ in federate(method, population, rounds=ROUNDS, backend=backend):
            times.append(perf_counter() - began)
            began = perf_counter()
    return times[2:]


def seconds_between_commits(run: Path) -> list[float]:
    """Return how long each round of a finished run took."""
    stamps = [
        datetime.fromisoformat(line.split()[0])
        for line in (run / "log.txt").read_text(encoding="utf-8").splitlines()
        if " committed" in line or " starting after" in line
    ]
    return [(b - a).total_seconds() for a, b in pairwise(stamps)]


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[], help="also true nodes")
    given = parser.parse_args()
    content: dict[str, Any] = {"nodes": {}}
    if RESULTS.exists():
        content |= json.loads(RESULTS.read_text(encoding="utf-8"))
    content |= {"load": os.getloadavg()[0], "cores": os.cpu_count(), "exchanges": {}}
    for clients in CLIENTS:
        found = {}
        for name in ("serial", "processes", "flower"):
            times = seconds_per_exchange(name, clients)
            found[name] = {"median": median(times), "best": min(times), "all": times}
            print(f"{clients:3} clients, {name:9}: {1000 * median(times):7.1f} ms per exchange")
        content["exchanges"][str(clients)] = found
    for count in given.nodes:
        for how in ("warm", "cold"):
            found = measured(count, how == "warm", seconds_between_commits)
            content["nodes"].setdefault(str(count), {})[how] = found
            print(f"{count:3} true nodes, {how}: {found['median']:.1f} s per exchange")
    RESULTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
