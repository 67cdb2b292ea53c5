from __future__ import annotations

import pytest
import torch
from federations import make_population

from duotone.errors import TrainingError
from duotone.federation.attacks import Attack
from duotone.federation.engine import federate
from duotone.federation.watch import Refusals, Standing, standings
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp
from duotone.types import ClientUpdate


def moved(**moves: tuple[float, float]) -> list[ClientUpdate]:
    return [ClientUpdate(c, {"w": torch.tensor(m) + 5}, 1) for c, m in moves.items()]


def sent(_: ClientUpdate) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor([5.0, 5.0])}


def test_moves_are_compared_by_length_and_direction_as_worked_by_hand():
    found = standings(moved(a=(1.0, 0.0), b=(2.0, 0.0), c=(0.0, 3.0), d=(-20.0, 0.0)), sent)
    # Lengths 1, 2, 3, 20; the lower median is 2.
    assert found["a"].length == pytest.approx(0.5)
    assert found["d"].length == pytest.approx(10)
    # Directions (1, 0), (1, 0), (0, 1), (−1, 0): for a the others sum to (0, 1), for d to (2, 1).
    assert found["a"].agreement == pytest.approx(0, abs=1e-12)
    assert found["d"].agreement == pytest.approx(-2 / 5**0.5)


def test_far_is_long_or_against_the_rest():
    assert Standing(3.1, 0.9).is_far
    assert Standing(1.0, -0.1).is_far
    assert not Standing(2.9, 0.0).is_far


def test_one_move_and_no_tensors_have_nothing_to_be_compared_with():
    assert standings(moved(a=(1.0, 0.0)), sent) == {}
    assert standings([ClientUpdate(c, {}, 1) for c in "ab"], sent) == {}


def test_moves_of_nothing_divide_by_no_zero():
    assert standings(moved(a=(0.0, 0.0), b=(0.0, 0.0)), sent)["a"] == Standing(0.0, 0.0)


def rounds(count: int, refusals: Refusals | None = None, **given):
    method = FedAvg(FedAvg.Config(epochs=1), mlp)
    attack = Attack("nan", ("c1",), 4)
    population = make_population(members=4)
    return federate(method, population, rounds=count, attack=attack, refusals=refusals, **given)


def test_a_member_is_set_aside_after_as_many_refusals_and_asked_no_more():
    found = list(rounds(4, Refusals(2)))
    assert [sorted(result.refused) for result in found] == [["c1"], ["c1"], [], []]
    assert [sorted(result.set_aside) for result in found] == [[], ["c1"], ["c1"], ["c1"]]
    assert [len(result.updates) for result in found] == [3, 3, 3, 3]


def test_without_the_setting_nobody_is_set_aside():
    assert all(sorted(result.refused) == ["c1"] for result in rounds(3))


def test_earlier_refusals_count_after_a_resume():
    refusals = Refusals(2)
    refusals.add(["c1", "c0"])
    refusals.add(["c1"])
    (result,) = rounds(1, refusals)
    assert result.refused == {}
    assert [update.client for update in result.updates] == ["c0", "c2", "c3"]


def test_when_all_are_set_aside_the_run_stops_with_a_line():
    refusals = Refusals(1)
    refusals.add(["c0", "c1", "c2", "c3"])
    with pytest.raises(TrainingError, match="set aside"):
        list(rounds(1, refusals))


def test_updates_are_compared_only_if_asked():
    (quiet,) = rounds(1)
    (watched,) = rounds(1, watch=True)
    assert quiet.standings == {}
    assert sorted(watched.standings) == ["c0", "c2", "c3"]
    assert all(torch.equal(t, watched.server.shared[n]) for n, t in quiet.server.shared.items())


def test_what_is_larger_than_allowed_is_refused():
    with pytest.raises(TrainingError, match=r"bytes, more than the allowed 10\."):
        list(rounds(1, max_bytes=10))
