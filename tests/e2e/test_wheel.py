"""The package as it would be published: everything it needs is in the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_wheel_holds_all_files_and_works_outside_the_repository(tmp_path):
    """Its dependencies are those of this environment; the package itself comes from the wheel."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("duotone-*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "duotone"
    wanted = {
        f"duotone/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= held
    place = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(place), str(wheel)], check=True)
    run = "run fedavg --data mini-digits --partition iid --clients 3 --rounds 1 --out run -q"
    for command in (run, "report run -q", "explain run --client 0 --sample 0"):
        subprocess.run(
            [sys.executable, "-P", "-m", "duotone", *command.split()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(place)},
            check=True,
        )
    assert (tmp_path / "run" / "report.html").exists()
