"""What an exchange with real nodes costs: a server and many nodes on this machine, TLS and keys.

``python benchmarks/flower.py --nodes 3 10 30`` calls this. All nodes share this machine's cores and
memory, which nodes of a true federation do not; what one message costs the server, and what a node
needs, is measured apart, because that is what carries over.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROUNDS = 8
IDLE_SECONDS = 30
_COLD = (
    "import sys; from duotone.runs.flower_client import NodeSettings; whole = NodeSettings.text; "
    "NodeSettings.text = lambda self, worker: whole(self, ''); from duotone.cli import main; main()"
)
"""A node whose messages are told of no worker, so that each of their processes loads everything."""


class Nodes:
    """A federation in a folder, with its processes.

    Args:
        place: The folder.
        count: How many nodes.
        is_warm: Whether nodes have workers.
    """

    def __init__(self, place: Path, count: int, is_warm: bool) -> None:
        self.place, self.is_warm = place, is_warm
        self.names = [f"n{number:02d}" for number in range(count)]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        named = [part for name in self.names for part in ("--client", name)]
        self.duotone("init", "trial", *named, "--address", address)
        self.duotone("certs", "--folder", "trial")
        rng = np.random.default_rng(0)
        for name in self.names:
            x, y = rng.integers(0, 256, (12, 28, 28), dtype=np.uint8), np.arange(12) % 10
            np.savez(place / f"{name}.npz", x_train=x, y_train=y, x_test=x, y_test=y)
        config = (
            'rounds = {}\nlevel = "scores"\nevaluate_every = {}\nsampled = {}\nmodel = "cnn-bn"\n'
        )
        text = config.format(ROUNDS, ROUNDS, count) + "[partition]\nvalidation = 0\n"
        text += "min_train = 1\nmin_test = 1\n[method]\nname = 'fedavg'\nepochs = 1\n"
        (place / "run.toml").write_text(text, encoding="utf-8")

    def duotone(self, *arguments: str) -> str:
        """Call a command and return what it says."""
        command = [sys.executable, "-m", "duotone", "flower", *arguments]
        done = subprocess.run(command, cwd=self.place, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return done.stdout

    def start(self) -> None:
        """Start the server, then all nodes, and wait until they are connected."""
        self._open("server", [sys.executable, "-m", "duotone", "flower", "server"])
        self._until(lambda: "listens on" in self.log("server"), 300)
        how = ["-m", "duotone"] if self.is_warm else ["-c", _COLD]
        for name in self.names:
            client = ["flower", "client", name, "--data", f"{name}.npz"]
            self._open(name, [sys.executable, *how, *client])
            if len(self.processes) % 4 == 0:
                time.sleep(4)  # loading torch thirty times at once would need all of the memory
        self._until(self._all_online, 600)

    def _all_online(self) -> bool:
        return self.duotone("status", "--folder", "trial").count(": online") == len(self.names)

    def _until(self, is_so: Any, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > until:
                raise RuntimeError(self.log("server")[-2000:])
            time.sleep(3)

    def _open(self, name: str, command: list[str]) -> None:
        with (self.place / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*command, "--folder", "trial"], cwd=self.place, stdout=log, stderr=log
            )

    def log(self, name: str) -> str:
        """Return what a process has said."""
        return (self.place / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """End all processes."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def running(count: int, is_warm: bool) -> Iterator[Nodes]:
    """Run a federation for as long as it is needed."""
    with tempfile.TemporaryDirectory() as place:
        nodes = Nodes(Path(place), count, is_warm)
        try:
            nodes.start()
            yield nodes
        finally:
            nodes.stop()


def tree(pid: int) -> list[int]:
    """Return a process and all that it started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process and all that it started, ended ones included."""
    ticks = 0
    for one in tree(pid):
        with suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> float:
    """Return the memory of a process and all that it started; shared pages count once."""
    total = 0
    for one in tree(pid):
        with suppress(OSError):
            for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


def measured(count: int, is_warm: bool, seconds_between: Any) -> dict[str, Any]:
    """Return what one federation of some nodes costs: idle, and per exchange."""
    with running(count, is_warm) as nodes:
        server, node = nodes.processes["server"].pid, nodes.processes[nodes.names[0]].pid
        before = {pid: cpu_seconds(pid) for pid in (server, node)}
        time.sleep(IDLE_SECONDS)
        idle = {pid: (cpu_seconds(pid) - before[pid]) / IDLE_SECONDS for pid in (server, node)}
        held = {"server": megabytes(server), "node": megabytes(node)}
        before = {pid: cpu_seconds(pid) for pid in (server, node)}
        nodes.duotone("submit", "run.toml", "--folder", "trial", "--out", "run", "-q")
        used = {pid: cpu_seconds(pid) - before[pid] for pid in (server, node)}
        rounds = seconds_between(nodes.place / "run")
    # Enrolling, each round, and at the end evaluation, calibration and the model that is kept.
    exchanges = ROUNDS + 4
    return {
        "seconds": rounds[1:-1],  # the first loads things, the last also evaluates
        "median": median(rounds[1:-1]),
        "server_idle_cpu_per_node": idle[server] / count,
        "node_idle_cpu": idle[node],
        "server_cpu_per_message": used[server] / exchanges / count,
        "node_cpu_per_message": used[node] / exchanges,
        "megabytes": held,
        "load": os.getloadavg()[0],
    }
