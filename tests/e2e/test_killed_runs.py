"""A run that is killed again and again ends as if nothing had happened."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "duotone"]
SETTINGS = [
    *("run", "local", "--data", "mini-digits", "--partition", "dirichlet", "--clients", "6"),
    *("--sampled", "3", "--rounds", "40", "--set", "model=mlp", "--set", "partition.newcomers=1"),
    *("--set", "partition.alpha=1", "--set", "partition.min_train=5", "--set", "latents=3"),
    *("--set", "evaluate_every=10", "--set", "backend=processes", "--set", "workers=2", "-q"),
]


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


def kill_at_random(arguments: list[str], folder: Path, rng: random.Random) -> bool:
    """Start a command and kill it at a random instant; return whether it had already ended."""
    with subprocess.Popen([*COMMAND, *arguments], cwd=folder) as process:
        while not (folder / "run" / "run.json").exists() and process.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 6))
        ended = process.poll() is not None
        workers = workers_of(process.pid)
        process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 120  # a worker that is still importing notices late
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < deadline, "a worker outlived its run"
        time.sleep(0.02)
    return ended


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed")
    subprocess.run([*COMMAND, *SETTINGS, "--out", "run"], cwd=folder, check=True)
    return files(folder / "run")


def assert_survives(folder: Path, undisturbed: dict[str, bytes], kills: int, seed: int) -> None:
    rng = random.Random(seed)
    arguments = [*SETTINGS, "--out", "run"]
    done = 0
    while done < kills:
        if kill_at_random(arguments, folder, rng):
            # It was faster than the clock: begin again, so that every kill hits a living run.
            folder = folder / "again"
            folder.mkdir()
            arguments = [*SETTINGS, "--out", "run"]
            continue
        done += 1
        arguments = ["resume", "run", "-q"]
    subprocess.run([*COMMAND, "resume", "run", "-q"], cwd=folder, check=True)
    assert files(folder / "run") == undisturbed


def test_five_kills_leave_no_trace(tmp_path, undisturbed):
    assert_survives(tmp_path, undisturbed, kills=5, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_kills_leave_no_trace(tmp_path, undisturbed, seed):
    assert_survives(tmp_path, undisturbed, kills=5, seed=seed)
