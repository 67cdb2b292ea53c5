"""Data of the user's own on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

ROWS = [
    f"{hospital},{30 + number},{'nurse' if number % 3 else 'clerk'},{'yes' if number % 2 else 'no'}"
    for hospital in ("north", "south")
    for number in range(40)
]


@pytest.fixture
def csv(folder):
    path = folder / "patients.csv"
    path.write_text("hospital,age,job,sick\n" + "\n".join(ROWS) + "\n", encoding="utf-8")
    return path


def columns(**changes):
    given = {"label": "sick", "client": "hospital", **changes}
    return [part for key, value in given.items() for part in ("--set", f"table.{key}={value}")]


def test_a_table_is_planned_previewed_and_trained_on(cli, csv, folder):
    said = cli("run", "fedavg", "--data", "patients.csv", *columns(), "--dry-run")
    assert "# features: age, job=clerk, job=nurse" in said.stdout
    assert 'scheme = "natural"' in said.stdout
    assert not (folder / "runs").exists()
    facts = json.loads(
        cli("run", "fedavg", "--data", "patients.csv", *columns(), "--dry-run", "--json").stdout
    )
    assert facts["class_names"] == ["no", "yes"]
    found = json.loads(cli("partition", "--data", "patients.csv", *columns(), "--json").stdout)
    assert found["members"] == 2
    cli("run", "fedavg", "--data", "patients.csv", *columns(), "--rounds", "1", "--out", "r", "-q")
    facts = json.loads((folder / "r" / "run.json").read_text())
    assert [column["name"] for column in facts["preparation"]["columns"]] == ["age", "job"]


def test_a_wrong_table_is_one_line_and_nothing_is_made(cli, csv, folder):
    said = cli("run", "fedavg", "--data", "patients.csv", *columns(label="ill"), code=2)
    assert "There is no column 'ill'." in said.stderr
    said = cli("partition", "--data", "patients.csv", *columns(), "--set", "table.tsk=x", code=2)
    assert "no setting table.tsk" in said.stderr
    assert [path.name for path in folder.iterdir()] == ["patients.csv"]


def test_pictures_are_imported_under_a_name(cli, folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    for number in range(12):
        for client in ("ann", "bob"):
            path = folder / "scans" / client / ("ill", "well")[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((8, 8), number * 5000, np.uint16)).save(path)
    cli("data", "import", "my-scans", "scans")
    assert "your own" in cli("datasets").stdout
    plan = cli(
        "run", "fedavg", "--data", "my-scans", "--partition", "natural", "--dry-run", "--json"
    )
    assert json.loads(plan.stdout)["class_names"] == ["ill", "well"]
    said = cli("data", "import", "digits", "scans", code=2)
    assert "cannot be called 'digits'" in said.stderr
    assert "cannot be called" in cli("data", "import", "../x", "scans", code=2).stderr
    (folder / "scans" / "ann" / "ill" / "0.png").write_bytes(b"no image")
    assert "0.png: the image cannot be read" in cli("data", "import", "new", "scans", code=2).stderr
    assert [path.name for path in (folder / "cache" / "duotone").iterdir()] == ["myscans.npz"]


def test_a_table_is_not_imported(cli, csv, folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    csv.write_text(csv.read_text().replace("sick", "label"))
    assert "keep its CSV" in cli("data", "import", "patients", "patients.csv", code=2).stderr
    assert not (folder / "cache").exists()
