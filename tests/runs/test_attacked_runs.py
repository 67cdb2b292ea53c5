from __future__ import annotations

import json

import pytest

import duotone
from duotone.errors import ConfigError, RunError

SMALL = {
    "data": "mini-digits",
    "rounds": 2,
    "model": "linear",
    "backend": "serial",
    "latents": 0,
    "curve": [],
    "partition": {"scheme": "iid", "clients": 6, "newcomers": 1},
}


@pytest.mark.filterwarnings("ignore:Round:UserWarning", "ignore:This run was:UserWarning")
def test_an_attacked_run_scores_the_honest_and_reports_the_others(tmp_path):
    attack = {"name": "nan", "share": 0.4}
    run = duotone.run(
        {**SMALL, "attack": attack, "set_aside": 1, "method": {"name": "fedavg"}},
        out=tmp_path / "run",
    )
    table = json.loads((tmp_path / "run" / "refusals.json").read_text())
    hostile = table["hostile"]
    assert len(hostile) == 2
    scored = run.metrics.filter(run.metrics["metric"] == "accuracy")
    assert not set(hostile) & set(scored["client"])
    assert run.summary["scores"]["member.accuracy"]["n"] == 3
    assert any("attacked on purpose" in line for line in run.summary["warnings"])
    of_hostile = [row for row in table["clients"] if row["client"] in hostile]
    assert [row["refused"] for row in of_hostile] == [[1], [1]]
    assert all(row["aside"] and "NaN" in row["reason"] for row in of_hostile)
    assert run.summary["scores"]["refusals.hostile.noticed"]["value"] == 1
    page = run.report().read_text(encoding="utf-8")
    assert "Refused or far from the rest" in page
    assert "(set aside)" in page


@pytest.mark.filterwarnings("ignore:This run was:UserWarning")
def test_the_back_door_is_measured_at_honest_members(tmp_path):
    given = {**SMALL, "attack": {"name": "backdoor"}, "method": {"name": "fedavg"}}
    run = duotone.run(given, out=tmp_path / "run")
    assert 0 <= run.summary["scores"]["refusals.backdoor"]["value"] <= 1


def test_an_honest_run_has_none_of_it(tmp_path):
    run = duotone.run({**SMALL, "method": {"name": "fedavg"}}, out=tmp_path / "run")
    assert not (tmp_path / "run" / "refusals.json").exists()
    assert not any("move" in name or name == "refused" for name in run.metrics["metric"])


def test_too_few_clients_for_a_rule_are_an_error_before_training():
    method = {"name": "fedavg", "aggregate": "krum", "hostile": 0.4}
    with pytest.raises(ConfigError, match=r"aggregate = 'krum' with hostile = 0\.4"):
        duotone.run({**SMALL, "method": method})


def test_an_exported_client_that_announces_a_million_classes_is_refused(tmp_path):
    run = duotone.run({**SMALL, "method": {"name": "fedavg"}}, out=tmp_path / "run")
    run.client("0").export(tmp_path / "exported")
    path = tmp_path / "exported" / "client.json"
    content = json.loads(path.read_text())
    content["info"]["outputs"] = 999_990
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="fewer numbers than outputs"):
        duotone.load_client(tmp_path / "exported")
