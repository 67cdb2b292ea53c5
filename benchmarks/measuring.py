"""What measuring costs at the end of a default run of FedDVA, as a share of its training.

Every run is a process of its own, as a user starts it. Another checkout can take turns with this
one (``python benchmarks/measuring.py --before PATH``): what it costs before a change and after it
is then measured in the same hour, on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
SETTINGS = {"data": "digits", "style": "marks", "method": {"name": "feddva"}}

# Runs in a checkout that may be older than this file, so it needs little of it.
RUN = """
import json, sys, time
import duotone.runs.execute as execute
from duotone.runs.folder import RunFolder
from duotone.runs import plan_run

spent, known, finish = {}, execute.all_measures, execute._Execution._finish

def timed(name, function, *args):
    begin = time.perf_counter()
    try:
        return function(*args)
    finally:
        spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin

def measures(choice):
    found = known(choice)
    for measure in found:
        own = measure.measure
        measure.measure = lambda scene, own=own, name=measure.name: timed(name, own, scene)
    return found

execute.all_measures = measures
execute._Execution._finish = lambda self, *args: timed("all", finish, self, *args)
if hasattr(execute.Scene, "prepare"):
    prepare = execute.Scene.prepare
    execute.Scene.prepare = lambda self, wanted: timed("trained together", prepare, self, wanted)
begin = time.perf_counter()
from pathlib import Path
from duotone.cli.running import execute_all
execute_all([plan_run(json.loads(sys.argv[1]))], Path(sys.argv[2]), True)
whole = time.perf_counter() - begin
measuring = spent.pop("all")
print(json.dumps({
    "training": whole - measuring,
    "measuring": measuring,
    "by_measure": spent,
    "loads_compiler": "torch._dynamo" in sys.modules,
}))
"""


def one_run(checkout: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Carry out a run in a checkout; return its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", RUN, json.dumps(settings), f"{folder}/run"],
            env={**os.environ, "PYTHONPATH": str(checkout / "src")},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    found["share"] = found["measuring"] / found["training"]
    return found


def measure(*, short: bool, sweeps: int = 1, before: Path | None = None) -> dict[str, Any]:
    """Measure this checkout, and another one if it is given; print a table, return the figures."""
    settings = {**SETTINGS, "rounds": 4} if short else SETTINGS
    checkouts = {"before": before} if before is not None else {}
    checkouts["now"] = HERE.parent
    turns: dict[str, list[dict[str, Any]]] = {name: [] for name in checkouts}
    for _ in range(sweeps):
        for name, checkout in checkouts.items():
            turns[name].append(one_run(checkout, settings))
    print(f"\nMeasuring at the end of a run of FedDVA{', shortened' if short else ''}; seconds")
    print(f"{'':<10}{'training':>9}{'measuring':>11}{'share':>8}{'range':>16}  by measure")
    figures: dict[str, Any] = {}
    for name, own in turns.items():
        shares = [turn["share"] for turn in own]
        middle = min(own, key=lambda turn: abs(turn["share"] - median(shares)))
        slow = {key: value for key, value in middle["by_measure"].items() if value >= 0.1}
        shown = ", ".join(f"{key} {value:.1f}" for key, value in slow.items())
        print(
            f"{name:<10}{middle['training']:>9.1f}{middle['measuring']:>11.1f}"
            f"{middle['share']:>8.0%}{f'{min(shares):.0%} to {max(shares):.0%}':>16}  {shown}"
        )
        figures[name] = {"share": median(shares), "turns": own}
    return {"settings": settings, "sweeps": sweeps, "checkouts": figures}


def main() -> None:
    """Measure beside another checkout."""
    import run  # the common tool; it imports this file, too

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="another checkout, to take turns with")
    parser.add_argument("--sweeps", type=int, default=1, help="runs of each")
    parser.add_argument("--short", action="store_true", help="four rounds: shares are too high")
    options = parser.parse_args()
    facts = {"machine": run.machine(), "load_average": os.getloadavg()[0], "short": options.short}
    figures = measure(short=options.short, sweeps=options.sweeps, before=options.before)
    run.save("measuring.json", "measuring", facts | figures)


if __name__ == "__main__":
    main()
