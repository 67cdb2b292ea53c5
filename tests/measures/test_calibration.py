from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from federations import make_population
from scenes import made_score, make_scene, record_of

from duotone.federation.backends import ClientTask
from duotone.federation.personalise import Personalisation
from duotone.federation.serving import Serving
from duotone.measures.calibration import (
    BINS,
    Calibration,
    CalibrationJob,
    expected_error,
    reliability,
)
from duotone.measures.measure import Entry
from duotone.measures.score import Key
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp
from duotone.types import RoundInfo


@pytest.fixture
def scene():
    population = make_population()
    method = FedAvg(FedAvg.Config(), mlp)
    info = RoundInfo(1, 1, 0, population.info)
    return make_scene(method, population, Serving(method.start(info), info, "label-free"))


def test_the_error_by_hand():
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.3, 0.7]])
    counts = reliability(probabilities, np.array([0, 1, 1, 1]))
    # 0.9 twice, right once: off by 0.8 in sum. 0.6 and 0.7 fall into bins 9 and 10, both right.
    assert counts[0].sum() == 4
    assert counts[:, 13] == pytest.approx([2, 1.8, 1])
    assert expected_error(counts) == pytest.approx((0.8 + 0.4 + 0.3) / 4)


def test_a_certain_answer_falls_into_the_last_bin():
    counts = reliability(np.array([[1.0, 0.0]]), np.array([0]))
    assert counts[:, BINS - 1] == pytest.approx([1, 1, 1])
    assert expected_error(counts) == 0


def test_a_clients_answers_to_its_test_samples_are_counted(scene):
    counts = CalibrationJob(scene.serving)(scene.method, scene.population, ClientTask("c0", None))
    model = scene.method.load(scene.serving.server.shared, scene.population.info).eval()
    data = scene.population.data("c0", "test")
    shares = scene.method.predict(model, data.x).detach().double().softmax(dim=1)
    assert counts[0].sum() == len(data) == 12
    assert counts[1].sum() == pytest.approx(float(shares.max(dim=1).values.sum()), abs=1e-5)
    assert counts[2].sum() == int((shares.argmax(dim=1) == data.labels).sum())


def test_members_and_newcomers_are_pooled_apart(scene):
    found = Calibration().measure(scene)
    kept = found.table["clients"]
    for role, names in (("member", ["c0", "c1", "c2"]), ("newcomer", ["c3"])):
        own = [np.array(item["counts"]) for item in kept if item["kind"] == role]
        assert [item["client"] for item in kept if item["kind"] == role] == names
        score = found.scores[Key("calibration", "ece", role=role)]
        assert score.value == pytest.approx(expected_error(sum(own)))
        assert score.n == 12 * len(names)
    assert {row.metric for row in found.rows} == {"calibration.ece", "calibration.ece.newcomers"}


def test_adjusted_models_stand_beside_unadjusted_ones(scene):
    chosen = Personalisation("prior", (0.97, 0.01, 0.01, 0.01))
    adjusted = replace(scene, serving=replace(scene.serving, chosen=chosen))
    found = Calibration().measure(adjusted).scores
    plain = Calibration().measure(scene).scores
    assert found["calibration.ece.unadjusted"] == plain["calibration.ece"]
    assert found["calibration.ece"] != plain["calibration.ece"]
    nothing = replace(scene.serving, chosen=Personalisation("none", chosen.shares))
    assert Calibration().measure(replace(scene, serving=nothing)).scores.keys() == plain.keys()


def test_regression_has_no_confidence(scene):
    info = replace(scene.population.info, task="regression")
    population = type("P", (), {"info": info})()
    assert Calibration().applies(scene)
    assert not Calibration().applies(replace(scene, population=population))


def test_the_section_shows_bins_that_have_answers(scene):
    found = Calibration().measure(scene)
    section = Calibration().section(record_of(found.scores, tables={"calibration": found.table}))
    panel, grid = section.blocks
    assert panel.data["answers"].sum() == 48
    assert panel.data["confidence"].is_between(0.25, 1).all()
    assert len(grid.table.rows) == 1
    assert Calibration().section(record_of({})) is None


def test_entries_stand_beside_each_other_as_means_over_seeds():
    def seed(value: float):
        return record_of({Key("calibration", "ece"): made_score(value, unit="index")})

    entries = [Entry("x", [seed(0.1), seed(0.2)]), Entry("y", [record_of({})])]
    table = Calibration().compared(entries).blocks[0].table
    assert table.rows == (("x", "0.150", "–"), ("y", "–", "–"))
    assert Calibration().compared(entries[1:]) is None
