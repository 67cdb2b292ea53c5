"""How long cards take with 50 members, beyond loading libraries."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

import duotone

MEMBERS = 50


def made(method: str, out: Path) -> duotone.Run:
    """Make a run in which every member has a model of its own."""
    rng = np.random.default_rng(0)
    rows = MEMBERS * 40
    data = {
        "x_train": rng.integers(0, 256, (rows, 28, 28), dtype=np.uint8),
        "y_train": rng.integers(0, 10, rows),
        "x_test": rng.integers(0, 256, (MEMBERS * 10, 28, 28), dtype=np.uint8),
        "y_test": rng.integers(0, 10, MEMBERS * 10),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return duotone.run(
            method={"name": method, "epochs": 1},
            data=data,
            partition={"scheme": "iid", "clients": MEMBERS},
            rounds=1,
            sampled=5,
            latents=0,
            curve=[],
            out=out,
        )


def measure() -> dict[str, Any]:
    """Measure cards of methods with three and with seven local layers; return seconds."""
    import captum.attr  # noqa: F401  loading libraries is not what is measured

    import duotone.explain  # noqa: F401

    torch.set_num_threads(1)
    print(f"\nExplain: cards with {MEMBERS} members, images of 28×28; seconds")
    print(f"{'method':>12} {'answer':>8} {'against':>8} {'client':>8} {'federation':>11}")
    figures: dict[str, Any] = {}
    for method in ("fedbn", "fedavg-ft"):
        with tempfile.TemporaryDirectory() as folder:
            run = made(method, Path(folder) / "run")
            questions = {
                "answer": lambda run=run: run.client("7").explain(sample=0),
                "against": lambda run=run: run.client("7").explain(sample=0, against="8"),
                "client": lambda run=run: run.card("7"),
                "federation": lambda run=run: run.card(),
            }
            seconds = {}
            for name, question in questions.items():
                # Nothing is left open between questions, as in a new process.
                run.__dict__.pop("_opened", None)
                began = perf_counter()
                question()
                seconds[name] = round(perf_counter() - began, 3)
        figures[method] = seconds
        print(
            f"{method:>12} {seconds['answer']:>8.2f} {seconds['against']:>8.2f} "
            f"{seconds['client']:>8.2f} {seconds['federation']:>11.2f}"
        )
    return {"members": MEMBERS, "seconds": figures}
