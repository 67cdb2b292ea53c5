"""What answers are made of: the measure, from clients to the section of a report."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from federations import make_population
from scenes import made_score, make_scene, record_of

from duotone.federation.method import Method
from duotone.federation.serving import Serving
from duotone.federation.settings import MethodSettings
from duotone.measures.asked import background, witnesses_among
from duotone.measures.client_answers import Answers
from duotone.measures.measure import Entry
from duotone.measures.score import Key
from duotone.networks.classifiers import mlp
from duotone.types import ClientState, RoundInfo, ServerState


class OwnBias(Method):
    """Every client has a model of its own: all zeros, and a bias that names its own class."""

    name = "own-bias"

    def before_use(self, server, client, data, info):
        number = int(data.client[1:])
        own = {name: torch.zeros_like(t) for name, t in server.shared.items()}
        own["head.bias"] = torch.zeros(4)
        own["head.bias"][number] = 5.0
        return ClientState(own)


def scene_of(population):
    method = OwnBias(MethodSettings(), mlp)
    info = RoundInfo(1, 1, 0, population.info)
    shared, _ = method.initial(info)
    return make_scene(method, population, Serving(ServerState(shared), info, "zero-shot"))


def test_clients_that_always_name_their_own_class_are_all_habit():
    found = Answers().measure(scene_of(make_population(members=3, newcomers=1)))
    values = {part: found.scores[Key("answers", part)].value for part in ("sample", "habit")}
    assert values == pytest.approx({"sample": 0, "habit": 1})
    assert found.scores[Key("answers", "flips")].value == 1
    assert found.table["members"] == ["c0", "c1", "c2"]
    assert found.table["usual"]["c1"] == pytest.approx(
        torch.tensor([0.0, 5.0, 0.0, 0.0]).softmax(0).tolist()
    )
    assert found.table["flips"]["c0"] == {"c1": 1.0, "c2": 1.0}
    # Each of 12 own samples, decided by two others: class 0 becomes 1 or 2.
    assert found.table["ways"][0] == [0, 12, 12, 0]


def test_one_member_has_nobody_to_be_compared_with():
    population = make_population(members=1, newcomers=1)
    assert not Answers().applies(scene_of(population))


def test_the_background_has_as_many_samples_of_every_member():
    population = make_population(members=3, newcomers=1)
    x, owner = background(population, ["c0", "c2"])
    assert len(x) == len(owner) == 24  # all 12 of each: fewer than asked for
    assert owner.count("c0") == owner.count("c2") == 12


def test_of_many_members_a_fixed_draw_is_asked():
    members = [str(number) for number in range(500)]
    chosen = witnesses_among(members, 3)
    assert len(set(chosen)) == 60
    assert chosen == witnesses_among(members, 3) == sorted(chosen, key=int)
    assert witnesses_among(members[:5], 3) == members[:5]


def recorded():
    scene = scene_of(make_population(members=3, newcomers=1))
    found = Answers().measure(scene)
    return record_of(found.scores, tables={"answers": found.table})


def test_a_report_says_how_much_depends_on_who_is_asked():
    section = Answers().section(recorded())
    assert (
        section.sentences[0].text
        == "100% of what is said differs by who is asked, most of it habit."
    )
    keys = [getattr(block, "key", "") for block in section.blocks]
    assert keys == ["answer-shares", "answer-map", "answer-exchanges", "answer-ways"]
    # Six ordered pairs of three clients, each a sixth of all exchanges.
    assert section.blocks[3].table.rows[0] == ("0", "1", "16.7%")
    assert len(section.blocks[3].table.rows) == 6
    assert Answers().section(record_of({Key("fairness", "gini"): made_score(0.1)})) is None


def test_a_comparison_shows_means_over_seeds():
    section = Answers().compared([Entry("own", [recorded(), recorded()])])
    (row,) = section.blocks[1].table.rows
    assert row == ("own", "0.000", "1.000", "0.000", "1.000")
    assert Answers().compared([Entry("none", [record_of({})])]) is None
    assert np.isfinite(section.blocks[0].data["habit"][0])
