"""Whole runs over Flower's messages on one machine leave the same files as every other backend."""

from __future__ import annotations

import pytest

import duotone
from duotone.methods import METHODS

pytest.importorskip("flwr")

FAST = ("fedbn",)
EVERY = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in sorted(METHODS)
]
FILES = ("metrics.csv", "summary.json", "ledger.csv", "ledger.json")


@pytest.mark.parametrize("name", EVERY)
def test_a_run_leaves_the_same_files_in_one_process_in_several_and_over_flower(name, tmp_path):
    runs = [
        duotone.run(
            method=name,
            data="mini-digits",
            partition={"scheme": "iid", "clients": 4, "max_train": 30, "max_test": 12},
            rounds=3,
            sampled=2,
            latents=10,
            backend=backend,
            workers=2,
            out=tmp_path / backend,
            observers=[Silent()],
        )
        for backend in ("serial", "processes", "flower")
    ]
    states = [str(f.relative_to(runs[0].path)) for f in runs[0].path.glob("**/*.safetensors")]
    assert states
    for file in (*FILES, *states):
        first, *others = ((run.path / file).read_bytes() for run in runs)
        assert all(first == other for other in others), file


class Silent:
    def run_started(self, folder, plan, round):
        return

    def round_committed(self, progress):
        return

    def message(self, line):
        return
