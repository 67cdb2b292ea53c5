"""What registered clients cost that do not take part, and what those cost that do.

Ten members train in a round, whatever the number of clients. Everybody else has taken part before:
the store knows a round for each of them. Each case has a process of its own. Seconds are of the
processor: what else runs there lengthens them less than the clock. The sources of another checkout
can be measured beside these.

The updates of a round are counted apart: the most memory of a round with more and more clients
drawn, beyond that of a round with none of their models in memory. And a whole run with a million
clients is started by the command line, killed after a round, resumed, shown and reported.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
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
UPDATES = ((256, 10), (256, 100), (256, 1_000), (1_300, 10), (1_300, 100))
"""Width of a network with two hidden layers (1 and 10 MB with 500 inputs), and clients drawn."""

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
    found["load_average"] = os.getloadavg()[0]
    return found


class Wide:
    """A network of a given width, for any data; a class, so that it has a name to be found by."""

    def __init__(self, width: int) -> None:
        self.width = width

    def __call__(self, data: Any) -> Any:
        """Return the network."""
        from torch import nn

        layers = [nn.Linear(data.shape[0], self.width), nn.ReLU()]
        layers += [nn.Linear(self.width, self.width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(self.width, data.outputs))


def updates(width: int, sampled: int) -> dict[str, float]:
    """Measure the memory of one round with so many clients drawn, in this process."""
    from duotone.data.dataset import Dataset
    from duotone.federation.engine import before_first_round, federate, size_in_bytes
    from duotone.methods import METHODS as KNOWN
    from duotone.partition import build_population

    rng = np.random.default_rng(0)
    x = rng.normal(size=(sampled * 3, 500)).astype(np.float32)
    y = np.arange(len(x)) % 4
    cut = sampled * 2
    dataset = Dataset.from_arrays("scale", x[:cut], y[:cut], x[cut:], y[cut:])
    settings = {"clients": sampled, "min_train": 1, "min_test": 0}
    population = build_population(dataset, "iid", settings, seed=0)
    kind = KNOWN.load("fedavg")
    method = kind(kind.Config(epochs=1), Wide(width))
    model = method.start(before_first_round(population, rounds=1, sampled=None, seed=0)).shared
    with tempfile.TemporaryDirectory() as place:
        one = federate(method, population, rounds=1, sampled=1, scratch=Path(place))
        next(one)  # whatever torch loads and keeps
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        rounds = federate(method, population, rounds=1, scratch=Path(place))
        _, seconds = timed(lambda: next(rounds))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"model_mb": size_in_bytes(model) / 1e6, "round_mb": peak - before, "round": seconds}


def whole(name: str) -> dict[str, dict[str, float]]:
    """Run a million clients by the command line, kill, resume, show and report; measure each."""
    clients, rng = CLIENTS[-1], np.random.default_rng(0)
    y = rng.integers(0, 4, clients * 3)
    x = rng.normal(size=(len(y), 4)).astype(np.float32)
    x[np.arange(len(y)), y] += 2
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        data, run, cut = f"{place}/million.npz", f"{place}/run", clients * 2
        np.savez(data, x_train=x[:cut], y_train=y[:cut], x_test=x[cut:], y_test=y[cut:])
        options = f"--clients {clients} --rounds 3 --sampled 100 --partition iid --measure fast"
        chosen = ("min_train=1", "min_test=0")
        settings = [word for one in chosen for word in ("--set", f"partition.{one}")]
        begin = ["run", name, "--data", data, "--out", run, "-q", *options.split(), *settings]
        manifest = Path(run, "checkpoints", "manifest.json")
        found["killed"] = command(begin, until=lambda: _round(manifest) >= 1)
        found["resume"] = command(["resume", run, "-q"])
        found["show"] = command(["show", run])
        found["report"] = command(["report", run])
        found["report"]["file_mb"] = Path(run, "report.html").stat().st_size / 1e6
    return found


def _round(manifest: Path) -> int:
    return int(json.loads(manifest.read_text())["round"]) if manifest.exists() else 0


def command(words: list[str], until: Callable[[], bool] | None = None) -> dict[str, float]:
    """Measure one command; kill it as soon as something is so."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    began = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-m", "duotone", *words], env=environment, stdout=subprocess.DEVNULL
    )
    while until is not None and child.poll() is None:
        if until():
            child.send_signal(signal.SIGKILL)
            break
        time.sleep(0.02)
    _, status, used = os.wait4(child.pid, 0)
    if os.waitstatus_to_exitcode(status) != (0 if until is None else -signal.SIGKILL):
        raise RuntimeError(f"duotone {' '.join(words)} ended with status {status}")
    return {
        "clock": time.monotonic() - began,
        "processor": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1e3,
        "load_average": os.getloadavg()[0],
    }


def in_process(*case: object, sources: Path) -> dict[str, float]:
    """Measure a case in a process of its own."""
    command = [sys.executable, __file__, "--case", *map(str, case)]
    environment = {**os.environ, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(*, short: bool, before: Path | None = None) -> dict[str, Any]:
    """Measure every case, print a table, and return the figures."""
    print("\nScale: 10 clients sampled; processor seconds, MB, and kB that a commit writes")
    print(f"{'':>8} {'method':>8} {'clients':>10}" + "".join(f"{part[:12]:>13}" for part in PARTS))
    figures: dict[str, Any] = {}
    for name in METHODS:
        for clients in CLIENTS[:3] if short else CLIENTS:
            for label, sources in (("after", SOURCES), ("before", before)):
                if sources is None:
                    continue
                found = in_process(clients, name, sources=sources)
                figures.setdefault(label, {}).setdefault(name, {})[str(clients)] = found
                cells = "".join(f"{found[part]:>13.3g}" for part in PARTS)
                print(f"{label:>8} {name:>8} {clients:>10,}{cells}", flush=True)
    for width, sampled in UPDATES[:2] if short else UPDATES:
        for label, sources in (("after", SOURCES), ("before", before)):
            if sources is not None:
                found = in_process("updates", f"{width}x{sampled}", sources=sources)
                figures[label].setdefault("updates", {})[f"{width}x{sampled}"] = found
                told = {key: round(value, 1) for key, value in found.items()}
                print(f"{label:>8} {sampled:>5} clients drawn: {told}", flush=True)
    if not short:
        figures["whole"] = {name: whole(name) for name in METHODS}
        print(json.dumps(figures["whole"], indent=1), flush=True)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", nargs=2, metavar=("CLIENTS", "METHOD"), required=True)
    first, second = parser.parse_args().case
    if first == "updates":
        print(json.dumps(updates(*map(int, second.split("x")))))
    else:
        print(json.dumps(case(int(first), second)))
