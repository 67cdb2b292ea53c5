"""Whole runs over Flower's messages on one machine leave the same files as every other backend."""

from __future__ import annotations

import pytest

import duotone
from duotone.methods import METHODS

pytest.importorskip("flwr")

FAST = ("fedavg", "fedbn")
EVERY = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in sorted(METHODS)
]


@pytest.mark.parametrize("name", EVERY)
def test_a_run_over_flower_leaves_the_same_numbers_as_one_process(name, tmp_path):
    runs = [
        duotone.run(
            method=name,
            data="mini-digits",
            partition={"scheme": "iid", "clients": 4, "max_train": 30, "max_test": 12},
            rounds=3,
            sampled=2,
            latents=10,
            backend=backend,
            out=tmp_path / backend,
            observers=[Silent()],
        )
        for backend in ("serial", "flower")
    ]
    for file in ("metrics.csv", "summary.json", "ledger.csv", "ledger.json"):
        first, second = ((run.path / file).read_bytes() for run in runs)
        assert first == second, file


class Silent:
    def run_started(self, folder, plan, round):
        return

    def round_committed(self, progress):
        return

    def message(self, line):
        return
