"""Run the same short configurations with two checkouts and compare everything they write.

For moves that must not change a number: run it with the commit before and the one after, on the
same machine and with the same libraries. ::

    git worktree add ../before HEAD~5
    python tests/golden/two_checkouts.py ../before . [NAME …] [--out FOLDER]

Equal means bit for bit: every score, every row of ``metrics.csv``, every array of ``latents.npz``,
every tensor of the checkpoints and every table beside them. What only the second checkout writes
(new scores, new fields, new files) is listed and does not count as a difference. Runs that are
there already are not run again, so a comparison can be continued.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from duotone.federation.journal import state_file
from duotone.federation.manifest import read_manifest

SMALL = ("--clients", "6", "--sampled", "3", "--rounds", "3", "--set", "latents=20")
IMAGES = ("--data", "mini-digits", "--partition", "dirichlet", *SMALL, "--set", "partition.alpha=1")
MARKED = (*IMAGES, "--style", "marks")
TABLE = ("--data", "planted-table", "--partition", "dirichlet", *SMALL)
LINES = ("--data", "simpson", "--partition", "natural", "--rounds", "3", "--set", "latents=20")
CONFIGURATIONS: dict[str, tuple[str, ...]] = {
    "fedavg": ("fedavg", *IMAGES, "--set", "curve=[0, 1, 5]"),
    "fedavg-personalised": ("fedavg", *IMAGES, "--set", "personalise=auto"),
    "fedbn-styles": ("fedbn", *IMAGES, "--style", "padpaf4"),
    "fedrep-table": ("fedrep", *TABLE),
    "ditto-few-labels": ("ditto", *IMAGES, "--set", "labels=20", "--set", "shots=5"),
    "apfl": ("apfl", *IMAGES),
    "ifca": ("ifca", *IMAGES, "--set", "warm_rounds=1", "--set", "groups=2"),
    "private-bias-regression": ("private-bias", *LINES),
    "feddva": ("feddva", *MARKED),
    "feddva-paper": ("feddva", *MARKED, "--set", "variant=paper"),
    "fedcd": ("fedcd", *IMAGES, "--style", "padpaf4"),
    "fedcd-paper": ("fedcd", *IMAGES, "--set", "variant=paper"),
    "fedvc-context": ("fedvc", *IMAGES, "--style", "padpaf4", "--set", "personalise=auto"),
    "fedvc-paper": ("fedvc", *IMAGES, "--set", "variant=paper", "--set", "learning=unified"),
    "padpaf": ("padpaf", *IMAGES, "--style", "padpaf4"),
    "padpaf-vae": ("padpaf-vae", *IMAGES, "--style", "padpaf4"),
    "ditto-gan": ("ditto-gan", *IMAGES, "--style", "padpaf4"),
    "content-style": ("content-style", *MARKED),
    "fedprox-resumed": ("fedprox", *IMAGES, "--rounds", "12"),
}
RESUMED = "-resumed"
WITHOUT_TIMES = ("summary.json", "swap.json", "generate.json", "restyle.json", "concepts.json")


def run(checkout: Path, name: str, out: Path) -> None:
    """Make one run with one checkout; one that is to be resumed is killed on the way."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src")}
    command = [sys.executable, "-m", "duotone"]
    arguments = ["run", *CONFIGURATIONS[name], "--out", str(out), "-q"]
    if name.endswith(RESUMED):
        with subprocess.Popen([*command, *arguments], env=environment) as process:
            manifest = out / "checkpoints" / "manifest.json"
            while not manifest.exists() or json.loads(manifest.read_text())["round"] < 2:
                if process.poll() is not None:
                    break
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        arguments = ["resume", str(out), "-q"]
    subprocess.run([*command, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)


def differences(old: Path, new: Path) -> Iterator[str]:
    """Yield in words what differs between two runs."""
    yield from _tables(old / "metrics.csv", new / "metrics.csv")
    for name in WITHOUT_TIMES:
        if (old / name).exists():
            if not (new / name).exists():
                yield f"{name} is gone"
                continue
            contents = [json.loads((folder / name).read_text()) for folder in (old, new)]
            yield from _values(contents[0], contents[1], name)
    yield from _arrays(old / "latents.npz", new / "latents.npz")
    yield from _states(old / "checkpoints", new / "checkpoints")


def _tables(old: Path, new: Path) -> Iterator[str]:
    rows = []
    for path in (old, new):
        with path.open(newline="") as file:
            rows.append([tuple(row.items()) for row in csv.DictReader(file)])
    known = set(rows[1])
    gone = [row for row in rows[0] if row not in known]
    yield from (f"metrics.csv lacks {','.join(v for _, v in row)}" for row in gone[:5])
    if len(gone) > 5:
        yield f"metrics.csv lacks {len(gone) - 5} more rows"


def _values(old: Any, new: Any, place: str) -> Iterator[str]:
    """Compare two trees; the new one may have more keys."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key in new:
                yield from _values(value, new[key], f"{place}.{key}")
            else:
                yield f"{place} lacks {key}"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for position, (first, second) in enumerate(zip(old, new, strict=True)):
            yield from _values(first, second, f"{place}[{position}]")
    elif old != new and not (_is_nan(old) and _is_nan(new)):
        yield f"{place} was {old!r} and is {new!r}"


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _arrays(old: Path, new: Path) -> Iterator[str]:
    if not old.exists():
        return
    with np.load(old) as before, np.load(new) as after:
        for name in before:
            if name not in after:
                yield f"latents.npz lacks {name}"
            elif before[name].tobytes() != after[name].tobytes():
                yield f"latents.npz: {name} differs"


def _files(folder: Path) -> dict[str, str]:
    manifest = read_manifest(folder)
    (clients,) = manifest.states(folder, "last")
    names = {client: state_file(client, kept.round) for client, kept in clients.items()}
    return {"server": manifest.last.server, **names}


def _states(old: Path, new: Path) -> Iterator[str]:
    known = [_files(folder) for folder in (old, new)]
    for what in known[0]:
        files = [
            folder / found.get(what, "") for folder, found in zip((old, new), known, strict=True)
        ]
        if not files[1].is_file():
            yield f"the state of {what} is gone"
            continue
        before, after = (load_file(path) for path in files)
        if before.keys() != after.keys():
            yield f"the state of {what} has other tensors: {sorted(before.keys() ^ after.keys())}"
            continue
        for name, tensor in before.items():
            if not torch.equal(tensor, after[name]):
                yield f"the state of {what}: {name} differs"


def main() -> int:
    """Compare; 1 if anything differs."""
    parser = argparse.ArgumentParser(description="Compare what two checkouts compute.")
    parser.add_argument("old", type=Path, help="the checkout before")
    parser.add_argument("new", type=Path, help="the checkout after")
    parser.add_argument("names", nargs="*", help="configurations; by default all")
    parser.add_argument("--out", type=Path, help="where runs go; by default a temporary folder")
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="two-checkouts-"))
    found = 0
    for name in given.names or CONFIGURATIONS:
        for checkout, side in ((given.old, "old"), (given.new, "new")):
            if not (out / side / name / "summary.json").exists():
                run(checkout, name, out / side / name)
        problems = list(differences(out / "old" / name, out / "new" / name))
        print(f"{name}: {'equal' if not problems else f'{len(problems)} differences'}", flush=True)
        for problem in problems[:10]:
            print(f"  {problem}")
        found += bool(problems)
    print(f"{found} of {len(given.names or CONFIGURATIONS)} configurations differ; runs in {out}")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
