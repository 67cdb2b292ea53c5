"""Commands that use a finished run: predict, join, export."""

from __future__ import annotations

import csv
import io
import json
import shutil

import numpy as np
import pytest
from PIL import Image

import duotone

SHORT = ["--data", "mini-digits", "--partition", "iid", "--clients", "4", "--sampled", "2"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of FedBN, and the pictures of a few digits."""
    place = tmp_path_factory.mktemp("trained")
    duotone.run(
        method="fedbn",
        data="mini-digits",
        partition={"scheme": "iid", "clients": 4, "newcomers": 1, "max_train": 40},
        rounds=2,
        sampled=2,
        latents=0,
        curve=[],
        backend="serial",
        out=place / "run",
    )
    data = duotone.load_dataset("mini-digits")
    (place / "scans").mkdir()
    for row in range(3):
        Image.fromarray(data.x[row]).save(place / "scans" / f"{row}.png")
    for row in range(20):
        folder = place / "labelled" / str(data.y[row])
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(data.x[row]).save(folder / f"{row}.png")
    np.savez(place / "new.npz", x=data.x[:20], y=data.y[:20])
    return place


@pytest.fixture
def run(trained, folder):
    shutil.copytree(trained, folder, dirs_exist_ok=True)
    return duotone.load_run("run")


def test_predictions_are_those_of_python_in_every_form(run, cli):
    data = duotone.load_dataset("mini-digits").x[:3]
    shares = run.client("0").predict_proba(data)
    rows = [("0.png", 0), ("1.png", 1), ("2.png", 2)]
    wanted = [
        {
            "sample": f"scans/{file}",
            "class": str(shares[i].argmax()),
            "probability": shares[i].max(),
        }
        for file, i in rows
    ]
    told = json.loads(cli("predict", "run", "--client", "0", "scans", "--json").stdout)
    assert told == {"client": "0", "round": 2, "predictions": wanted}
    table = cli("predict", "run", "--client", "0", "scans", "--csv").stdout
    found = list(csv.DictReader(io.StringIO(table)))
    assert [(row["sample"], row["class"]) for row in found] == [
        (row["sample"], row["class"]) for row in wanted
    ]
    words = cli("predict", "run", "--client", "0", "scans/1.png").stdout
    assert f"{shares[1].max():.3f}" in words
    many = cli("predict", "run", "--client", "0", "new.npz", "--csv").stdout
    assert many.splitlines()[20].startswith("new.npz[19],")


def test_a_newcomer_joins_and_is_used(run, cli):
    said = cli("join", "run", "--name", "d", "labelled").stdout
    assert "d joined and gave labels of 20 samples (few-shot)" in said
    assert "has no client 'd'" in cli("predict", "run", "--client", "d", "scans", code=2).stderr
    told = json.loads(cli("join", "run", "--name", "d", "new.npz", "--keep", "--json").stdout)
    assert told == {"client": "d", "gave": "few-shot", "samples": 20, "kept": True}
    assert "already" in cli("join", "run", "--name", "d", "new.npz", "--keep", code=2).stderr
    assert "scans/0.png" in cli("predict", "run", "--client", "d", "scans").stdout
    assert cli("export", "run", "--client", "d", "out", "-q").stdout == "out\n"
    x = duotone.load_dataset("mini-digits").x[:3]
    assert (duotone.load_client("out").predict(x) == run.client("d").predict(x)).all()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["predict", "run", "--client", "77", "scans"], 2, "has no client '77'"),
        (["predict", "nowhere", "--client", "0", "scans"], 1, "There is no run folder nowhere"),
        (["predict", "run", "--client", "0", "nowhere.png"], 2, "there is no such file"),
        (["predict", "run", "--client", "0", "broken.png"], 2, "the image cannot be read"),
        (["predict", "run", "--client", "0", "scans", "--json", "--csv"], 2, "choose one of them"),
        (["join", "run", "--name", "d"], 2, "give its samples"),
        (["join", "run", "--name", "d", "scans"], 2, "give their labels"),
        (["join", "run", "--name", "0", "new.npz"], 2, "has a client '0' already"),
        (["join", "run", "--name", "d", "odd"], 2, "Unknown label 'eleven'"),
        (["export", "run", "--client", "0", "scans"], 2, "is not empty"),
    ],
)
def test_mistakes_are_one_line(run, cli, folder, arguments, code, words):
    (folder / "broken.png").write_bytes(b"?")
    (folder / "odd" / "eleven").mkdir(parents=True)
    shutil.copy(folder / "scans" / "0.png", folder / "odd" / "eleven")
    said = cli(*arguments, code=code)
    assert words in said.stderr
    assert len(said.stderr.splitlines()) == 1
    assert not said.stdout


def test_a_run_that_has_not_finished_says_so(run, cli):
    run.folder.update_facts(status="interrupted")
    said = cli("predict", "run", "--client", "0", "scans", code=1)
    assert "finish it first: duotone resume run" in said.stderr


BROKEN = """
from torch import nn

class Net(nn.Module):
    def __init__(self, data):
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        if len(x) != 2:
            x = x.nonsense()
        return self.head(x.flatten(1))
"""


def test_a_mistake_in_somebodys_own_network_shows_their_own_line(cli, folder):
    (folder / "theirs.py").write_text(BROKEN, encoding="utf-8")
    said = cli("run", "fedavg", "--model", "theirs:Net", *SHORT, "-q", code=1)
    assert "in your own code, theirs.py, line 11, in forward: x = x.nonsense()" in said.stderr
    assert "--debug" in said.stderr
    assert "Traceback" not in said.stderr
    (folder / "others.py").write_text("raise KeyError('gone')\n", encoding="utf-8")
    said = cli("run", "fedavg", "--model", "others:Net", *SHORT, "-q", code=1)
    assert "your own code failed (others.py, line 1" in said.stderr
    assert "Traceback" not in said.stderr
