"""A shortened run makes a share of its rounds, can be repeated, and says so everywhere."""

from __future__ import annotations

import pytest

import duotone
from duotone.config import read_toml
from duotone.report.record import read_record
from duotone.report.sections import run_page
from duotone.runs import load_run
from duotone.runs.plan import plan_run
from duotone.runs.result_tables import score_table
from duotone.runs.study import run_study

SMALL = {
    "data": "mini-digits",
    "model": "mlp",
    "rounds": 10,
    "scale": 0.2,
    "sampled": 2,
    "backend": "serial",
    "latents": 0,
    "curve": [],
    "partition": {"scheme": "iid", "clients": 3, "newcomers": 0, "max_train": 40},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("scaled") / "run"
    return duotone.run({**SMALL, "method": "fedavg"}, out=out)


def test_it_makes_its_share_of_the_rounds(run):
    assert run.summary["rounds"] == 2
    assert run.summary["scale"] == 0.2
    assert run.summary["published_share"] is None
    assert run.metrics["round"].max() == 2


def test_it_is_evaluated_as_often_as_the_whole_run(run):
    """Every five of ten rounds by default, so after each of its two."""
    scored = run.metrics.filter(run.metrics["metric"] == "accuracy")
    assert sorted(scored["round"].unique()) == [1, 2]


def test_its_configuration_repeats_it_and_does_not_shorten_it_again(run):
    again = plan_run(read_toml(run.path / "config.toml")).config
    assert (again.rounds, again.scale, again.rounds_made) == (10, 0.2, 2)


def test_resuming_a_finished_one_changes_nothing(run):
    assert duotone.resume(run.path).summary == run.summary


def test_the_report_says_so(run):
    page = run_page(read_record(load_run(run.path)))
    assert "2 of 10 rounds (scale 0.2)" in page.subtitle


def test_tables_of_a_study_say_so(tmp_path):
    """FedAvg has no printed number of rounds, so there is no share of them."""
    settings = {**SMALL, "scale": 0.1}
    study = run_study(
        {"seeds": [0], "settings": settings, "methods": ["fedavg"]},
        out=tmp_path / "study",
    )
    table = score_table(study.results)
    assert "every run made 10 % of its rounds" in table.note
    assert not any("published" in column for column in table.columns)


def test_tables_name_the_share_of_the_published_training():
    results = {
        "headline": "accuracy",
        "settings": {},
        "entries": [
            {
                "name": "a",
                "seeds": [0],
                "newcomer_rule": None,
                "scores": {},
                "published_share": 0.04,
            }
        ],
    }
    table = score_table(results)
    assert table.columns[2] == ">published training"
    assert table.rows[0][2] == "4 %"
