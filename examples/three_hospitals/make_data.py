"""Three hospitals, each with a file of its own: ``python make_data.py FOLDER``.

The pictures are handwritten digits that scikit-learn carries; each hospital's scanner gives them
another look. ``together.npz`` holds all of it, for a simulation of the same federation.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from duotone.data import load_dataset

SCANNERS = {
    "north": lambda x: x,
    "south": lambda x: 255 - x,
    "west": lambda x: (x // 2).astype(np.uint8),
}


def main(folder: Path) -> None:
    """Write the files."""
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_dataset("mini-digits")
    together: dict[str, list[np.ndarray]] = {}
    for number, (hospital, scanned) in enumerate(SCANNERS.items()):
        own: dict[str, np.ndarray] = {}
        for split, rows in (("train", digits.train_rows), ("test", digits.test_rows)):
            mine = rows[number :: len(SCANNERS)][: 120 if split == "train" else 40]
            own[f"x_{split}"] = scanned(digits.x[mine])
            own[f"y_{split}"] = digits.y[mine]
            together.setdefault(f"client_{split}", []).append(np.full(len(mine), hospital))
        np.savez(folder / f"{hospital}.npz", **own)
        for name, values in own.items():
            together.setdefault(name, []).append(values)
    np.savez(
        folder / "together.npz",
        **{name: np.concatenate(parts) for name, parts in together.items()},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
