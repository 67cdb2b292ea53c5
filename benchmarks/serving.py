"""How long it takes to use a finished run, and which of its files are read for it.

A run of FedBN, in which every client has a model of its own, is made with few and with many
clients. Then one client is opened by a process that has read nothing of the run before, and
predicts.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import duotone
from duotone.runs.served import keep_served

IMAGES = 1_000
SAMPLES_PER_CLIENT = 4


def made(clients: int, out: Path) -> float:
    """Make a run; return how many seconds of it went into keeping its clients' models."""
    rows, rng = clients * SAMPLES_PER_CLIENT, np.random.default_rng(0)
    data = {
        "x_train": rng.integers(0, 256, (rows, 28, 28), dtype=np.uint8),
        "y_train": rng.integers(0, 10, rows),
        "x_test": rng.integers(0, 256, (clients, 28, 28), dtype=np.uint8),
        "y_test": rng.integers(0, 10, clients),
    }
    seconds = 0.0

    def timed(*args: Any) -> None:
        nonlocal seconds
        began = perf_counter()
        keep_served(*args)
        seconds = perf_counter() - began

    # The package has a function of the same name.
    import_module("duotone.runs.execute").keep_served = timed  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        duotone.run(
            method={"name": "fedbn", "epochs": 1},
            data=data,
            partition={"scheme": "iid", "clients": clients, "min_train": 1, "validation": 0},
            rounds=1,
            sampled=10,
            evaluate_clients=10,
            latents=0,
            curve=[],
            out=out,
        )
    return seconds


def use(path: Path, connection: Connection) -> None:
    """Open one client and predict; tell how long it took and what was read."""
    read: set[str] = set()

    def note(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and str(args[0]).startswith(str(path)) and Path(args[0]).is_file():
            read.add(str(Path(args[0]).relative_to(path)))

    from duotone.runs import opened  # noqa: F401  loading libraries is not what is measured

    images = np.random.default_rng(1).integers(0, 256, (IMAGES, 28, 28), dtype=np.uint8)
    sys.addaudithook(note)
    began = perf_counter()
    client = duotone.load_run(path).client("7")
    half_way = perf_counter()
    client.predict(images)
    ended = perf_counter()
    connection.send(
        {"open": half_way - began, "predict": ended - half_way, "files_read": sorted(read)}
    )


def measure(*, short: bool) -> dict[str, Any]:
    """Measure few and many clients, print a table, and return the figures."""
    print(f"\nUse: one client of a finished run, {IMAGES} images of 28×28; seconds")
    print(f"{'clients':>8} {'keep all':>9} {'open one':>9} {'predict':>8} {'files read':>11}")
    figures: dict[str, Any] = {}
    for clients in (100, 1_000) if short else (100, 10_000):
        with tempfile.TemporaryDirectory() as folder:
            kept = made(clients, Path(folder) / "run")
            context = get_context("spawn")
            ours, theirs = context.Pipe()
            process = context.Process(target=use, args=(Path(folder) / "run", theirs), daemon=True)
            process.start()
            theirs.close()
            figure = {"keep": kept, **ours.recv()}
            process.join()
        figures[str(clients)] = figure
        print(
            f"{clients:>8} {kept:>9.2f} {figure['open']:>9.2f} {figure['predict']:>8.2f} "
            f"{len(figure['files_read']):>11}"
        )
    return {"images": IMAGES, "samples_per_client": SAMPLES_PER_CLIENT, "clients": figures}
