"""What registered clients cost that do not take part.

Ten members train in a round, whatever the number of clients. Everybody else has taken part before:
the store knows a round for each of them. Each case has a process of its own. Seconds are of the
processor: what else runs there lengthens them less than the clock. The sources of another checkout
can be measured beside these.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

CLIENTS = (100, 10_000, 100_000, 1_000_000)
METHODS = ("fedavg", "fedrep")
SAMPLED = 10
TRAIN, TEST = 10, 2
SOURCES = Path(__file__).parent.parent / "src"
PARTS = ("partition_seconds", "partition_mb", "round", "commit", "commit_kb", "resume", "peak_mb")

T = TypeVar("T")


def timed(function: Callable[[], T]) -> tuple[T, float]:
    """Return what a function gives, and the processor seconds it took."""
    began = time.process_time()
    return function(), time.process_time() - began


def resident() -> float:
    """Return the memory of this process now, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def journals(folder: Path) -> int:
    """Return how many bytes of journals there are: these only grow."""
    return sum(path.stat().st_size for path in folder.glob("*.journal"))


def case(clients: int, name: str) -> dict[str, float]:
    """Measure one number of clients with one method, in this process."""
    from duotone.data.dataset import Dataset
    from duotone.federation.engine import before_first_round, federate, sample_clients
    from duotone.federation.store import FolderStore
    from duotone.methods import METHODS as KNOWN
    from duotone.networks.classifiers import mlp
    from duotone.partition import build_population
    from duotone.types import FarState

    rng = np.random.default_rng(0)
    x = rng.normal(size=(clients * (TRAIN + TEST), 4)).astype(np.float32)
    y = np.arange(len(x)) % 4
    cut = clients * TRAIN
    dataset = Dataset.from_arrays("scale", x[:cut], y[:cut], x[cut:], y[cut:])
    settings = {"clients": clients, "min_train": 2, "min_test": 0}
    before = resident()
    population, seconds = timed(lambda: build_population(dataset, "iid", settings, seed=0))
    found = {"partition_seconds": seconds, "partition_mb": resident() - before}
    kind = KNOWN.load(name)
    method = kind(kind.Config(epochs=1), mlp)
    info = before_first_round(population, rounds=2, sampled=SAMPLED, seed=0)
    drawn: set[str] = set()
    for round in (1, 2):
        told = replace(info, round=round)
        drawn |= set(sample_clients(population.partition.members, SAMPLED, told))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        store = FolderStore(folder)
        if name != "fedavg":  # its clients keep nothing
            for client in population.partition.clients:
                if client not in drawn:
                    store.put(1, client, FarState(round=1))
        rounds = federate(method, population, rounds=2, sampled=SAMPLED, states=store)
        store.commit(1, next(rounds).server, {})
        result, found["round"] = timed(lambda: next(rounds))
        size = journals(folder)
        _, found["commit"] = timed(lambda: store.commit(2, result.server, {}))
        manifest = (folder / "manifest.json").stat().st_size
        found["commit_kb"] = (manifest + journals(folder) - size) / 1e3
        _, found["resume"] = timed(lambda: FolderStore(folder))
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return found


def in_process(clients: int, name: str, sources: Path) -> dict[str, float]:
    """Measure a case in a process of its own."""
    command = [sys.executable, __file__, "--case", str(clients), name]
    environment = {**os.environ, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(*, short: bool, before: Path | None = None) -> dict[str, Any]:
    """Measure every case, print a table, and return the figures."""
    print("\nScale: 10 clients sampled; processor seconds, MB, and kB that a commit writes")
    print(f"{'':>8} {'method':>8} {'clients':>10}" + "".join(f"{part[:12]:>13}" for part in PARTS))
    figures: dict[str, Any] = {}
    for label, sources in (("after", SOURCES), ("before", before)):
        for name in METHODS:
            for clients in CLIENTS[:3] if short else CLIENTS:
                if sources is None:
                    continue
                found = in_process(clients, name, sources)
                figures.setdefault(label, {}).setdefault(name, {})[str(clients)] = found
                cells = "".join(f"{found[part]:>13.3g}" for part in PARTS)
                print(f"{label:>8} {name:>8} {clients:>10,}{cells}", flush=True)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", nargs=2, metavar=("CLIENTS", "METHOD"), required=True)
    options = parser.parse_args()
    print(json.dumps(case(int(options.case[0]), options.case[1])))
