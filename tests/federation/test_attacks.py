from __future__ import annotations

import pytest
import torch
from federations import make_population

from duotone.errors import ConfigError
from duotone.federation.attacks import (
    ATTACKS,
    Attack,
    attack_of,
    flipped,
    largest_hidden,
    triggered,
    with_backdoor,
)
from duotone.federation.backends.processes import Processes
from duotone.federation.engine import federate
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp
from duotone.types import ClientData, DataInfo


def fedavg(**settings: object) -> FedAvg:
    return FedAvg(FedAvg.Config(epochs=1, **settings), mlp)


def rounds(name: str, count: int = 2, **given):
    population = make_population(members=6)
    attack = Attack(name, ("c1", "c4"), 6) if name else None
    return list(federate(fedavg(), population, rounds=count, attack=attack, **given))


def moves(result, server):
    return {u.client: u.shared["head.bias"] - server["head.bias"] for u in result.updates}


def test_hostile_members_are_drawn_by_seed_and_never_all():
    members = [f"c{i}" for i in range(10)]
    drawn = attack_of({"name": "sign-flip", "share": 0.3}, members, 0)
    assert drawn == attack_of({"name": "sign-flip", "share": 0.3}, members, 0)
    assert len(drawn.hostile) == 3
    assert {attack_of({"name": "nan"}, members, s).hostile for s in range(9)} != {drawn.hostile}
    assert len(attack_of({"name": "nan", "share": 0.01}, members, 0).hostile) == 1
    assert attack_of(None, members, 0) is None
    with pytest.raises(ConfigError, match="all 2 members hostile"):
        attack_of({"name": "nan", "share": 0.9}, members[:2], 0)
    with pytest.raises(ConfigError, match=r"attack\.name = 'poison' is wrong: it should be 'nan'"):
        attack_of({"name": "poison"}, members, 0)
    assert attack_of({"name": float("nan")}, members, 0).name == "nan"  # --set attack.name=nan


@pytest.mark.parametrize(
    ("name", "factor"), [("sign-flip", -1), ("sign-flip-5", -5), ("times-10", 10)]
)
def test_moves_are_scaled_at_hostile_members_alone(name, factor):
    honest, attacked = rounds("", 1)[0], rounds(name, 1)[0]
    server = fedavg().start(honest.info).shared
    was, now = moves(honest, server), moves(attacked, server)
    for client, move in was.items():
        expected = move * (factor if client in ("c1", "c4") else 1)
        assert torch.allclose(now[client], expected, atol=1e-5)


def test_nan_and_huge_weight_are_refused():
    assert set(rounds("nan", 1)[0].refused) == {"c1", "c4"}
    (result,) = rounds("huge-weight", 1)
    assert "more than its" in result.refused["c1"]


def test_stale_and_replayed_are_of_the_beginning():
    first, second = rounds("replayed")
    sent = {u.client: u.shared["head.bias"] for u in first.updates}
    again = {u.client: u.shared["head.bias"] for u in second.updates}
    assert torch.equal(again["c1"], sent["c1"])
    assert not torch.equal(again["c0"], sent["c0"])
    *_, last = rounds("stale")
    begin = fedavg().start(last.info).shared["head.bias"]
    assert torch.equal({u.client: u.shared["head.bias"] for u in last.updates}["c4"], begin)


def test_little_is_enough_is_the_mean_of_the_colluders_minus_deviations():
    honest, attacked = rounds("", 1)[0], rounds("little-is-enough", 1)[0]
    was = {u.client: u.shared["head.bias"] for u in honest.updates}
    now = {u.client: u.shared["head.bias"] for u in attacked.updates}
    both = torch.stack([was["c1"], was["c4"]]).double()
    expected = both.mean(0) - largest_hidden(6, 2) * both.std(0)
    assert torch.allclose(now["c1"].double(), expected, atol=1e-6)
    assert torch.equal(now["c1"], now["c4"])


def test_labels_are_turned_round_but_for_missing_ones():
    info = DataInfo((2,), "classes", 4)
    data = ClientData("a", torch.zeros(3, 2), torch.tensor([0, 3, -1]), info)
    assert flipped(data).y.tolist() == [3, 0, -1]


def test_the_back_door_marks_every_second_sample():
    info = DataInfo((1, 14, 14), "classes", 4)
    data = ClientData("a", torch.zeros(3, 1, 14, 14), torch.tensor([1, 2, 3]), info)
    found = with_backdoor(data)
    assert found.y.tolist() == [0, 2, 0]
    assert found.x.sum(dim=(1, 2, 3)).tolist() == [4, 0, 4]
    assert triggered(torch.zeros(1, 5)).tolist() == [[0, 0, 5, 5, 5]]
    assert data.y.tolist() == [1, 2, 3]  # the samples themselves are left alone


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_runs_with_a_robust_rule(name):
    population = make_population(members=6)
    attack = Attack(name, ("c2",), 6)
    method = fedavg(aggregate="median")
    (result,) = federate(method, population, rounds=1, attack=attack)
    assert all(torch.isfinite(t).all() for t in result.server.shared.values())


def test_workers_see_the_same_attack():
    population = make_population(members=4)
    attack = Attack("sign-flip", ("c1",), 4)
    (here,) = federate(fedavg(), population, rounds=1, attack=attack)
    with Processes(fedavg(), population, 1) as backend:
        (there,) = federate(fedavg(), population, rounds=1, attack=attack, backend=backend)
    for name, tensor in here.server.shared.items():
        assert torch.equal(tensor, there.server.shared[name])
