"""Peak memory of a run, by the number of registered clients.

The samples are always the same number, dealt out to more and more clients. Each run has a process
of its own, so that nothing is inherited, and is watched from outside.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from duotone.federation.backends.processes import Processes
from duotone.federation.engine import federate
from duotone.federation.serving import Serving
from duotone.federation.settings import MethodSettings
from duotone.federation.store import FolderStore
from duotone.measures.evaluation import choose_clients, evaluate
from duotone.networks.classifiers import cnn
from workloads import WORKERS, LocalHead, make_population

CLIENTS = (100, 1_000, 10_000)
SAMPLED = 10
ROUNDS = 3
WATCH_EVERY_SECONDS = 0.1


@dataclass(slots=True)
class Peak:
    """The most memory seen, in MB.

    Attributes:
        parent: Resident memory of the process that runs the rounds, by the kernel's own record.
        workers: The same, summed over its workers; what they share counts for each of them.
        together: Proportional share of all processes at one instant; shared memory counts once.
    """

    parent: float = 0.0
    workers: float = 0.0
    together: float = 0.0

    def watch(self, process: int) -> None:
        """Look at a process and its workers now."""
        workers = children(process)
        self.parent = max(self.parent, megabytes(process, "status", "VmHWM"))
        self.workers = max(self.workers, sum(megabytes(w, "status", "VmHWM") for w in workers))
        shares = [megabytes(one, "smaps_rollup", "Pss") for one in (process, *workers)]
        self.together = max(self.together, sum(shares))


def children(process: int) -> list[int]:
    """Return the child processes of a process."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in read(task).split()]


def megabytes(process: int, file: str, field: str) -> float:
    """Return one field of a process's memory account; 0 if the process has ended."""
    for line in read(Path(f"/proc/{process}/{file}")).splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    return 0.0


def read(path: Path) -> str:
    """Return a file of /proc; empty if its process is gone."""
    try:
        return path.read_text()
    except OSError:
        return ""


def run(clients: int, samples: int, connection: Connection) -> None:
    """Carry out a run of a method whose clients keep a part, and wait to be looked at."""
    settings = MethodSettings(batch_size=32, epochs=1, lr=0.05, lr_decay=1.0)
    method = LocalHead(settings, cnn)
    # Two thirds of a client's samples train, so that the smallest clients still have test samples.
    each = samples // clients
    train = 2 * each // 3
    population = make_population((28, 28), clients, train, each - train)
    evaluated = choose_clients(population.partition, SAMPLED, seed=0)
    with (
        tempfile.TemporaryDirectory() as folder,
        Processes(method, population, WORKERS) as backend,
    ):
        store = FolderStore(Path(folder))
        for result in federate(
            method,
            population,
            rounds=ROUNDS,
            sampled=SAMPLED,
            backend=backend,
            states=store,
        ):
            serving = Serving(result.server, result.info, "zero-shot")
            evaluate(serving, evaluated, population, store, backend)
            store.commit(result.info.round, result.server, {})
        connection.send("finished")
        connection.recv()


def peak_of(clients: int, samples: int) -> Peak:
    """Carry out a run in a fresh process and return its peak."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=run, args=(clients, samples, theirs), daemon=True)
    process.start()
    theirs.close()
    assert process.pid is not None
    peak = Peak()
    while not ours.poll():
        peak.watch(process.pid)
        time.sleep(WATCH_EVERY_SECONDS)
    ours.recv()  # raises if the run failed, because nobody is left on the other side
    peak.watch(process.pid)
    ours.send("seen")
    process.join()
    return peak


def measure(*, short: bool) -> dict[str, Any]:
    """Measure every number of clients, print a table, and return the figures."""
    samples = 20_000 if short else 60_000
    print(f"\nMemory: {samples} samples, {SAMPLED} clients sampled, {ROUNDS} rounds; peaks in MB")
    print(f"{'clients':>8} {'parent':>8} {'workers':>8} {'together':>9} {'vs first':>9}")
    peaks: dict[str, Any] = {}
    first = 0.0
    for clients in CLIENTS:
        peak = peak_of(clients, samples)
        first = first or peak.together
        growth = peak.together / first
        peaks[str(clients)] = {**asdict(peak), "growth": growth}
        print(
            f"{clients:>8} {peak.parent:>8.0f} {peak.workers:>8.0f} {peak.together:>9.0f} "
            f"{growth:>8.2f}×"
        )
    return {"samples": samples, "sampled": SAMPLED, "rounds": ROUNDS, "peaks": peaks}
