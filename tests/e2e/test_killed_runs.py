"""A run that is killed again and again ends as if nothing had happened."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "duotone"]
ROUNDS = 40
SETTINGS = [
    *("run", "local", "--data", "mini-digits", "--partition", "dirichlet", "--clients", "6"),
    *("--sampled", "3", "--rounds", f"{ROUNDS}", "--model", "mlp", "--out", "run", "-q"),
    *("--set", "partition.newcomers=1", "--set", "partition.alpha=1"),
    *("--set", "partition.min_train=5", "--set", "evaluate_every=10"),
    *("--set", "latents=3", "--set", "measure=fast"),
]
SERIAL = ("--set", "backend=serial")
IN_WORKERS = ("--set", "backend=processes", "--set", "workers=2")


def files(run: Path) -> dict[str, bytes]:
    """Return everything that must be equal: server, clients, metrics, summary, latents."""
    names = ["metrics.csv", "summary.json", "latents.npz"]
    paths = [run / name for name in names] + sorted(run.glob("checkpoints/**/*.*"))
    return {str(path.relative_to(run)): path.read_bytes() for path in paths}


def workers_of(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def round_of(run: Path) -> int:
    manifest = run / "checkpoints" / "manifest.json"
    return json.loads(manifest.read_text())["round"] if manifest.exists() else 0


def kill(arguments: Sequence[str], folder: Path, round: int, delay: float) -> None:
    """Start a command and kill it a while after a round is committed; with 0, before any is."""
    run = folder / "run"
    with subprocess.Popen([*COMMAND, *arguments], cwd=folder) as process:
        while not (run / "run.json").exists() or round_of(run) < round:
            assert process.poll() is None, "it was to live until it is killed"
            time.sleep(0.002)
        time.sleep(delay)
        workers = workers_of(process.pid)
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 120  # a worker that is still importing notices late
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline, "a worker outlived its run"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    subprocess.run([*COMMAND, *SETTINGS, *SERIAL], cwd=folder, check=True)
    return files(folder / "run")


def assert_survives(
    folder: Path, undisturbed: dict[str, bytes], backend: Sequence[str], seed: int
) -> None:
    """Kill a run before its first round, in three others, and while it is measured; go on."""
    rng = random.Random(seed)
    arguments = [*SETTINGS, *backend]
    for round in [0, *sorted(rng.sample(range(1, ROUNDS // 2), 3)), ROUNDS]:
        # Who is killed late has more rounds than were waited for.
        round = max(round, min(round_of(folder / "run") + 1, ROUNDS)) if round else 0
        kill(arguments, folder, round, rng.uniform(0, 0.05))
        arguments = ["resume", "run", "-q"]
    subprocess.run([*COMMAND, "resume", "run", "-q"], cwd=folder, check=True)
    assert files(folder / "run") == undisturbed


def test_five_kills_leave_no_trace(tmp_path, undisturbed):
    assert_survives(tmp_path, undisturbed, SERIAL, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_kills_leave_no_trace(tmp_path, undisturbed, seed):
    assert_survives(tmp_path, undisturbed, IN_WORKERS, seed)
