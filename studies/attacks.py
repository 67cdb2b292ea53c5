"""Twelve attacks on seven ways to aggregate, and on personalised methods.

python -m studies.attacks rules|methods RESULTS.json [--seeds 1 2 3] [--runs FOLDER] [--rounds N]

*rules*: FedAvg with every way to aggregate. *methods*: six methods with the mean and one robust
rule. Both under no attack and under each of twelve, with two of ten members hostile. A run that is
there already is not run again. Written after every run: accuracy of each honest member by seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import polars as pl

import duotone
from duotone.errors import DuotoneError
from duotone.federation.attacks import ATTACKS
from duotone.federation.robust import Rule

SETTINGS: dict[str, Any] = {
    "data": "digits",
    "model": "mlp",
    "latents": 0,
    "curve": [],
    "evaluate_every": 1000,
    "backend": "serial",
    "partition": {"scheme": "dirichlet", "clients": 10, "alpha": 5.0},
}
ROUNDS = 12
TRAINING = {"lr": 0.1, "epochs": 3, "momentum": 0.9, "batch_size": 32}
RULES: tuple[str, ...] = get_args(Rule)
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedavg-ft": {},
    "fedbn": {},
    "fedrep": {},
    "ditto": {},
    "fedvc": {},
}
ROBUST = "trimmed-mean"


def entries(table: str) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """Yield what to run: its name, the settings of its method, and the model if it needs one."""
    if table == "rules":
        for rule in RULES:
            yield rule, {"name": "fedavg", **TRAINING, "aggregate": rule}, None
        return
    for name, settings in METHODS.items():
        for rule in ("mean", ROBUST):
            method = {"name": name, **TRAINING, **settings, "aggregate": rule}
            yield f"{name}, {rule}", method, "mlp-bn" if name == "fedbn" else None


def scores(run: duotone.Run) -> dict[str, Any]:
    """Return the accuracy of each honest member in the last round, and what was noticed."""
    table = run.metrics
    last = table.filter(
        (pl.col("metric") == "accuracy")
        & (pl.col("kind") == "member")
        & (pl.col("round") == int(run.summary["rounds"]))
    )
    named = run.summary["scores"]
    more = {
        key: named[key]["value"]
        for key in ("refusals.hostile.noticed", "refusals.honest.noticed", "refusals.backdoor")
        if key in named
    }
    return {"accuracy": dict(zip(last["client"], last["value"], strict=True)), **more}


def finished(values: dict[str, Any], place: Path) -> dict[str, Any]:
    """Return the scores of a run, which is made or continued if it is not there yet."""
    try:
        if (place / "run.json").exists():
            run = duotone.load_run(place)
            run = run if run.status == "finished" else duotone.resume(place)
        else:
            run = duotone.run(values, out=place)
    except DuotoneError as error:  # that a rule gives up is a result
        return {"failed": str(error)}
    return scores(run)


def main() -> None:
    """Run one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("rules", "methods"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--runs", type=Path, default=Path("runs/attacks"))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {"settings": {**SETTINGS, "rounds": given.rounds}, "values": {}}
    for seed in given.seeds:
        for attack in ("none", *ATTACKS):
            for name, method, model in entries(given.table):
                values = {**SETTINGS, "rounds": given.rounds, "seed": seed, "method": method}
                if model:
                    values["model"] = model
                if attack != "none":
                    values["attack"] = {"name": attack, "share": 0.2}
                place = given.runs / given.table / attack / name.replace(", ", "-") / str(seed)
                result = finished(values, place)
                of_entry = found["values"].setdefault(attack, {}).setdefault(name, {})
                of_entry[str(seed)] = result
                given.results.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                known = result.get("accuracy", {}).values()
                shown = f"{100 * sum(known) / len(known):.1f}" if known else result.get("failed")
                sys.stdout.write(f"{attack} | {name} | seed {seed} | {shown}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
