"""Put runs beside each other, if they can be compared at all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from duotone.errors import RunError
from duotone.runs import Run, list_runs, load_run
from duotone.runs.pooled import Entry, Primary, pooled_results, refuse_unequal
from duotone.runs.study_results import read_results


def compare(runs: Sequence[Run | str | Path], *, anyway: bool = False) -> pl.DataFrame:
    """Return one row per run: what it was, and its scores with their spread over clients.

    Args:
        runs: Runs or their folders.
        anyway: Compare even what was not made from the same data and partition.

    Raises:
        RunError: A run is unfinished, or runs differ in data or partition.
    """
    opened = [item if isinstance(item, Run) else load_run(item) for item in runs]
    if not anyway:
        refuse_unequal(opened)
    rows: list[dict[str, Any]] = []
    for item in opened:
        summary, config = item.summary, item.config
        row: dict[str, Any] = {
            "run": item.path.name,
            "method": config.method["name"],
            "model": config.model,
            "data": config.data,
            "seed": config.seed,
            "rounds": summary["rounds"],
            "newcomers start": summary["newcomer_rule"],
        }
        for name, score in summary["scores"].items():
            row[name] = score["value"]
            row[f"{name}.std"] = score["std"]
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def compare_entries(
    entries: Sequence[Entry],
    *,
    reference: str | None = None,
    primary: Primary | None = None,
    anyway: bool = False,
) -> dict[str, Any]:
    """Return the scores of entries over their seeds, and the paired comparison with one of them.

    Args:
        entries: Runs by entry, as :func:`duotone.runs.pooled.pool` makes them.
        reference: The entry the others are compared with, if one was named; else fedavg if it is
            there, else the first.
        primary: The comparisons that a study declared before its runs; others get no verdict.
        anyway: Show even what was not made from the same data and partition; such entries have
            no clients in common, so nothing is tested.

    Raises:
        ConfigError: No entry is called like the reference.
        RunError: A run is unfinished, runs differ in data or partition, or a seed is there twice.
    """
    _refuse_repeated(entries)
    pairs = True
    try:
        refuse_unequal([run for entry in entries for run in entry.runs])
    except RunError:
        if not anyway:
            raise
        pairs = False
    results = pooled_results(entries, reference, primary)
    return results if pairs else {**results, "comparisons": [], "mean_ranks": {}}


def _refuse_repeated(entries: Sequence[Entry]) -> None:
    for entry in entries:
        for first, second in itertools.pairwise(entry.runs):
            if first.config.seed == second.config.seed:
                raise RunError(
                    f"{first.path} and {second.path} are the same run with the same seed, which "
                    "would count twice; give one of them."
                )


def reference_below(paths: Sequence[Path]) -> str | None:
    """Return the reference of the studies among some folders, if they have one, with runs."""
    studies = [read_results(path) for path in paths if (path / "study.json").exists()]
    found = {str(results["reference"]) for results in studies}
    entries = [entry for results in studies for entry in results["entries"]]
    has_runs = {entry["name"] for entry in entries if entry["runs"]}
    return found.pop() if len(found) == 1 and found <= has_runs else None


def declared_below(paths: Sequence[Path], named: str | None) -> tuple[str | None, Primary | None]:
    """Return the reference, and what was declared before the runs, if the paths are one study.

    What was declared are comparisons with the study's own reference: with another one that the user
    names, nothing was.

    Args:
        paths: Folders of runs and studies.
        named: The reference that the user names, if any.
    """
    reference = named or reference_below(paths)
    if len(paths) != 1 or not (paths[0] / "study.json").exists():
        return reference, None
    results = read_results(paths[0])
    return reference, results.get("primary") if reference == results["reference"] else None


def runs_below(paths: Sequence[Path]) -> dict[Path, str]:
    """Return the runs that folders stand for, and what a study calls each ("" outside of one).

    A run stands for itself, a study for the runs its entries were given, which leaves out those
    that lost its search; any other folder for all runs below it.
    """
    found: dict[Path, str] = {}
    for path in paths:
        if (path / "study.json").exists():
            for entry in read_results(path)["entries"]:
                found |= {path / run: str(entry["name"]) for run in entry["runs"]}
        elif (path / "run.json").exists():
            found[path] = ""
        else:
            below = list_runs(path)
            found |= {run.path: "" for run in below} if below else {path: ""}
    return found
