"""Content–style FL on domains of which each is left out once.

python -m studies.leave_one_out digits5|pacs32 results.json

For every domain one study, in which all others train and this one is unseen; each is continued
where it stopped. Written: the accuracy on the unseen domain, for every entry and seed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import polars as pl

import duotone

SEEDS = [1, 2, 3]
DOMAINS = {
    "digits5": ["mnist", "mnist-m", "rendered-digits", "svhn", "usps"],
    "pacs32": ["art_painting", "cartoon", "photo", "sketch"],
}
MOST = {"digits5": 334, "pacs32": 1112}
"""Training images per client; a tenth validates."""
ENTRIES: dict[str, dict[str, Any]] = {
    "fedavg, InstanceNorm": {
        "method": {
            "name": "fedavg",
            "optimizer": "adam",
            "lr": 0.001,
            "lr_decay": 0.3,
            "lr_decay_every": 14,
            "batch_size": 50,
            "epochs": 1,
        },
        "model": "content-cnn-in",
    },
    "augmentation alone": {
        "method": {"name": "content-style", "alpha": 0, "swap": 0, "style_epochs": 0}
    },
    "content-style": {"method": {"name": "content-style", "style_epochs": 0}},
}


def study_without(data: str, domain: str) -> dict[str, Any]:
    """Return the study in which a domain is unseen."""
    return {
        "title": f"{data} without {domain}",
        "seeds": SEEDS,
        "reference": next(iter(ENTRIES)),
        "settings": {
            "data": data,
            "rounds": 20,
            "evaluate_every": 20,
            "newcomers": "zero-shot",
            "latents": 0,
            "curve": [],
            "partition": {
                "scheme": "domains",
                "members": [name for name in DOMAINS[data] if name != domain],
                "per_domain": 1,
                "newcomers": 0,
                "max_train": MOST[data],
                "max_test": 1000,
            },
        },
        "entries": ENTRIES,
    }


def unseen_accuracy(run: duotone.Run) -> float:
    """Return the accuracy of the last round on the domain that did not train."""
    rows = run.metrics.filter(
        (pl.col("kind") == "newcomer")
        & (pl.col("metric") == "accuracy")
        & (pl.col("round") == pl.col("round").max())
    )
    return float(rows["value"].mean())


def main(data: str, out: Path) -> None:
    """Run all studies of a data set and write what came out."""
    found: dict[str, dict[str, list[float]]] = {}
    for domain in DOMAINS[data]:
        study = duotone.study(study_without(data, domain), Path("runs", f"without-{data}-{domain}"))
        found[domain] = {
            entry["name"]: [
                unseen_accuracy(duotone.load_run(study.path / run)) for run in entry["runs"]
            ]
            for entry in study.results["entries"]
        }
        out.write_text(json.dumps({"seeds": SEEDS, "accuracy": found}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
