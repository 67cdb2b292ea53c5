"""How often does a table call one of two equal methods better?

python -m studies.verdicts OUT.json

26 methods are compared with one, and none is better. Clients of a seed stray by 3 points, and all
of them together by the luck of the training run, which every method has anew with every seed. For
each size of that luck and each number of seeds: in how many tables is anything called better or
worse, with the project's own functions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from duotone.measures.statistics import compare_pairs, holm, verdict

COMPARISONS, CLIENTS, CLIENT_DEVIATION = 26, 40, 3.0
LUCK = (0.0, 0.5, 1.0, 2.0)
SEEDS = (3, 5, 10)


def false_verdicts(luck: float, seeds: int, tables: int, rng: np.random.Generator) -> float:
    """Return the share of tables with at least one false verdict.

    Args:
        luck: Deviation of a training run, in points.
        seeds: How many seeds every method has.
        tables: How many tables are drawn.
        rng: Draws them.
    """
    pairs = [(seed, str(client)) for seed in range(seeds) for client in range(CLIENTS)]
    count = 0
    for _ in range(tables):
        runs = rng.normal(0, luck, (COMPARISONS + 1, seeds, 1))
        scores = runs + rng.normal(0, CLIENT_DEVIATION, (COMPARISONS + 1, seeds, CLIENTS))
        values = [dict(zip(pairs, own.ravel().tolist(), strict=True)) for own in scores]
        found = [compare_pairs(own, values[0], "higher") for own in values[1:]]
        compared = [own for own in found if own is not None and own.p is not None]
        corrected = holm([own.p for own in compared if own.p is not None])
        said = {verdict(own, p, "higher") for own, p in zip(compared, corrected, strict=True)}
        count += bool(said & {"better", "worse"})
    return count / tables


def main() -> None:
    """Write the shares, with their Monte-Carlo error."""
    (out,) = sys.argv[1:]
    tables, rows = 400, []
    for luck in LUCK:
        for seeds in SEEDS:
            share = false_verdicts(
                luck, seeds, tables, np.random.default_rng([seeds, int(luck * 10)])
            )
            error = float(np.sqrt(max(share, 1 / tables) * (1 - share) / tables))
            rows.append(
                {
                    "luck": luck,
                    "seeds": seeds,
                    "tables": tables,
                    "false": share,
                    "error": round(error, 4),
                }
            )
            Path(out).write_text(json.dumps(rows, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
