"""How often is something said to be read where nothing can be, and how often is a leak found?

python -m studies.leaks docs/results/leaks.json

Tables of codes are made up, with nothing in them about the answers or with a leak of a known size,
and read by the functions that read a run's codes. A table is what one run has: four members with
100 samples each that no encoder was trained on (sixteen with 25 where groups are asked about), a
code of eight numbers, four labels of which one is as frequent as the others together, and a size.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array
from duotone.measures.codes import CodeTable
from duotone.measures.readings import read_codes
from duotone.measures.score import Key, Score

WIDTH = 8
TABLES = 200
FIRST = 1000
"""Seed of the first table. The rule was settled on tables 0 to 79, which are not reported."""


def table(
    clients: int,
    samples: int,
    code: Callable[[dict[str, Array], np.random.Generator], Array],
    seed: int,
) -> CodeTable:
    """Return a table of codes of members' test samples."""
    rng = np.random.default_rng(seed)
    rows = clients * samples
    client = np.repeat(np.arange(clients), samples)
    columns: dict[str, Array] = {
        # Half of the samples have the most frequent label.
        "label": rng.permutation(np.arange(rows) % 6 % 4 * (np.arange(rows) % 6 < 4)),
        "factor_size": rng.normal(size=rows),
        "client": np.char.add("c", client.astype(str)),
        # Dealt among clients: a group has nothing to do with what its clients' codes are like.
        "group": np.char.add("g", (rng.permutation(clients) // (clients // 4)).astype(str))[client],
        "kind": np.full(rows, "member"),
        "split": np.full(rows, "test"),
        "index": np.arange(rows),
    }
    columns["shared"] = code(columns, rng)
    columns["local"] = np.zeros((rows, 0))
    return CodeTable.of(columns, None, seed)


def noise(columns: dict[str, Array], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a code that says nothing at all."""
    return rng.normal(size=(len(columns["label"]), WIDTH))


def clusters(columns: dict[str, Array], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a code of ten far clusters that have nothing to do with any answer."""
    rows = len(columns["label"])
    centres = 8 * rng.normal(size=(10, WIDTH))
    return np.asarray(centres[rng.integers(0, 10, rows)] + rng.normal(size=(rows, WIDTH)))


def recognised(columns: dict[str, Array], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a code that tells clients apart about half the time, whatever their group."""
    names, client = np.unique(columns["client"], return_inverse=True)
    centres = 1.2 * rng.normal(size=(len(names), WIDTH))
    return np.asarray(centres[client] + rng.normal(size=(len(client), WIDTH)))


def leaking(columns: dict[str, Array], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a code from which about 37 % of clients are read, of four."""
    code = noise(columns, rng)
    client = np.unique(columns["client"], return_inverse=True)[1]
    code[:, :4] += 0.54 * np.eye(4)[client]
    return code


def judged(scores: dict[Key, Score], question: str) -> dict[str, bool | float]:
    """Return what is said of one question."""
    key = Key("probe", question, part="shared")
    linear = key.beside("linear")
    found: dict[str, bool | float] = {
        "network reads": scores[key].value,
        "linear reads": scores[linear].value,
    }
    for word, reading in (("network", key), ("linear", linear)):
        base = f"{reading.variant}." if reading.variant else ""
        point = scores[key.beside(f"{base}control95")].value
        found[f"{word} above its 95 % point"] = scores[reading].value > point
        found[f"{word} above the bar"] = (
            scores[reading].value > scores[key.beside(f"{base}bar")].value
        )
        found[f"{word}'s 95 % point covers chance"] = point >= scores[key.beside("chance")].value
    return found


CASES = {
    "noise": (4, 100, noise, ("client", "label", "size")),
    "clusters": (4, 100, clusters, ("client", "label", "size")),
    "recognised clients in arbitrary groups": (16, 25, recognised, ("group",)),
    "planted leak": (4, 100, leaking, ("client",)),
}


def simulate(case: str, tables: int) -> dict[str, dict[str, float]]:
    """Return shares of tables by question, and in how many of them any is said to be read."""
    clients, samples, code, questions = CASES[case]
    found: dict[str, list[dict[str, bool | float]]] = {name: [] for name in questions}
    for seed in range(FIRST, FIRST + tables):
        scores = read_codes(table(clients, samples, code, seed)).scores
        for name in questions:
            found[name].append(judged(scores, name))
    shares = {
        name: {word: round(float(np.mean([row[word] for row in rows])), 4) for word in rows[0]}
        for name, rows in found.items()
    }
    any_of = [
        any(said for row in rows for word, said in row.items() if word.endswith("above the bar"))
        for rows in zip(*found.values(), strict=True)
    ]
    share = float(np.mean(any_of))
    error = math.sqrt(share * (1 - share) / tables)
    return shares | {
        "any question above its bar": {"share": round(share, 4), "error": round(error, 4)}
    }


def main(path: Path, tables: int = TABLES) -> None:
    """Simulate every case and write what was found; cases that the file has are kept."""
    found = json.loads(path.read_text()) if path.exists() else {"tables": tables}
    for case in CASES:
        if case not in found:
            found[case] = simulate(case, found["tables"])
            path.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
