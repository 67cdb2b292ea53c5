"""Keep a finished study with every client of every seed, as ``docs/results`` holds it.

python -m studies.with_clients runs/fedcd-curves docs/results/fedcd-curves.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from duotone.files import write_atomically
from duotone.runs import Run
from duotone.runs.study_results import read_results
from duotone.types import ROLES

METRICS = ("accuracy", "auc", "f1")
COLUMNS = ("entry", "seed", "client", "group", "kind", *METRICS)
"""Of a line; a metric has its values at the evaluated rounds, in their order."""


def client_lines(folder: Path) -> Iterator[list[Any]]:
    """Yield a line for every client of every entry and seed of a study."""
    for entry in read_results(folder)["entries"]:
        for path in entry["runs"]:
            run = Run(folder / path)
            is_client = pl.col("kind").is_in(ROLES) & (pl.col("client") != "")
            table = run.metrics.filter(is_client).sort("round")
            values = [
                pl.col("value").filter(pl.col("metric") == metric).round(4).alias(metric)
                for metric in METRICS
            ]
            keys = ("client", "group", "kind")
            for line in table.group_by(keys, maintain_order=True).agg(values).iter_rows():
                yield [entry["name"], run.config.seed, *line]


def evaluated_rounds(folder: Path) -> list[int]:
    """Return the rounds after which the clients of a study were scored."""
    first = read_results(folder)["entries"][0]["runs"][0]
    table = Run(folder / first).metrics.filter(pl.col("metric") == "accuracy")
    return table["round"].unique().sort().to_list()


def with_clients(folder: Path) -> str:
    """Return a study's results as JSON, a line for every client of every seed."""
    results = {**read_results(folder), "evaluated_rounds": evaluated_rounds(folder)}
    head = json.dumps(results, indent=2, ensure_ascii=False).removesuffix("\n}")
    lines = [json.dumps(line, ensure_ascii=False) for line in client_lines(folder)]
    columns = json.dumps(list(COLUMNS))
    rows = ",\n    ".join(lines)
    return f'{head},\n  "client_columns": {columns},\n  "clients": [\n    {rows}\n  ]\n}}\n'


if __name__ == "__main__":
    write_atomically(Path(sys.argv[2]), with_clients(Path(sys.argv[1])).encode())
