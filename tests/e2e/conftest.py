from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def cli(tmp_path):
    """Return a function that runs the real command line in an empty folder."""

    def call(*arguments: str, code: int = 0, **options) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "duotone", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
            **options,
        )
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    call.folder = Path(tmp_path)
    return call
