"""From a finished study to the file that is committed: every score of every seed, every client."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from duotone.errors import RunError
from duotone.files import write_atomically
from duotone.reproduction.committed import REPRODUCED
from duotone.reproduction.rows import study_file
from duotone.runs import Run
from duotone.runs.pooled import identity
from duotone.runs.published import published_share
from duotone.runs.result_files import write_json
from duotone.runs.study_results import read_results
from duotone.types import ROLES

METRICS = ("accuracy", "auc", "f1", "mse")
"""What is kept of every client."""
EARLY = 0.2
"""Share of the rounds that counts as early, for figures that show progress."""


def gather(folder: Path) -> dict[str, Any]:
    """Return what a study's runs found: for each entry its scores seed by seed.

    Args:
        folder: The study's folder.

    Raises:
        RunError: It holds no results yet.
    """
    results = read_results(folder)
    entries = []
    for entry in results["entries"]:
        runs = [Run(folder / path) for path in entry["runs"]]
        if not runs:
            continue
        found = [dict(_values(run)) for run in runs]
        names = dict.fromkeys(name for values in found for name in values)
        config = runs[0].config
        entries.append(
            {
                "name": entry["name"],
                "seeds": [run.config.seed for run in runs],
                "settings": identity(config),
                "published_share": published_share(config),
                "seconds": entry["seconds"],
                "values": {name: [values.get(name) for values in found] for name in names},
            }
        )
    return {"title": results["title"], "complete": results["complete"], "entries": entries}


def _values(run: Run) -> Iterator[tuple[str, float]]:
    """Yield the scores of one run, with those that papers print and summaries do not have."""
    scores: Mapping[str, Mapping[str, Any]] = run.summary["scores"]
    for name, score in scores.items():
        if math.isfinite(score["value"]):
            yield name, round(score["value"], 6)
    for metric in METRICS:
        parts = [scores[f"{role}.{metric}"] for role in ROLES if f"{role}.{metric}" in scores]
        if parts:
            total = sum(part["n"] for part in parts)
            mean = sum(part["value"] * part["n"] for part in parts) / total
            yield f"all.{metric}", round(mean, 6)
        if f"member.{metric}" in scores:
            yield f"member.{metric}.deviation", round(scores[f"member.{metric}"]["std"], 6)
    yield from _by_round(run)


def _by_round(run: Run) -> Iterator[tuple[str, float]]:
    """Yield what groups reached at the last and at the selected round, and members early on."""
    metric, last = str(run.summary["headline"]), int(run.summary["rounds"])
    table = run.metrics.filter(pl.col("metric") == metric)
    for suffix, number in (("", last), (".selected", run.summary["selected_round"])):
        means = table.filter(pl.col("round") == number).group_by("group").agg(pl.mean("value"))
        for group, value in sorted(means.iter_rows()):
            yield f"group.{group}.{metric}{suffix}", round(value, 6)
    members = table.filter(pl.col("kind") == "member").group_by("round").agg(pl.mean("value"))
    before = members.filter(pl.col("round") <= max(1, EARLY * last)).sort("round")
    if len(before):
        yield f"member.{metric}.early", round(before["value"][-1], 6)


def clients_csv(folder: Path) -> str:
    """Return every client of every run as lines: its metrics at each evaluated round."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["entry", "seed", "round", "kind", "group", "client", "metric", "value"])
    for entry in read_results(folder)["entries"]:
        for run in (Run(folder / path) for path in entry["runs"]):
            last = run.summary["rounds"]
            headline = pl.col("metric") == str(run.summary["headline"])
            kept = headline | (pl.col("metric").is_in(METRICS) & (pl.col("round") == last))
            table = run.metrics.filter(kept & pl.col("kind").is_in(ROLES))
            columns = ("round", "kind", "group", "client", "metric", "value")
            for line in table.select(columns).iter_rows():
                writer.writerow([entry["name"], run.config.seed, *line[:-1], f"{line[-1]:.5g}"])
    return text.getvalue()


def keep(folder: Path, root: Path) -> Path:
    """Keep the results of a study of the list in a checkout, to be committed.

    Args:
        folder: The study's folder; it is called by the study's name, with ``@`` and a scale.
        root: The checkout.

    Returns:
        The file of scores; the clients lie beside it.

    Raises:
        RunError: The folder is not that of a study of the list.
    """
    name = folder.name.partition("@")[0]
    if not study_file(name).exists():
        raise RunError(f"{folder} is not the folder of a study of the list: there is no {name!r}.")
    place = root / "docs" / "results" / REPRODUCED
    place.mkdir(exist_ok=True)
    write_json(place / f"{name}.json", gather(folder))
    write_atomically(place / f"{name}.csv", clients_csv(folder).encode())
    return place / f"{name}.json"
