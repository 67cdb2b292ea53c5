"""Clients side by side: training rounds of FedAvg and FedPer with an MLP on a table.

``python benchmarks/batched.py`` divides ``planted-table`` among 10, 50 and 200 clients, who all
train in every round, and lets three backends take turns round by round: one client after the other,
worker processes, and clients side by side in one process. A second table gives every client the
270 training samples that a client of ``planted-table`` has by itself. A ratio is the time of
``serial`` over that of the same turn of another; its median and its quartiles are written.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from statistics import quantiles
from time import perf_counter
from typing import Any

import numpy as np
import torch

from duotone.data.planted import planted_table
from duotone.federation.backends.batched import Batched
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, federate
from duotone.methods import METHODS
from duotone.networks.classifiers import mlp
from duotone.partition import Population, build_population
from duotone.partition.partition import Holding, Partition

CLIENTS = (10, 50, 200)
SAMPLES = 270
WORKERS = 2
RESULTS = Path(__file__).parent / "results" / "batched.json"


def divided(clients: int) -> Population:
    """Return the rows of the table, divided among clients."""
    return build_population(planted_table(), "iid", {"clients": clients}, seed=0)


def equal(clients: int) -> Population:
    """Return clients with as many rows as the table's own have; rows are drawn for each anew."""
    data = planted_table()
    rng = np.random.default_rng(0)
    rows = np.flatnonzero(~data.is_test)
    none = np.arange(0)
    holdings = [
        Holding(f"c{i}", "g", "member", rng.choice(rows, SAMPLES, replace=False), none, none)
        for i in range(clients)
    ]
    return Population(data, Partition.from_holdings(holdings))


def measured(name: str, population: Population, turns: int) -> dict[str, Any]:
    """Return the seconds of every backend's rounds, and how their results differ."""
    kind = METHODS.load(name)
    method = kind(kind.Config(), mlp)
    pool = Processes(method, population, WORKERS)
    pool.is_ready(patience=None)
    backends = {
        "serial": Serial(method, population),
        "processes": pool,
        "batched": Batched(method, population),
    }
    rounds = {}
    states = {label: MemoryStates() for label in backends}
    for label, backend in backends.items():
        rounds[label] = federate(
            method, population, rounds=turns + 1, backend=backend, states=states[label]
        )
    seconds: dict[str, list[float]] = {label: [] for label in backends}
    last = {}
    for _ in range(turns + 1):
        for label, own in rounds.items():
            began = perf_counter()
            last[label] = next(own)
            seconds[label].append(perf_counter() - began)
    pool.close()
    ours, theirs = last["batched"].server.shared, last["serial"].server.shared
    difference = max(float((ours[key] - theirs[key]).abs().max()) for key in theirs)
    return {"seconds": {label: own[1:] for label, own in seconds.items()}, "difference": difference}


def ratios(seconds: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    """Return how many times as fast as one client after the other each backend is."""
    found = {}
    for label, own in seconds.items():
        each = [a / b for a, b in zip(seconds["serial"], own, strict=True)]
        low, middle, high = quantiles(each, n=4, method="inclusive")
        found[label] = {"median": middle, "low": low, "high": high}
    return found


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=12, help="rounds of every backend")
    given = parser.parse_args()
    content: dict[str, Any] = {
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "load_average": os.getloadavg()[0],
        "turns": given.turns,
        "rounds": {},
    }
    for title, make in (("divided", divided), ("equal", equal)):
        for clients in CLIENTS:
            population = make(clients)
            for name in ("fedavg", "fedper"):
                figures = measured(name, population, given.turns)
                figures["ratio"] = ratios(figures["seconds"])
                content["rounds"][f"{title}/{clients}/{name}"] = figures
                shown = ", ".join(
                    f"{label} {r['median']:.1f}× ({r['low']:.1f} to {r['high']:.1f})"
                    for label, r in figures["ratio"].items()
                    if label != "serial"
                )
                print(f"{title:8}{clients:4} clients, {name}: {shown}", flush=True)
    rounded = json.loads(
        json.dumps(content), parse_float=lambda digits: float(f"{float(digits):.4g}")
    )
    RESULTS.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
