"""Damaged files end in one line: a small draw by default, the long one in the slow tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).with_name("fuzz.py")
QUICK = ("npz", "idx", "usps", "images", "csv", "parquet", "npy", "toml")


def fuzz(*options: str) -> str:
    command = [sys.executable, str(FUZZ), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


def test_readers_of_data_survive_a_few_damaged_files():
    found = fuzz("--count", "40", "--seed", "7", "--target", *QUICK)
    assert found == "320 inputs, seed 7, 0 faults"


@pytest.mark.slow
def test_every_reader_survives_twenty_thousand_damaged_files():
    assert fuzz("--count", "2000", "--seed", "0") == "20400 inputs, seed 0, 0 faults"
