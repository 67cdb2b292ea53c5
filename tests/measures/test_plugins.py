"""A measure of another package is one class and an entry point."""

from __future__ import annotations

import pytest
from scenes import record_of

import duotone
from duotone.errors import ConfigError
from duotone.measures import MEASURES, all_measures, chosen_measures
from duotone.measures.measure import Findings, Measure
from duotone.measures.panels import Note, Section
from duotone.measures.score import Key, Score


class Sizes(Measure):
    """How many samples do clients have?"""

    name = "sizes"
    file = "sizes"

    def measure(self, scene):
        sizes = {client: len(scene.population.data(client)) for client in scene.clients}
        score = Score.over(list(sizes.values()), "reference", "count")
        return Findings({Key("sizes", "mean"): score}, table={"clients": sizes})

    def section(self, record):
        if "sizes" not in record.tables:
            return None
        note = Note(f"{len(record.tables['sizes']['clients'])} clients were counted.")
        return Section("sizes", "Sizes", "How many samples clients have.", [note])


@pytest.fixture
def with_sizes(monkeypatch):
    monkeypatch.setitem(MEASURES._entries, "sizes", f"{__name__}:Sizes")


def test_every_measure_is_listed_under_its_own_name():
    assert [measure.name for measure in all_measures()] == list(MEASURES)
    files = [measure.file for measure in all_measures() if measure.file is not None]
    assert len(files) == len(set(files))


@pytest.mark.parametrize(
    ("choice", "there", "absent"),
    [
        ("full", {"probes", "restyling", "accuracy", "sizes"}, set()),
        ("fast", {"answers", "maps", "accuracy", "sizes"}, {"probes", "factors", "swaps"}),
        ("none", {"accuracy", "fairness", "traffic"}, {"answers", "maps", "probes", "sizes"}),
        ("swaps, maps", {"swaps", "maps", "accuracy"}, {"probes", "answers", "sizes"}),
    ],
)
def test_measures_can_be_chosen(with_sizes, choice, there, absent):
    names = chosen_measures(choice)
    assert there <= set(names)
    assert not absent & set(names)
    assert names == [name for name in MEASURES if name in names]


def test_an_unknown_measure_is_named_before_anything_is_trained(tmp_path):
    with pytest.raises(ConfigError, match=r"'probs'\. Did you mean 'probes'"):
        duotone.run(method="fedavg", data="mini-digits", measure="probs", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_is_not_asked_for_is_not_measured(tmp_path):
    run = duotone.run(
        method="fedavg",
        data="mini-digits",
        model="mlp",
        partition={"scheme": "iid", "clients": 3, "max_train": 20},
        rounds=1,
        measure="none",
        out=tmp_path / "run",
    )
    measured = {score["measure"] for score in run.summary["scores"].values()}
    assert measured <= {"accuracy", "fairness", "traffic"}
    assert "member.accuracy" in run.summary["scores"]
    assert not (run.path / "latents.npz").exists()
    assert run.report().exists()


def test_a_measure_says_nothing_about_a_run_it_knows_nothing_of():
    always = {"accuracy", "probes", "maps", "traffic"}  # they say what is missing
    record = record_of({})
    for measure in all_measures():
        if measure.name not in always:
            assert measure.section(record) is None, measure.name


def test_a_measure_of_another_package_reaches_folder_and_report(tmp_path, with_sizes):
    run = duotone.run(
        method="fedavg",
        data="mini-digits",
        model="mlp",
        partition={"scheme": "iid", "clients": 3, "max_train": 20},
        rounds=1,
        latents=0,
        out=tmp_path / "run",
    )
    clients = run.folder.table("sizes")["clients"]
    score = run.summary["scores"]["sizes.mean"]
    assert score["value"] == sum(clients.values()) / 3
    assert (score["measure"], score["question"]) == ("sizes", "mean")
    assert "3 clients were counted." in run.report().read_text(encoding="utf-8")
