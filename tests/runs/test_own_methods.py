"""A method class that a user wrote is as good as a name, in a run and in all that follows it."""

from __future__ import annotations

import pytest
from pydantic import Field
from torch import nn

import duotone
from duotone.methods.baselines.fedavg import FedAvg
from duotone.runs.plan import plan_run

SMALL = {
    "data": "mini-digits",
    "partition": {"scheme": "iid", "clients": 3},
    "model": "mlp-bn",
    "rounds": 3,
    "latents": 0,
    "backend": "serial",
}


class MineSettings(duotone.MethodSettings):
    """One setting of its own."""

    spice: float = Field(1.0, ge=0)
    """How much."""


class Mine(duotone.Method):
    """Keep BatchNorm, in a module that can be imported."""

    name = "mine"
    title = "normalisation stays"
    paper = "nobody"
    Config = MineSettings

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        return super().is_shared(name, owner) and not isinstance(owner, nn.BatchNorm1d)


def made_in_a_function() -> type[duotone.Method]:
    class Hidden(Mine):
        name = "hidden"

    return Hidden


class StopAfterOne:
    def run_started(self, folder, plan, round): ...

    def round_committed(self, progress):
        if progress.round == 1:
            import signal

            signal.raise_signal(signal.SIGINT)

    def message(self, line): ...


@pytest.mark.parametrize(
    "given",
    [
        lambda: duotone.run(SMALL, method=Mine, spice=2.0),
        lambda: duotone.run({**SMALL, "method": Mine}, spice=2.0),
        lambda: duotone.run({**SMALL, "method": {"name": Mine, "spice": 2.0}}),
        lambda: duotone.run(SMALL, method={"name": Mine, "spice": 2.0}),
    ],
)
def test_a_class_is_taken_wherever_a_name_is(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = given()
    assert run.config.method["name"] == f"{__name__}:Mine"
    assert run.config.method["spice"] == 2.0
    assert run.folder.facts()["method"] == "mine"
    assert run.folder.facts()["parts"]["local"]["parameters"] > 0


def test_the_file_of_a_class_that_can_be_imported_repeats_the_run(tmp_path):
    first = duotone.run(SMALL, method=Mine, out=tmp_path / "a")
    again = duotone.run(first.path / "config.toml", out=tmp_path / "b")
    assert first.metrics.equals(again.metrics)


def test_a_known_class_goes_by_its_known_name(tmp_path):
    assert plan_run({**SMALL, "method": FedAvg}).config.method["name"] == "fedavg"

    class Impostor(FedAvg):
        """Has fedavg's name, and is something else."""

    assert plan_run({**SMALL, "method": Impostor}).config.method["name"].startswith("object:")


def test_a_class_that_cannot_be_imported_is_given_again_on_resume(tmp_path):
    hidden = made_in_a_function()
    whole = duotone.run(SMALL, method=hidden, out=tmp_path / "whole")
    assert whole.config.method["name"].startswith("object:")
    with pytest.raises(duotone.Interrupted):
        duotone.run(SMALL, method=hidden, out=tmp_path / "r", observers=[StopAfterOne()])
    with pytest.raises(duotone.RunError, match=r"a method made in Python .*Hidden.*method=…"):
        duotone.resume(tmp_path / "r")
    with pytest.raises(duotone.RunError, match="is a run of 'hidden', not of 'fedavg'"):
        duotone.resume(tmp_path / "r", method=FedAvg)
    resumed = duotone.resume(tmp_path / "r", method=hidden)
    assert resumed.metrics.equals(whole.metrics)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (0, "0 is not a method"),
        (nn.Linear, "is not a method"),
        (FedAvg(duotone.MethodSettings(), nn.Linear), "is not a method: give a name or a subclass"),
        (type("Nameless", (duotone.Method,), {}), "Nameless has no name"),
    ],
)
def test_what_is_no_method_is_one_clear_line(given, words):
    with pytest.raises(duotone.ConfigError, match=words):
        duotone.run(SMALL, method=given)


def test_a_file_that_names_what_was_made_in_python_says_so(tmp_path):
    hidden = made_in_a_function()
    run = duotone.run(SMALL, method=hidden, out=tmp_path / "a")
    with pytest.raises(duotone.ConfigError, match=r"method = 'object:.*was made in Python"):
        duotone.run(run.path / "config.toml", out=tmp_path / "b")
    again = duotone.run(run.path / "config.toml", method=hidden, out=tmp_path / "b")
    assert again.metrics.equals(run.metrics)
    made = {**SMALL, "method": "fedavg", "data": "object:arrays", "model": "object:Net"}
    with pytest.raises(duotone.ConfigError) as caught:
        plan_run(made)
    assert [line.split(" = ")[0] for line in caught.value.args] == ["data", "model"]
