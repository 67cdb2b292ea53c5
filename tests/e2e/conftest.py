from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from duotone.cli import main


@dataclass(frozen=True)
class Said:
    """What a command wrote."""

    stdout: str
    stderr: str


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def cli(folder, monkeypatch, capsys) -> Callable[..., Said]:
    """Run a command line in this process: the whole program but for loading it anew."""

    def call(*arguments: str, code: int = 0) -> Said:
        monkeypatch.setattr(sys, "argv", ["duotone", *arguments])
        monkeypatch.setattr(sys, "path", list(sys.path))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = Said(*capsys.readouterr())
        assert (ended.value.code or 0) == code, said
        return said

    return call


@pytest.fixture
def shell(folder) -> Callable[..., Said]:
    """Run a command line in a process of its own, for what only a process can show."""

    def call(*arguments: str, code: int = 0, **options) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "duotone", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
            **options,
        )
        said = Said(done.stdout, done.stderr)
        assert done.returncode == code, said
        return said

    return call
