from __future__ import annotations

from functools import partial

import pytest
import torch
from federations import make_population

from duotone.federation.aggregate import weighted_mean
from duotone.federation.engine import federate
from duotone.federation.spill import Spill
from duotone.methods import METHODS
from duotone.networks.classifiers import mlp
from duotone.types import ClientUpdate


def update(client: str, value: float, weight: float) -> ClientUpdate:
    shared = {
        "w": torch.full((2, 3), value).T,
        "half": torch.tensor([value], dtype=torch.bfloat16),
        "count": torch.tensor(int(value)),
        "none": torch.zeros(0, 4),
    }
    return ClientUpdate(client, shared, weight, {"s": torch.ones(1)}, {"loss": 0.5})


def test_beyond_the_limit_tensors_are_read_back_to_the_bit(tmp_path):
    first = update("a", 0.1, 3)
    size = sum(tensor.nbytes for tensor in first.shared.values())
    spill = Spill(tmp_path, most=size)
    assert spill.keep(first) is first
    given = [update("b", 1 / 3, 2), update("c", 7.7, 5)]
    for before, after in zip(given, [spill.keep(one) for one in given], strict=True):
        assert not isinstance(after.shared, dict)
        assert list(after.shared) == list(before.shared)
        for name, tensor in before.shared.items():
            assert after.shared[name].dtype == tensor.dtype
            assert torch.equal(after.shared[name], tensor)
        assert (after.client, after.weight, after.metrics) == (
            before.client,
            before.weight,
            before.metrics,
        )
    assert not list(tmp_path.iterdir()), "a file without a name: a kill leaves nothing behind"


def test_without_a_folder_all_stays_in_memory():
    one = update("a", 1, 1)
    assert Spill(None, most=0).keep(one) is one


def test_the_mean_is_the_same_to_the_bit(tmp_path):
    updates = [update(str(i), 1 / (i + 1), i + 1.0) for i in range(7)]
    spill = Spill(tmp_path, most=100)
    there, here = weighted_mean([spill.keep(one) for one in updates]), weighted_mean(updates)
    assert there.keys() == here.keys()
    assert all(torch.equal(there[name], here[name]) for name in here)


@pytest.mark.parametrize("name", ["fedavg", "ifca"])
@pytest.mark.parametrize("watch", [False, True])
def test_a_federation_trains_the_same_with_its_updates_on_disk(tmp_path, monkeypatch, name, watch):
    population = make_population(members=5, samples=12)
    kind = METHODS.load(name)

    def trained(scratch):
        method = kind(kind.Config(epochs=1), mlp)
        *_, last = federate(method, population, rounds=2, watch=watch, scratch=scratch)
        return last

    here = trained(None)
    monkeypatch.setattr("duotone.federation.engine.Spill", partial(Spill, most=0))
    there = trained(tmp_path)
    assert not any(isinstance(one.shared, dict) for one in there.updates)
    assert all(
        torch.equal(there.server.shared[n], here.server.shared[n]) for n in here.server.shared
    )
    assert there.standings == here.standings
