"""Content–style FL on images that served for no choice: each domain of digits left out once.

python -m studies.fresh_content RESULTS.json [--seeds 100 101 …]

All other domains train; what is unseen is scored on its *training* images, which no earlier run
read: settings were chosen while looking at its test images. Every entry is compared with
content-style in the mean over the five domains, seed by seed: three comparisons, declared here.
Each entry's rate was searched alike, with two seeds that are not reported, by the members'
validation samples. A run that a folder has is not made again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from studies.leave_one_out import DOMAINS, study_without, unseen_accuracy

import duotone
from duotone.data import load_dataset, save_dataset
from duotone.data.dataset import Dataset
from duotone.files import write_atomically
from duotone.measures.statistics import compare_pairs, holm, verdict

SEEDS = list(range(100, 110))
SEARCH = {"lr": [0.001, 0.0003, 0.003]}
SEARCH_SEEDS = [10, 11]
OURS = "content-style"
OTHERS = ("fedavg, InstanceNorm", "augmentation alone", "augmentation and pushed pixels")
PUSHED_PIXELS = {"method": "studies.pushed_pixels:PushedPixels"}
FOLDER = Path("runs/fresh-content")


def turned(data: Dataset, domain: str) -> Dataset:
    """Return the data with training and test images of one domain exchanged."""
    assert data.domain is not None
    is_test = np.where(data.domain == domain, ~data.is_test, data.is_test)
    return replace(data, is_test=is_test, name=f"digits5-{domain}")


def study_of(domain: str, seeds: list[int]) -> dict[str, Any]:
    """Return the study in which a domain is unseen, and scored on its training images."""
    path = FOLDER / f"digits5-{domain}.npz"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        save_dataset(turned(load_dataset("digits5"), domain), path)
    study = study_without("digits5", domain)
    study["settings"]["data"] = str(path)
    return study | {
        "seeds": seeds,
        "search": SEARCH,
        "search_seeds": SEARCH_SEEDS,
        "entries": study["entries"] | {OTHERS[-1]: PUSHED_PIXELS},
    }


def compared(seeds: list[int], accuracy: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """Return how much better content-style is than each other entry, domains weighing alike."""

    def cells(entry: str) -> dict[tuple[int, str], float]:
        return {
            (seed, domain): found[entry][place]
            for domain, found in accuracy.items()
            for place, seed in enumerate(seeds)
        }

    found = [compare_pairs(cells(OURS), cells(other), "higher") for other in OTHERS]
    shown = [one for one in found if one is not None and one.p is not None]
    corrected = holm([one.p for one in shown if one.p is not None])
    return {
        other: {**asdict(one), "corrected p": p, "verdict": verdict(one, p, "higher")}
        for other, one, p in zip(OTHERS, shown, corrected, strict=True)
    }


def main() -> None:
    """Run what is missing and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    asked = parser.parse_args()
    accuracy: dict[str, dict[str, list[float]]] = {}
    chosen: dict[str, Any] = {}
    for domain in DOMAINS["digits5"]:
        study = duotone.study(study_of(domain, asked.seeds), FOLDER / domain)
        entries = study.results["entries"]
        accuracy[domain] = {
            entry["name"]: [
                round(unseen_accuracy(duotone.load_run(study.path / run)), 4)
                for run in entry["runs"]
            ]
            for entry in entries
        }
        chosen[domain] = {entry["name"]: entry["chosen"] for entry in entries}
        results: dict[str, Any] = {"seeds": asked.seeds, "accuracy": accuracy, "search": chosen}
        if len(accuracy) == len(DOMAINS["digits5"]):
            results["content-style against"] = compared(asked.seeds, accuracy)
        write_atomically(asked.out, (json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
