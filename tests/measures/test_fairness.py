from __future__ import annotations

import pytest
from federations import make_population
from scenes import made_score, make_scene, record_of

from duotone.federation.serving import Serving
from duotone.measures.fairness import Fairness, gini
from duotone.measures.measure import Entry, Row
from duotone.measures.panels import Grid
from duotone.measures.score import Key
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp
from duotone.types import RoundInfo

VALUES = {
    ("a", "g", "member"): 0.8,
    ("b", "g", "member"): 0.4,
    ("c", "h", "member"): 0.3,
    ("m", "g", "newcomer"): 0.5,
    ("n", "g", "newcomer"): 0.1,
}


def scene_with(values):
    population = make_population()
    method = FedAvg(FedAvg.Config(), mlp)
    info = RoundInfo(2, 2, 0, population.info)
    rows = [
        Row(number, client, group, role, "both", "accuracy", value / (3 - number))
        for (client, group, role), value in values.items()
        for number in (1, 2)
    ]
    return make_scene(method, population, Serving(method.start(info), info, "zero-shot"), rows=rows)


def test_the_gini_coefficient_by_hand():
    # Mean difference of two draws over twice the mean: (2·(0 + 1 + 3 + 2)/9) / (2·4/3) = 0.5.
    assert gini([3.0, 0.0, 1.0]) == pytest.approx(0.5)
    assert gini([0.7, 0.7, 0.7]) == pytest.approx(0)
    assert gini([0.0, 0.0]) == 0


def test_members_and_newcomers_are_scored_apart():
    scores = Fairness().measure(scene_with(VALUES)).scores
    # Members: means 0.6 and 0.3 of two groups; pairs differ by 0.4, 0.5 and 0.1, the mean is 0.5.
    assert scores["fairness.group_gap"].value == pytest.approx(0.3)
    assert scores["fairness.gini"].value == pytest.approx(2 * (0.4 + 0.5 + 0.1) / 9 / (2 * 0.5))
    # Newcomers are of one group; they differ by 0.4 around 0.3.
    assert scores["fairness.gini.newcomers"].value == pytest.approx(2 * 0.4 / 4 / (2 * 0.3))
    assert "fairness.group_gap.newcomers" not in scores


def test_the_scores_are_rows_of_the_tidy_table():
    found = Fairness().measure(scene_with(VALUES))
    assert {row.metric: (row.role, row.value) for row in found.rows} == {
        str(key): (key.role, score.value) for key, score in found.scores.items()
    }


def test_a_single_client_has_nothing_to_compare():
    alone = {who: value for who, value in VALUES.items() if who[0] == "a"}
    assert Fairness().measure(scene_with(alone)).scores == {}


def test_the_section_shows_the_scores_and_every_group():
    scores = {
        Key("fairness", "gini"): made_score(0.25, unit="index"),
        Key("fairness", "group_gap"): made_score(0.3),
        Key("accuracy", "worst_decile"): made_score(0.35),
    }
    last = {client: (group, role, value) for (client, group, role), value in VALUES.items()}
    section = Fairness().section(record_of(scores, last=last))
    first, second = (block.table.rows for block in section.blocks if isinstance(block, Grid))
    assert [row[1:] for row in first] == [
        ("0.250", "–"),
        ("30.0 %", "–"),
        ("35.0 %", "–"),
        ("–", "–"),
    ]
    assert second == (("g", "60.0 %", "30.0 %"), ("h", "30.0 %", "–"))
    assert Fairness().section(record_of({})) is None


def test_entries_stand_beside_each_other_as_means_over_seeds():
    def seed(value: float):
        return record_of({Key("fairness", "gini"): made_score(value, unit="index")})

    entries = [Entry("x", [seed(0.1), seed(0.3)]), Entry("y", [record_of({})])]
    table = Fairness().compared(entries).blocks[0].table
    assert table.rows == (("x", "0.200", "–", "–", "–"), ("y", "–", "–", "–", "–"))
    assert Fairness().compared(entries[1:]) is None
