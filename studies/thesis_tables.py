"""Write the tables of FedCD and FedVC beside the thesis into the pages of results.

python -m studies.thesis_tables

A page says where with ``<!-- table: NAME -->``. The numbers are those of ``docs/results``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from duotone.files import write_atomically

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PAGES = ("fedcd.md", "fedvc.md")
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)

ALL_CLIENTS = {  # accuracy over all clients: tables 5.2, 5.3 and 5.4
    "local": (62.19, 45.09, 59.11),
    "fedavg": (88.26, 57.92, 89.15),
    "fedavg-ft": (87.72, 60.37, 82.12),
    "fedavg, BatchNorm": (97.97, 58.84, 87.19),
    "fedbn": (88.74, 60.65, 80.38),
    "fedrep": (51.97, 43.34, 55.77),
    "percnn": (95.96, 64.69, 80.63),
    "fedcd, FC1": (98.43, 68.07, 91.47),
    "fedcd, FC2": (98.26, 68.12, 91.19),
    "fedcd, FC3": (98.35, 68.84, 91.18),
}
MNIST = {  # members and newcomers: tables 6.1 and 6.2
    "local": (95.79, None),
    "fedavg-ft": (97.92, 98.42),
    "fedbn": (98.43, 98.48),
    "fedprox": (98.07, 98.19),
    "ditto": (95.86, None),
    "fedrep": (93.61, 88.98),
    "feddual": (96.87, 97.80),
    "fedvc": (98.56, 98.79),
    "fedvc-sg": (98.51, 98.76),
}
DIGITS = {  # members and newcomers: tables 6.3 and 6.4
    "local": (74.43, None),
    "fedavg-ft": (80.92, 77.85),
    "fedbn": (84.34, 83.30),
    "fedprox": (80.50, 76.90),
    "ditto": (67.30, None),
    "fedrep": (55.44, 34.85),
    "feddual": (70.36, 67.15),
    "fedvc": (85.42, 86.20),
    "fedvc-sg": (85.82, 85.10),
}
SETTINGS = {  # members and newcomers: tables 6.5 to 6.9
    "as printed": (85.42, 86.20),
    "3 concepts": (85.22, 85.05),
    "6 concepts": (85.24, 85.15),
    "3 dimensions": (83.46, 83.45),
    "6 dimensions": (84.36, 83.80),
    "iota 0.001": (84.40, 85.00),
    "iota 0.005": (84.56, 85.35),
    "iota 0.01": (85.74, 85.75),
    "kappa 0.01": (85.66, 85.40),
    "kappa 0.1": (84.96, 85.45),
    "kappa 0.5": (84.44, 84.65),
    "kappa 0.95": (84.02, 83.85),
    "gamma 0.01": (83.14, 83.40),
    "gamma 0.1": (85.24, 85.30),
    "gamma 0.5": (83.48, 82.35),
    "gamma 0.95": (85.46, 85.20),
}
ACCURACY = {"members, %": "member.accuracy", "newcomers, %": "newcomer.accuracy"}


def page_with_tables(page: str, folder: Path) -> str:
    """Return a page with its tables written anew from the results in a folder."""
    return BLOCK.sub(lambda found: found[1] + table_of(found[2], folder) + found[4], page)


def table_of(name: str, folder: Path) -> str:
    """Return one table; a sentence if its study was not run."""
    path = folder / f"{name}.json"
    if not path.exists():
        return f"Not run yet: `duotone study studies/{name}.toml`.\n"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if name == "fedvc-preferences":
        return _told(results)
    thesis: Mapping[str, tuple[float | None, ...]] = {
        "fedvc-tables": SETTINGS,
        "fedvc-curves": DIGITS,
        "fedvc-curves-mnist": MNIST,
    }.get(name, {})
    heads = ["thesis, members", "thesis, newcomers"] if thesis else []
    place = {"fedcd-curves-mnist": 0, "fedcd-curves-cifar": 1, "fedcd-curves": 2}.get(name)
    if place is not None:
        thesis = {entry: (values[place],) for entry, values in ALL_CLIENTS.items()}
        heads = ["thesis, all clients"]
    scores = dict(ACCURACY)
    if name == "fedvc-tables":
        scores |= {"spread of concepts": "concepts.spread", "nats": "concepts.information"}
    codes = folder / f"{name}-codes.json"
    told = json.loads(codes.read_text(encoding="utf-8")) if codes.exists() else {}
    parts = ("local", "shared") if told else ()
    rows = []
    for entry in results["entries"]:
        if not entry["seeds"]:
            continue
        printed = thesis.get(entry["name"], (None,) * len(heads))
        own = told.get(entry["name"], {})
        rows.append(
            [
                entry["name"],
                ", ".join(map(str, entry["seeds"])),
                *("–" if value is None else f"{value:.1f}" for value in printed),
                *(_score(entry["scores"].get(score)) for score in scores.values()),
                *(_seeds(own, part, "by other clients") for part in parts),
            ]
        )
    ours = [f"domain told by the {part} code, %" for part in parts]
    return _markdown(["", "seeds", *heads, *scores, *ours], rows)


def _told(results: Mapping[str, Any]) -> str:
    """Return the table of what codes tell of the domain, seed by seed."""
    rows = []
    for entry, seeds in results.items():
        for code in next(iter(seeds.values())):
            spread = [seed[code]["spread"] for seed in seeds.values()]
            rows.append(
                [
                    f"{entry}, {code}",
                    _seeds(seeds, code, "by any client"),
                    _seeds(seeds, code, "by other clients"),
                    f"{sum(spread) / len(spread):.2g}",
                ]
            )
    heads = ["code", "neighbours of any client, %", "of other clients alone, %", "spread"]
    return _markdown(heads, rows)


def _seeds(seeds: Mapping[str, Any], code: str, key: str) -> str:
    found = [f"{100 * seed[code][key]:.0f}" for seed in seeds.values() if code in seed]
    return " ".join(found) or "–"


def _score(score: Mapping[str, Any] | None) -> str:
    """Return a mean over seeds with half its interval; in percent unless it is no share."""
    if score is None:
        return "–"
    if score.get("unit", "share") != "share":
        return f"{score['mean']:.3f}"
    half = "" if score["low"] is None else f" ± {50 * (score['high'] - score['low']):.1f}"
    return f"{100 * score['mean']:.1f}{half}"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    for page in PAGES:
        place = RESULTS / page
        text = place.read_text(encoding="utf-8")
        write_atomically(place, page_with_tables(text, RESULTS).encode())
