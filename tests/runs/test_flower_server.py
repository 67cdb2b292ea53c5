"""Submitted runs, with nodes that answer in this process: what server and clients are left with."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord

import duotone
from duotone import messenger
from duotone.data import load_dataset
from duotone.errors import ConfigError, PartitionError, RunError, TrainingError
from duotone.federation.backends.flower import Flower, OneMachineFlower, _OneMachine
from duotone.messenger import client_app
from duotone.runs import flower_client
from duotone.runs.flower_server import Submission, serve


class InProcess(_OneMachine):
    """Nodes by name, each with its own data; a message goes to the one it is for."""

    def __init__(self, place):
        self.place, self.names = place, []
        super().__init__(client_app(self.answer))

    def connect(self, client):
        self.names.append(client)

    def get_nodes(self):
        return [SimpleNamespace(name=n, node_id=i) for i, n in enumerate(self.names, start=2)]

    def answer(self, context, facts, arrays):
        client = self.names[context.node_id - 2]
        given = {"data": str(self.place / f"{client}.npz"), "states": str(self.place / client)}
        return flower_client.answer({"client": client, **given}, facts, arrays)


@pytest.fixture
def grid(tmp_path, monkeypatch):
    monkeypatch.setattr(Flower, "_message", OneMachineFlower._message)
    digits = load_dataset("mini-digits")
    together = {}
    for number, client in enumerate(("a", "b", "c")):
        own = {}
        for split, rows, count in (
            ("train", digits.train_rows, 60),
            ("test", digits.test_rows, 20),
        ):
            mine = rows[number::3][:count]
            own |= {f"x_{split}": digits.x[mine], f"y_{split}": digits.y[mine]}
            together.setdefault(f"client_{split}", []).append(np.full(len(mine), client))
        np.savez(tmp_path / f"{client}.npz", **own)
        for name, values in own.items():
            together.setdefault(name, []).append(values)
    np.savez(tmp_path / "all.npz", **{k: np.concatenate(v) for k, v in together.items()})
    found = InProcess(tmp_path)
    for client in ("a", "b"):
        found.connect(client)
    return found


CONFIG = {"rounds": 2, "level": "scores", "method": {"name": "fedavg-ft", "epochs": 1}}


def submitted(grid, **options):
    out = grid.place / "run"
    settings = {"patience": 0.0, "config": CONFIG, "clients": ["a", "b"], **options}
    serve(grid, Submission(out=str(out), **settings))
    return out


def kept_by(grid, client):
    (found,) = (grid.place / client).glob("*/run")
    return duotone.load_run(found)


def simulated(grid, config=CONFIG):
    """Simulate the federation of a and b on one machine."""
    with np.load(grid.place / "all.npz") as data:
        two = {k: v[data["client_" + k.rpartition("_")[2]] != "c"] for k, v in data.items()}
    np.savez(grid.place / "two.npz", **two)
    return duotone.run(
        config,
        data=grid.place / "two.npz",
        partition="natural",
        backend="serial",
        out=grid.place / "simulated",
        observers=[Silent()],
    )


def test_a_client_keeps_the_model_that_the_simulation_has_for_it(grid):
    submitted(grid)
    there = simulated(grid)
    x = np.load(grid.place / "b.npz")["x_test"]
    own = kept_by(grid, "b").client("b")
    assert torch.equal(own.scores(x), there.client("b").scores(x))
    assert own.facts.samples == 54


def test_stragglers_and_drop_out_are_those_of_the_simulation(grid):
    system = {"dropout": 0.4, "speeds": [1, 3], "deadline": 2.0}
    config = {**CONFIG, "rounds": 6, "method": {"name": "fedbn"}, "system": system}
    out, there = submitted(grid, config=config), simulated(grid, config)
    files = ("metrics.csv", "summary.json", "waiting.json", "checkpoints/server-00006.safetensors")
    for file in files:
        assert (out / file).read_bytes() == (there.path / file).read_bytes(), file
    metrics = (out / "metrics.csv").read_text()
    assert "dropped_out" in metrics
    assert "late" in metrics


def test_a_client_explains_by_itself_and_compares_with_the_shared_model(grid):
    submitted(grid)
    own = kept_by(grid, "b")
    card = own.client("b").explain(sample=3)
    assert card.reference == "the shared model"
    assert card.truth == str(np.load(grid.place / "b.npz")["y_test"][3])
    assert not [line for line in card.needed if "members" in line]
    with pytest.raises(RunError, match="the local parts of other members are with them"):
        own.client("b").explain(sample=3, reference="members")
    assert "than the shared model" in str(own.card("b")) or "as the shared" in str(own.card("b"))
    with pytest.raises(RunError, match="has not measured its answers"):
        own.card()


def test_a_client_whose_data_has_changed_is_not_explained_with_it(grid):
    submitted(grid)
    (grid.place / "b.npz").write_bytes((grid.place / "a.npz").read_bytes())
    own = kept_by(grid, "b")
    with pytest.raises(RunError, match="no longer what 'b' trained on"):
        own.client("b").explain(sample=3)


def test_somebody_else_can_join_at_a_client_and_the_server_has_nobodys_model(grid):
    out = submitted(grid)
    data = np.load(grid.place / "c.npz")
    joined = kept_by(grid, "a").join(data["x_train"], data["y_train"], name="beside")
    assert joined.predict(data["x_test"]).shape == (20,)
    with pytest.raises(RunError, match="are with its clients, not with the server"):
        duotone.load_run(out).client("a")


def test_a_node_that_comes_later_joins_as_a_newcomer_and_nothing_shared_moves(grid):
    out = submitted(grid)
    before = (out / "checkpoints" / "manifest.json").read_bytes()
    grid.connect("c")
    submitted(grid, join=["c"])
    scores = duotone.load_run(out).folder.table("joined")["c"]
    own = kept_by(grid, "c").client("c")
    data = np.load(grid.place / "c.npz")
    assert own.role == "newcomer"
    assert (own.predict(data["x_test"]) == data["y_test"]).mean() == scores["accuracy"]
    assert (out / "checkpoints" / "manifest.json").read_bytes() == before
    assert own.explain(sample=0).reference == "the shared model"


def test_a_node_whose_data_have_another_form_cannot_join(grid):
    out = submitted(grid)
    rows = np.zeros((30, 5), np.float32)
    y = np.arange(30) % 2
    np.savez(grid.place / "c.npz", x_train=rows, y_train=y, x_test=rows, y_test=y)
    grid.connect("c")
    with pytest.raises(PartitionError, match=r"The data of 'c' are classes of shape \(5,\)"):
        submitted(grid, join=["c"])
    assert duotone.load_run(out).folder.table("joined") is None


def test_forms_that_do_not_go_together_are_said_at_the_server_and_at_every_node(grid, caplog):
    data = dict(np.load(grid.place / "b.npz"))
    smaller = {k: v[:, :6, :6] if k[0] == "x" else v for k, v in data.items()}
    np.savez(grid.place / "b.npz", **smaller)
    with pytest.raises(PartitionError, match="all clients must have the same form"):
        submitted(grid)
    told = [r.getMessage() for r in caplog.records if r.name == "duotone.node"]
    assert len([line for line in told if "must have the same form" in line]) == 2


def test_another_version_is_refused_on_both_sides(grid, caplog, monkeypatch):
    monkeypatch.setattr(messenger, "VERSION", "0.0.9")
    with pytest.raises(TrainingError, match=r"its node has duotone 0\.0\.9 and the server"):
        submitted(grid)
    assert "its node has duotone 0.0.9" in caplog.text


def test_another_version_is_refused_also_if_it_sends_arrays_in_another_form(grid, monkeypatch):
    def arrays_of(content):
        raise KeyError("another form")

    monkeypatch.setattr(messenger, "VERSION", "0.0.9")
    monkeypatch.setattr(messenger, "arrays_of", arrays_of)
    other = ArrayRecord({"otherwise": Array(np.zeros(2))})
    monkeypatch.setattr(messenger, "record_of", lambda arrays: other)
    with pytest.raises(TrainingError, match=r"its node has duotone 0\.0\.9 and the server"):
        submitted(grid)


def test_two_nodes_with_one_name_are_refused(grid):
    grid.connect("a")
    with pytest.raises(TrainingError, match="Two nodes are connected under the name 'a'"):
        submitted(grid)


def test_a_missing_node_and_a_level_that_needs_samples_are_said_in_one_line(grid):
    with pytest.raises(TrainingError, match="c of 3 clients were not connected"):
        submitted(grid, clients=["a", "b", "c"])
    with pytest.raises(ConfigError, match="is for simulations"):
        submitted(grid, config={**CONFIG, "level": "simulation"})


class Silent:
    def run_started(self, folder, plan, round):
        return

    def round_committed(self, progress):
        return

    def message(self, line):
        return
