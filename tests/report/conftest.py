from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from made_scores import probe

from duotone.config import RunConfig
from duotone.measures.score import Key, Score, scores_json
from duotone.runs import Run, RunFolder

CLIENTS = (("a", "red", "member"), ("b", "blue", "member"), ("c", "red", "newcomer"))


def metrics_of(accuracies: dict[str, list[float]]) -> pl.DataFrame:
    """Return the tidy table of clients whose accuracies are given round by round."""
    rows = []
    for client, group, kind in CLIENTS:
        for number, value in enumerate(accuracies[client], start=1):
            rows.append((number, client, group, kind, "both", "accuracy", value))
            if kind == "member":
                rows.append((number, client, group, kind, "shared", "bytes_up", 1000.0))
                rows.append((number, client, group, kind, "shared", "bytes_down", 1200.0))
    columns = ["round", "client", "group", "kind", "part", "metric", "value"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def latents_of(samples: int = 12, width: int = 3) -> dict[str, np.ndarray]:
    """Return codes: the shared one knows the label, the local one the client."""
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(len(CLIENTS)), samples)
    label = np.tile(np.arange(2), len(owners) // 2)
    return {
        "shared": rng.normal(size=(len(owners), width)) + 3 * label[:, None],
        "local": rng.normal(size=(len(owners), width)) + 3 * owners[:, None],
        "label": label,
        "client": np.array([CLIENTS[i][0] for i in owners]),
        "group": np.array([CLIENTS[i][1] for i in owners]),
        "kind": np.array([CLIENTS[i][2] for i in owners]),
        "split": np.tile(np.array(["train", "train", "test", "test"]), len(owners) // 4),
        "index": np.arange(len(owners)),
    }


@pytest.fixture
def make_run(tmp_path) -> Callable[..., Run]:
    """Make the folder of a finished run by hand, on data that was given in Python."""

    def make(
        name: str = "run",
        *,
        seed: int = 0,
        method: str = "fedavg",
        gain: float = 0.0,
        more: dict[Key, Score] | None = None,
    ) -> Run:
        config = RunConfig(
            data="object:arrays",
            model="mlp",
            rounds=2,
            sampled=2,
            seed=seed,
            latents=12,
            partition={"scheme": "iid", "clients": 3},
            method={"name": method},
        )
        sizes = {"parameters": 240, "buffers": 10, "bytes": 1000}
        facts = {
            "status": "finished",
            "method": method,
            "seed": seed,
            "created": "2026-11-15T12:00:00+00:00",
            "seconds": 3.0,
            "command": ["duotone", "run", method],
            "duotone": "0.1.0",
            "python": "3.11.7",
            "versions": {"torch": "2.13.0"},
            "platform": "linux x86_64",
            "device": "cpu",
            "data_fingerprint": "d",
            "partition_fingerprint": f"p{seed}",
            "members": 2,
            "newcomers": 1,
            "newcomer_rule": "zero-shot",
            "parts": {"shared": sizes, "local": {"parameters": 0, "buffers": 0, "bytes": 0}},
        }
        folder = RunFolder.create(config, facts, tmp_path / name)
        accuracies = {"a": [0.5, 0.9], "b": [0.4, 0.7 + gain], "c": [0.2, 0.6]}
        metrics_of(accuracies).write_csv(folder.path / "metrics.csv")
        ends = {"member": [0.9, 0.7 + gain], "newcomer": [0.6]}
        scores = {
            Key("accuracy", "accuracy", role=role): Score.over(values, "higher", "share")
            for role, values in ends.items()
        }
        scores |= probe("client", "shared", 0.8, 0.5, 0.6)
        scores |= probe("client", "local", 0.95, 0.5, 0.6)
        scores |= probe("phase", "local", 0.3, 0.0, 0.1, "R²")
        folder.write_summary(
            {
                "scores": scores_json({**scores, **(more or {})}),
                "headline": "accuracy",
                "rounds": 2,
                "selected_round": 2,
                "newcomer_rule": "zero-shot",
            }
        )
        folder.write_latents(latents_of())
        return Run(folder.path)

    return make


@pytest.fixture
def change_json() -> Callable[..., None]:
    """Change some keys of a JSON file."""

    def change(path: Path, **values: Any) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change
