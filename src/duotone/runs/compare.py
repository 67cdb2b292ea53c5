"""Put runs beside each other, if they can be compared at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from duotone.errors import RunError
from duotone.runs import Run, load_run


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
        _refuse_unequal(opened)
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


def _refuse_unequal(runs: Sequence[Run]) -> None:
    """Runs of one seed must share data and partition; runs of other seeds, their description."""
    first = runs[0]
    by_seed = {first.config.seed: first}
    for run in runs[1:]:
        for what in ("data", "style", "partition"):
            a, b = getattr(first.config, what), getattr(run.config, what)
            if a != b:
                raise _unequal(first, run, f"{what} {_brief(a, b)} against {_brief(b, a)}")
        twin = by_seed.setdefault(run.config.seed, run)
        for what in ("data_fingerprint", "partition_fingerprint"):
            if twin.folder.facts()[what] != run.folder.facts()[what]:
                raise _unequal(twin, run, f"the {what.replace('_', ' ')} differs")


def _unequal(first: Run, second: Run, difference: str) -> RunError:
    return RunError(
        f"{first.path} and {second.path} cannot be compared: {difference}. A difference in scores "
        "would say nothing about the methods; --anyway shows them all the same."
    )


def _brief(value: Any, other: Any) -> str:
    if isinstance(value, dict) and isinstance(other, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items() if other.get(k) != v) or "{}"
    return str(value)
