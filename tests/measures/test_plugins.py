"""A measure of another package is one class and an entry point."""

from __future__ import annotations

import pytest
from scenes import record_of

import duotone
from duotone.measures import MEASURES, all_measures
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
