"""Slow and absent members: who they are, when they are, and that nobody else notices."""

from __future__ import annotations

import pytest
import torch
from federations import make_population

from duotone.errors import ConfigError, TrainingError
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.system import System, SystemSettings, system_of
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.baselines.fedrep import FedRep
from duotone.networks.classifiers import mlp


def fedavg():
    return FedAvg(FedAvg.Config(epochs=1), mlp)


def rounds(settings, *, count=3, method=None, workers=0, **given):
    population, method = make_population(members=6), method or fedavg()
    system = system_of(settings, population, 0)
    backend = Processes(method, population, workers) if workers else Serial(method, population)
    with backend:
        return list(
            federate(method, population, rounds=count, system=system, backend=backend, **given)
        )


def test_devices_that_are_alike_change_nothing():
    plain, told = rounds(None)[-1].server.shared, rounds({})[-1].server.shared
    assert all(torch.equal(plain[name], told[name]) for name in plain)


def test_speed_classes_have_their_shares_and_are_drawn_by_seed():
    population = make_population(members=10)
    settings = {"speeds": [1, 2, 8], "shares": [0.5, 0.3, 0.2]}
    first, again = (system_of(settings, population, 3) for _ in range(2))
    assert first == again
    speeds = sorted(first.speed.values())
    assert speeds == [1, 1, 1, 1, 1, 2, 2, 2, 8, 8]
    assert len({tuple(system_of(settings, population, s).speed.items()) for s in range(9)}) > 1
    assert all(first.time[c] == first.fastest[c] * first.speed[c] for c in first.time)
    assert sum(first.fastest.values()) == pytest.approx(10)


def test_equal_shares_where_none_are_given():
    system = system_of({"speeds": [1, 3]}, make_population(members=6), 0)
    assert sorted(system.speed.values()) == [1, 1, 1, 3, 3, 3]


def test_members_drop_out_as_often_as_asked_and_by_round_and_name():
    system = system_of({"dropout": 0.3}, make_population(members=6), 0)
    names = list(system.speed)
    absent = [system.absent(names, number) for number in range(1, 301)]
    share = sum(map(len, absent)) / (300 * len(names))
    assert 0.26 < share < 0.34
    assert absent[4] == system.absent(names, 5)
    assert any(0 < len(one) < len(names) for one in absent)
    # Who else is drawn has no part in it.
    alone = [system.absent(names[2:3], number) for number in range(1, 301)]
    assert [names[2] in one for one in absent] == [names[2] in one for one in alone]


def made(time, deadline=None, dropout=0.0):
    settings = SystemSettings(deadline=deadline, dropout=dropout)
    return System(settings, 0, dict.fromkeys(time, 1.0), time, time)


def test_a_round_lasts_as_long_as_its_slowest_member_or_until_the_deadline():
    time = {"a": 1.0, "b": 4.0, "c": 2.0}
    assert made(time).lasted(["a", "c"], ["b"]) == 2
    assert made(time).lasted([], ["b"]) == 0
    patient = made(time, deadline=3)
    assert patient.absent(time, 1) == {"b": "late"}
    assert patient.lasted(["a", "c"], ["b"]) == 3
    assert patient.lasted(["a", "c"], []) == 2


def test_absent_members_send_nothing_and_keep_their_state():
    states = MemoryStates()
    method = FedRep(FedRep.Config(epochs=1), mlp)
    settings = {"speeds": [1, 50], "deadline": 20}
    found = rounds(settings, method=method, states=states, count=2)
    late = {client for result in found for client in result.absent}
    assert late == set(states.states.keys() ^ make_population(members=6).partition.members)
    assert len(late) == 3
    for result in found:
        assert {update.client for update in result.updates} == set(states.states)
        assert set(result.absent.values()) == {"late"}
        assert not result.refused


def test_an_update_counts_as_if_only_those_that_answered_had_been_drawn():
    found = rounds({"dropout": 0.4}, count=1)[0]
    assert 0 < len(found.absent) < 6
    shared = found.updates[0].shared
    total = sum(update.weight for update in found.updates)
    for name in shared:
        mean = sum(update.shared[name].double() * update.weight for update in found.updates) / total
        assert torch.allclose(found.server.shared[name].double(), mean, atol=1e-6), name
    assert len(found.updates) + len(found.absent) == 6


def test_a_round_without_anybody_leaves_the_model_as_it_is():
    found = rounds({"speeds": [9], "deadline": 0.001}, count=2)
    assert [len(result.absent) for result in found] == [6, 6]
    first, second = (result.server.shared for result in found)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert found[0].updates == ()


def test_a_quorum_that_absence_breaks_is_said():
    with pytest.raises(TrainingError, match="3 of 6 members dropped out or were late, and a round"):
        rounds({"speeds": [1, 50], "deadline": 20}, quorum=4)


@pytest.mark.slow
def test_every_backend_sees_the_same_absences():
    settings = {"dropout": 0.4, "speeds": [1, 50], "deadline": 20}
    here, there = rounds(settings, count=2), rounds(settings, count=2, workers=2)
    assert [result.absent for result in here] == [result.absent for result in there]
    last = [result[-1].server.shared for result in (here, there)]
    assert all(torch.equal(last[0][name], last[1][name]) for name in last[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dropout": 1}, r"system\.dropout = 1 is wrong"),
        ({"speeds": [0.5]}, r"system\.speeds"),
        ({"speeds": []}, r"system\.speeds"),
        ({"speeds": [1, 2], "shares": [1]}, "give one share for each speed class"),
        ({"speeds": [1, 2], "shares": [0.5, 0.6]}, r"add up to 1\.1"),
        ({"drop": 0.1}, r"A system has no setting system\.drop\. Did you mean"),
    ],
)
def test_wrong_settings_are_said(settings, message):
    with pytest.raises(ConfigError, match=message):
        system_of(settings, make_population(), 0)
