"""A run with more clients than are evaluated: nothing walks through all of them."""

from __future__ import annotations

import json

import pytest

import duotone
from duotone.errors import UnknownNameError
from duotone.partition import partition as partition_module

SETTINGS = {
    "method": {"name": "fedbn", "epochs": 1},
    "data": "mini-digits",
    "partition": {"scheme": "iid", "clients": 40, "newcomers": 10},
    "rounds": 2,
    "sampled": 3,
    "evaluate_every": 1,
    "evaluate_clients": 4,
    "measure": "fast",
    "backend": "serial",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for module in ("runs.execute", "runs.served", "measures.holdings"):
            patch.setattr(f"duotone.{module}.MANY_CLIENTS", 20)
        patch.setattr(partition_module, "AT_ONCE", 0)
        yield duotone.run(SETTINGS, out=tmp_path_factory.mktemp("runs") / "many")


def test_a_sample_of_each_role_is_evaluated_and_that_is_said(run):
    scored = run.metrics.filter(run.metrics["metric"] == "accuracy")
    counts = {
        kind: set(scored.filter(scored["kind"] == kind)["client"])
        for kind in ("member", "newcomer")
    }
    assert {kind: len(clients) for kind, clients in counts.items()} == {"member": 4, "newcomer": 4}
    said = "Scores are those of 4 of 30 members and 4 of 10 newcomers, drawn at random once"
    assert any(line.startswith(said) for line in run.summary["warnings"])
    assert run.summary["scores"]["member.accuracy"]["n"] == 4


def test_only_the_models_of_those_are_kept_and_the_others_are_made_on_demand(run):
    index = json.loads((run.path / "served" / "index.json").read_text())
    assert len(index["clients"]) == len(index["models"]["last"]) == 8
    assert index["unlisted"] == 32
    assert len(list((run.path / "served" / "last").iterdir())) == 8
    holdings = json.loads((run.path / "holdings.json").read_text())
    assert holdings["tested"].keys() == index["clients"].keys()
    other = next(str(i) for i in range(40) if str(i) not in index["clients"])
    client = duotone.load_run(run.path).client(other)
    assert client.facts.name == other
    with pytest.raises(UnknownNameError, match="no client '40'"):
        duotone.load_run(run.path).client("40")


def test_shuffling_clients_late_changes_no_number(run, tmp_path):
    early = duotone.run(SETTINGS, out=tmp_path / "early")
    assert (early.path / "metrics.csv").read_bytes() == (run.path / "metrics.csv").read_bytes()
