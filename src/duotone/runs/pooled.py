"""Pool runs that differ only in their seed, and compare what is left.

Several seeds of one configuration are one *entry*. Its scores are means over seeds with a
confidence interval; entries are compared in pairs, on the same clients of the same seeds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from duotone.config import RunConfig, flat, validated
from duotone.data import lasting_name
from duotone.errors import ConfigError, RunError
from duotone.measures.metrics import DIRECTIONS
from duotone.measures.statistics import (
    Comparison,
    SeedClient,
    compare_pairs,
    estimate,
    holm,
    mean_ranks,
    verdict,
)
from duotone.methods import METHODS
from duotone.partition import resolve_settings
from duotone.registry import check_file, did_you_mean
from duotone.runs import Run
from duotone.types import ROLES, Role

_FACTS = ("unit", "measure", "question", "part", "variant", "role")
"""What a score says of itself, seed by seed the same."""
Primary: TypeAlias = Mapping[Role, Sequence[str]]
"""Entries whose comparison with the reference was declared before the runs, by role."""
NOT_IN_RESULTS = ("seed", "backend", "workers", "device")
"""Settings that make no other entry: the seed, and how a result is computed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Runs that differ only in their seed.

    Attributes:
        name: What tables call it.
        runs: One run per seed, finished.
    """

    name: str
    runs: tuple[Run, ...]


def identity(config: RunConfig) -> dict[str, Any]:
    """Return the settings that make an entry, flat: ``{"rounds": 3, "method.lr": 0.1}``.

    Settings that a resolved configuration lacks, because they came later, count as their defaults.
    """
    values = config.model_dump(exclude=set(NOT_IN_RESULTS))
    values["data"] = lasting_name(config.data)  # older runs hold a path as it was given
    method, partition = dict(config.method), dict(config.partition)
    try:
        check_file(config.model_dump())
        method_class = METHODS.load(str(method.pop("name")))
        settings = validated(method_class.Config, method, owner="the method")
        values["method"] = {"name": config.method["name"], **settings.model_dump()}
        scheme = str(partition.pop("scheme"))
        values["partition"] = {"scheme": scheme, **resolve_settings(scheme, partition).model_dump()}
    except ConfigError:
        # A plug-in that is not here any more, or code that only the file names: its settings are
        # compared as they were written.
        pass
    found: dict[str, Any] = json.loads(json.dumps(dict(flat(values))))
    return found


def differing(identities: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the settings that are not the same in all, in their order."""
    names = dict.fromkeys(name for found in identities for name in found)
    return [
        name for name in names if any(i.get(name) != identities[0].get(name) for i in identities)
    ]


def pool(runs: Sequence[Run], names: Mapping[Path, str]) -> list[Entry]:
    """Put the seeds of each configuration together, in the order they first occur.

    Args:
        runs: Finished runs.
        names: What a run's entry is called, by the run's folder, where that is known. Others are
            called by their method and, where that is not enough, by the settings that differ.
    """
    found: dict[str, list[Run]] = {}
    for run in runs:
        name = names.get(run.path) or str(run.config.method["name"])
        key = name + json.dumps(identity(run.config), sort_keys=True)
        found.setdefault(key, []).append(run)
    called = _names([group[0] for group in found.values()], names)
    return [
        Entry(name, tuple(sorted(group, key=lambda run: run.config.seed)))
        for name, group in zip(called, found.values(), strict=True)
    ]


def _names(runs: Sequence[Run], names: Mapping[Path, str]) -> list[str]:
    """Return a different name for each run."""
    short = [names.get(run.path) or str(run.config.method["name"]) for run in runs]
    identities = [identity(run.config) for run in runs]
    result: list[str] = []
    for name, own in zip(short, identities, strict=True):
        rivals = [i for i, other in zip(identities, short, strict=True) if other == name]
        details = ", ".join(
            f"{key.removeprefix('method.')}={own.get(key, '–')}" for key in differing(rivals)
        )
        result.append(f"{name} ({details})" if details else name)
    return result


def choose_reference(names: Sequence[str], named: str | None) -> str:
    """Return the entry that others are compared with, everywhere by one rule.

    It is the one that was named, by the user or in the study's file; else ``fedavg`` if there is
    such an entry; else the first.

    Args:
        names: The entries.
        named: The one that was named, if any.

    Raises:
        ConfigError: No entry is called like that.
    """
    if named is not None and named not in names:
        raise ConfigError(
            f"There is no entry {named!r} to compare with.{did_you_mean(named, list(names))} "
            f"There are: {', '.join(names)}."
        )
    return named or ("fedavg" if "fedavg" in names else names[0])


def pooled_results(
    entries: Sequence[Entry], reference: str | None, primary: Primary | None = None
) -> dict[str, Any]:
    """Return the scores of entries over their seeds, and their comparison with one of them.

    Args:
        entries: What to compare; all on the same data and partition.
        reference: The name of the entry the others are compared with, if one was named; see
            :func:`choose_reference`.
        primary: The comparisons that were declared before the runs; others get no verdict.

    Raises:
        ConfigError: No entry is called like the reference.
    """
    reference = choose_reference([entry.name for entry in entries], reference)
    with_runs = [entry for entry in entries if entry.runs]
    metric = str(with_runs[0].runs[0].summary["headline"]) if with_runs else None
    return {
        "headline": metric,
        "reference": reference,
        "entries": [_entry_results(entry) for entry in entries],
        "primary": {role: list(names) for role, names in (primary or {}).items()},
        "comparisons": _comparisons(with_runs, reference, metric, primary or {}) if metric else [],
        "mean_ranks": {
            f"{role}.{metric}": mean_ranks(_values(with_runs, role, metric), DIRECTIONS[metric])
            for role in ROLES
            if metric
        },
    }


def _entry_results(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "seeds": [run.config.seed for run in entry.runs],
        "newcomer_rule": entry.runs[0].summary["newcomer_rule"] if entry.runs else None,
        "scores": pooled_scores([run.summary["scores"] for run in entry.runs]),
        "values": {role: found for role in ROLES if (found := _every_value(entry, role))},
        "seconds": sum(run.folder.facts()["seconds"] for run in entry.runs),
    }


def _every_value(entry: Entry, role: Role) -> dict[str, dict[str, list[Any]]]:
    """Return each metric of each client in the last round, by seed: clients in their order."""
    found: dict[str, dict[str, list[Any]]] = {}
    for run in entry.runs:
        last = run.metrics.filter(
            (pl.col("round") == run.summary["rounds"])
            & (pl.col("kind") == role)
            & (pl.col("part") == "both")
            & (pl.col("client") != "")  # what concerns all clients has a score of its own
        )
        table = last.pivot("metric", index="client", values="value").sort("client")
        if table.height:
            found[str(run.config.seed)] = {
                "clients": table["client"].to_list(),
                **{name: table[name].round(6).to_list() for name in table.columns[1:]},
            }
    return found


def pooled_scores(runs: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return for each score its mean over seeds, the interval, and the mean spread over clients.

    Args:
        runs: The ``scores`` of each seed's summary.
    """
    result: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(name for scores in runs for name in scores):
        found = [scores[name] for scores in runs if name in scores]
        result[name] = {
            **asdict(estimate([score["value"] for score in found])),
            "std": sum(score["std"] for score in found) / len(found),
            "direction": found[0]["direction"],
            "clients": found[0]["n"],
            **{fact: found[0][fact] for fact in _FACTS if fact in found[0]},
        }
    return result


def _values(entries: Sequence[Entry], role: str, metric: str) -> dict[str, dict[SeedClient, float]]:
    """Return for each entry what each client of each seed reached in the last round."""
    values: dict[str, dict[SeedClient, float]] = {}
    for entry in entries:
        values[entry.name] = {}
        for run in entry.runs:
            last = run.metrics.filter(
                (pl.col("round") == run.summary["rounds"])
                & (pl.col("kind") == role)
                & (pl.col("metric") == metric)
            )
            for client, value in last.select("client", "value").iter_rows():
                values[entry.name][run.config.seed, client] = value
    return values


def _comparisons(
    entries: Sequence[Entry], reference: str, metric: str, primary: Primary
) -> list[dict[str, Any]]:
    """Compare each entry with the reference; p is corrected for all that was declared."""
    direction = DIRECTIONS[metric]
    found: list[tuple[str, Role, Comparison]] = []
    for role in ROLES:
        values = _values(entries, role, metric)
        for name, own in values.items():
            if name != reference:
                comparison = compare_pairs(own, values.get(reference, {}), direction)
                if comparison is not None:
                    found.append((name, role, comparison))
    # What was declared counts even if its runs are not there yet: no p gets smaller later.
    missing = sum(len(names) for names in primary.values()) - sum(
        name in primary.get(role, ()) for name, role, _ in found
    )
    declared = [
        place
        for place, (name, role, comparison) in enumerate(found)
        if comparison.p is not None and name in primary.get(role, ())
    ]
    p_values = [found[place][2].p or 0.0 for place in declared]
    corrected = dict(zip(declared, holm([*p_values, *[1.0] * missing]), strict=False))
    return [
        {
            "entry": name,
            "reference": reference,
            "score": f"{role}.{metric}",
            "role": role,
            "metric": metric,
            **asdict(comparison),
            "corrected_p": corrected.get(place),
            "verdict": verdict(comparison, corrected.get(place), direction),
        }
        for place, (name, role, comparison) in enumerate(found)
    ]


@dataclass(frozen=True, slots=True)
class Inequality:
    """Two runs whose scores differ for other reasons than what was run.

    Attributes:
        first: The one.
        second: The other.
        difference: In what data, style or partition they differ.
    """

    first: Run
    second: Run
    difference: str


def inequality(runs: Sequence[Run]) -> Inequality | None:
    """Return two runs that cannot be compared, if there are any.

    Runs of one seed must share data and partition; runs of other seeds, their description.
    """
    first = runs[0]
    by_seed = {first.config.seed: first}
    for run in runs[1:]:
        for what in ("data", "style", "partition"):
            a, b = getattr(first.config, what), getattr(run.config, what)
            if a != b:
                return Inequality(first, run, f"{what} {_brief(a, b)} against {_brief(b, a)}")
        twin = by_seed.setdefault(run.config.seed, run)
        for what in ("data_fingerprint", "partition_fingerprint"):
            if twin.folder.facts()[what] != run.folder.facts()[what]:
                return Inequality(twin, run, f"the {what.replace('_', ' ')} differs")
    return None


def refuse_unequal(runs: Sequence[Run]) -> None:
    """Refuse runs whose scores differ for other reasons than what was run.

    Raises:
        RunError: Two runs differ in data, style or partition.
    """
    found = inequality(runs)
    if found is not None:
        raise RunError(
            f"{found.first.path} and {found.second.path} cannot be compared: {found.difference}. "
            "A difference in scores would say nothing about the methods; duotone compare --anyway "
            "shows them all the same."
        )


def _brief(value: Any, other: Any) -> str:
    if isinstance(value, dict) and isinstance(other, dict):
        return ", ".join(f"{k}={v}" for k, v in value.items() if other.get(k) != v) or "{}"
    return str(value)
