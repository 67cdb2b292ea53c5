"""What the study feddva-constraint shows, seed by seed.

python -m studies.constraint_table runs/feddva-constraint docs/results/feddva-binding.json

Written: in which share of its steps the constraint binds, for each member and stretch of rounds;
the nats of each member's codes in the last round; the scores of the page. All for every seed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl

import duotone

STRETCHES = {"1 to 6": (1, 6), "7 to 12": (7, 12), "13 to 24": (13, 24)}
SCORES = (
    "probe.client_from_shared",
    "probe.client_from_local",
    "probe.label_from_shared",
    "probe.label_from_local",
    "probe.phase_from_shared.within",
    "probe.phase_from_local.within",
    "swap.label",
    "swap.style",
    "swap.style.without_local",
    "swap.phase",
    "member.accuracy",
)


def binding(metrics: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Return the share of steps in which the constraint binds, by mark and rounds."""
    found = metrics.filter(pl.col("metric") == "binds")
    return {
        mark: {
            name: float(rows.filter(pl.col("round").is_between(*ends))["value"].mean())
            for name, ends in STRETCHES.items()
        }
        for (mark,), rows in found.group_by("group", maintain_order=True)
    }


def nats(metrics: pl.DataFrame) -> dict[str, dict[str, float]]:
    """Return what each member's codes say in the last round."""
    last = metrics.filter(
        (pl.col("round") == pl.col("round").max())
        & pl.col("metric").is_in(["kl_shared", "kl_local", "kl_client"])
    )
    return {
        mark: dict(zip(rows["metric"], rows["value"], strict=True))
        for (mark,), rows in last.group_by("group", maintain_order=True)
    }


def main(study: Path, out: Path) -> None:
    """Read all runs of the study and write the table."""
    table: dict[str, dict[str, object]] = {}
    for path in sorted(study.glob("*/seed*")):
        run = duotone.load_run(path)
        scores = run.summary["scores"]
        table.setdefault(path.parent.name, {})[path.name] = {
            "scores": {name: scores[name]["value"] for name in SCORES},
            "nats": nats(run.metrics),
            "binds": binding(run.metrics),
        }
    out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
