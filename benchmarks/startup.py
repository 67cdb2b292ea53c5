"""How long it takes until something happens: imports, commands, workers, the first round; memory.

Everything is a process of its own, and all take turns. A share of ``import torch`` in the same
turns says more than seconds: nothing that trains can be faster than that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from memory import children, megabytes

COMMANDS = {
    "import torch": ["-c", "import torch"],
    "import duotone": ["-c", "import duotone"],
    "duotone.run": ["-c", "import duotone; duotone.run"],
    "duotone --help": ["-m", "duotone", "--help"],
    "duotone methods": ["-m", "duotone", "methods"],
    "duotone datasets": ["-m", "duotone", "datasets"],
    "duotone runs": ["-m", "duotone", "runs"],
}
LARGEST = {
    "cnn-bn": {"method": {"name": "fedavg"}, "model": "cnn-bn"},
    "feddva": {"method": {"name": "feddva"}},
    "padpaf": {"method": {"name": "padpaf"}},
}
FIRST_ROUND = """
import json, sys, time
from duotone.federation.backends.choice import make_backend
from duotone.federation.engine import federate
from duotone.runs import plan_run
plan = plan_run({"data": "digits", "style": "marks", "method": {"name": "feddva"},
                 "backend": sys.argv[1]})
with make_backend(plan.method, plan.population, plan.config, print) as backend:
    begin = time.perf_counter()
    if sys.argv[1] == "processes":
        backend.is_ready(patience=None)
    else:
        next(federate(plan.method, plan.population, rounds=1, sampled=plan.config.sampled,
                      backend=backend))
    print(json.dumps(time.perf_counter() - begin))
"""


def seconds_of(arguments: list[str]) -> float:
    """Return how long a Python process takes, with its output thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments], cwd=folder, capture_output=True, check=True, env=_paths()
        )
        return time.perf_counter() - begin


def told_by(backend: str) -> float:
    """Return the seconds until workers are ready, or of a first round, as the process says."""
    found = subprocess.run(
        [sys.executable, "-c", FIRST_ROUND, backend],
        capture_output=True,
        check=True,
        text=True,
        env=_paths(),
    )
    return float(json.loads(found.stdout.splitlines()[-1]))


def _paths() -> dict[str, str]:
    """Let processes import the same checkout, wherever they run."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def peaks_of(settings: Mapping[str, Any]) -> dict[str, float]:
    """Carry out two rounds and all measures; return the most memory of parent and any worker."""
    every = {"data": "digits", "style": "marks", "rounds": 2, "backend": "processes", **settings}
    code = "import json, sys, duotone; duotone.run(**json.loads(sys.argv[1]), out=sys.argv[2])"
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, json.dumps(every), f"{folder}/run"],
            env=_paths(),
            stdout=subprocess.DEVNULL,
        )
        peaks = {"parent": 0.0, "worker": 0.0}
        while process.poll() is None:
            workers = [megabytes(child, "status", "VmHWM") for child in children(process.pid)]
            parent = megabytes(process.pid, "status", "VmHWM")
            peaks = {
                "parent": max(peaks["parent"], parent),
                "worker": max(peaks["worker"], *workers, 0.0),
            }
            time.sleep(0.05)
    if process.returncode:
        raise RuntimeError(f"the run of {settings} failed")
    return peaks


def measure(*, short: bool, sweeps: int = 3) -> dict[str, Any]:
    """Measure everything, print tables, and return the figures."""
    turns: dict[str, list[float]] = {name: [] for name in COMMANDS}
    rounds: dict[str, list[float]] = {"serial": [], "auto": [], "processes": []}
    for _ in range(sweeps):
        for name, arguments in COMMANDS.items():
            turns[name].append(seconds_of(arguments))
        for backend in rounds:
            rounds[backend].append(told_by(backend))
    torch_alone = min(turns["import torch"])
    print(f"\n{'start-up':<18}{'best s':>8}{'worst s':>9}{'of import torch':>17}")
    for name, own in turns.items():
        print(f"{name:<18}{min(own):>8.2f}{max(own):>9.2f}{min(own) / torch_alone:>17.2f}")
    ratios = [auto / serial for auto, serial in zip(rounds["auto"], rounds["serial"], strict=True)]
    ready = min(rounds["processes"])
    print(f"workers ready: {ready:.2f} s, {ready / torch_alone:.2f} of import torch; first round, ")
    print(f"auto / serial: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    peaks: dict[str, Any] = {}
    print(f"\n{'peak MB':<18}{'parent':>8}{'largest worker':>16}")
    for name, settings in LARGEST.items():
        if short and name == "padpaf":
            continue
        peaks[name] = peaks_of(settings)
        print(f"{name:<18}{peaks[name]['parent']:>8.0f}{peaks[name]['worker']:>16.0f}")
    return {"sweeps": sweeps, "seconds": turns, "first_round": rounds, "peaks_mb": peaks}
