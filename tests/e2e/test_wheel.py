"""The package as it would be published: everything it needs is in the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


COMMANDS = (
    "run fedavg --data mini-digits --partition iid --clients 3 --rounds 1 --out run -q",
    "report run -q",
    "explain run --client 0 --sample 0",
)


def built(folder: Path) -> Path:
    """Build the wheel."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("duotone-*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_holds_all_files_and_works_outside_the_repository(tmp_path):
    """Its dependencies are those of this environment; the package itself comes from the wheel."""
    wheel = built(tmp_path)
    held = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "duotone"
    wanted = {
        f"duotone/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= held
    place = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--target", str(place), str(wheel)], check=True)
    for command in COMMANDS:
        subprocess.run(
            [sys.executable, "-P", "-m", "duotone", *command.split()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(place)},
            check=True,
        )
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.slow
def test_the_wheel_brings_all_it_needs_into_an_empty_environment(tmp_path):
    """Nothing of this environment is there, nor of the repository but its list of versions."""
    wheel = built(tmp_path)
    venv.create(tmp_path / "empty", with_pip=True)
    programs = tmp_path / "empty" / "bin"
    pip = [str(programs / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 and "No matching distribution" in done.stderr:
        pytest.skip(f"packages cannot be had here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for command in ("--version", "doctor", *COMMANDS):
        arguments = [str(programs / "duotone"), *command.split()]
        subprocess.run(arguments, cwd=tmp_path, env=clean, check=True)
    assert (tmp_path / "run" / "report.html").exists()
