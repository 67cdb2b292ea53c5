"""The results of a study: ``study.json`` for machines, ``study.md`` for people."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from duotone.errors import RunError
from duotone.files import write_atomically
from duotone.runs import Run
from duotone.runs.pooled import Entry, differing, identity, pooled_results, refuse_unequal
from duotone.runs.published import published_share
from duotone.runs.result_files import read_json
from duotone.runs.result_tables import curve_points, result_tables, settings_tables
from duotone.runs.study_plan import Choice, StudyEntry, StudyPlan


@dataclass
class Record:
    """What is known of an entry so far.

    Attributes:
        scores: Validation scores of what was tried, by its place among the choices and by seed.
        errors: Why a try failed, likewise.
        chosen: What the entry's own runs are made with.
        runs: The entry's own runs.
        failed: Why a run of its own failed, by seed.
        seconds: How long its runs took, those of the search included.
        done: How many of its runs are over.
    """

    scores: dict[int, dict[int, float]] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    chosen: Choice | None = None
    runs: list[Run] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    done: int = 0


def write_results(plan: StudyPlan, records: Mapping[str, Record]) -> None:
    """Write the results as they stand.

    Args:
        plan: The study.
        records: What is known of each entry, by its name.

    Raises:
        RunError: The data has changed since some of the runs were made.
    """
    runs = [run for record in records.values() for run in record.runs]
    if runs:
        refuse_unequal(runs)
    results = study_results(plan, records)
    write_atomically(plan.out / "study.json", f"{json_text(results)}\n".encode())
    write_atomically(plan.out / "study.md", study_markdown(results).encode())


def json_text(value: Any, indent: str = "") -> str:
    """Return JSON with a line for each list of plain values: all clients of a seed are one line.

    >>> print(json_text({"a": [1, 2], "b": {"c": 3}}))
    {
      "a": [1, 2],
      "b": {
        "c": 3
      }
    }
    """
    inner = f"{indent}  "
    if isinstance(value, Mapping) and value:
        rows = [
            f"{json.dumps(str(k), ensure_ascii=False)}: {json_text(v, inner)}"
            for k, v in value.items()
        ]
        opening, closing = "{}"
    elif isinstance(value, list | tuple) and any(isinstance(v, Mapping | list) for v in value):
        rows = [json_text(v, inner) for v in value]
        opening, closing = "[]"
    else:
        return json.dumps(value, ensure_ascii=False)
    lines = ",\n".join(f"{inner}{row}" for row in rows)
    return f"{opening}\n{lines}\n{indent}{closing}"


def read_results(path: Path) -> dict[str, Any]:
    """Return a study's ``study.json``.

    Raises:
        RunError: It is missing or damaged.
    """
    return read_results_file(path / "study.json")


def read_results_file(path: Path) -> dict[str, Any]:
    """Return the results that a file holds, such as one that was kept from a study's folder.

    Raises:
        RunError: It is missing, damaged or of another kind.
    """
    results = read_json(path)
    if "entries" not in results or "comparisons" not in results:
        raise RunError(f"{path} does not hold the results of a study: it is no study.json.")
    return results


def study_results(plan: StudyPlan, records: Mapping[str, Record]) -> dict[str, Any]:
    """Return what ``study.json`` says."""
    entries = [Entry(entry.name, tuple(records[entry.name].runs)) for entry in plan.entries]
    pooled = pooled_results(entries, plan.reference, plan.config.primary)
    configs = [(records[e.name].chosen or e.choices[0]).config for e in plan.entries]
    identities = [identity(config) for config in configs]
    differ = set(differing(identities))
    described = zip(plan.entries, configs, identities, pooled["entries"], strict=True)
    for entry, config, own, found in described:
        found["settings"] = {name: value for name, value in own.items() if name in differ}
        found |= _entry_facts(plan, entry, records[entry.name])
        found["published_share"] = published_share(config)
        points = curve_points(found["scores"])
        found["curve"] = {point: found["scores"][name] for point, name in points.items()}
    return {
        "title": plan.config.title,
        "complete": sum(record.done for record in records.values()) == plan.total,
        "seeds": plan.config.seeds,
        **({"search_seeds": plan.config.searched_with} if plan.config.search else {}),
        "settings": {name: v for name, v in identities[0].items() if name not in differ},
        **pooled,
    }


def _entry_facts(plan: StudyPlan, entry: StudyEntry, record: Record) -> dict[str, Any]:
    def relative(path: Path) -> str:
        return path.relative_to(plan.out).as_posix()

    searched = [
        {
            "values": dict(choice.searched),
            "score": None if place in record.errors else _mean(record.scores[place].values()),
            "scores": {str(seed): score for seed, score in record.scores.get(place, {}).items()},
            "error": record.errors.get(place),
            "default": choice.is_default,
            "chosen": choice is record.chosen,
            "runs": [
                relative(plan.place(entry, choice, seed)) for seed in plan.config.searched_with
            ],
        }
        for place, choice in enumerate(entry.choices)
        if choice.searched and (place in record.scores or place in record.errors)
    ]
    return {
        "chosen": dict(record.chosen.searched) if record.chosen else None,
        "search": searched,
        "runs": [relative(run.path) for run in record.runs],
        "failed": {str(seed): error for seed, error in record.failed.items()},
    }


def _mean(values: Collection[float]) -> float:
    return math.fsum(values) / len(values)


def study_markdown(results: Mapping[str, Any]) -> str:
    """Return the results of a study as a readable page."""
    seeds = ", ".join(map(str, results["seeds"]))
    head = f"# {results['title'] or 'Study'}\n\nSeeds: {seeds}.\n"
    if not results["complete"]:
        head += "\nThe study is not complete yet; these are the results so far.\n"
    failed = [
        f"- {entry['name']}, seed {seed}: {error}\n"
        for entry in results["entries"]
        for seed, error in entry["failed"].items()
    ]
    if failed:
        head += "\nFailed runs:\n\n" + "".join(failed)
    tables = [*result_tables(results), *settings_tables(results)]
    return "\n".join([head, *(table.markdown() for table in tables)])
