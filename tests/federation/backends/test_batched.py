from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from duotone.config import RunConfig
from duotone.data.dataset import Dataset
from duotone.federation.attacks import Attack
from duotone.federation.backends import batched
from duotone.federation.backends.batched import Batched, why_not
from duotone.federation.backends.choice import make_backend
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, federate
from duotone.methods import METHODS
from duotone.networks.classifiers import mlp, mlp_bn
from duotone.partition.partition import Holding, Partition, Population
from duotone.types import DataInfo

SIZES = (70, 37, 37, 33, 35, 5, 64)
"""Batches of 32: unequal last ones, one of two samples, one of 33; one client has less than one."""
CLASSES = DataInfo((6,), "classes", 3)
SETTINGS = {
    "sgd": {"momentum": 0.9, "lr": 0.05, "weight_decay": 1e-3},
    "adam": {"optimizer": "adam", "lr": 0.01},
}


def table(task: str = "classes") -> Population:
    """Return clients of different sizes, whose rows differ."""
    rng = np.random.default_rng(0)
    ends = np.cumsum(SIZES)
    x = rng.normal(size=(ends[-1], 6)).astype(np.float32)
    x += np.repeat(np.arange(len(SIZES)), SIZES)[:, np.newaxis] / 4
    level = (x[:, 0] - x[:, 1]).astype(np.float32)
    y = np.digitize(level, [-0.5, 0.5]) if task == "classes" else level
    nothing = np.zeros(len(x), bool)
    data = Dataset("rows", x, y, nothing, classes=3 if task == "classes" else 0)
    none = np.arange(0)
    holdings = [
        Holding(f"c{i}", "g", "member", np.arange(end - size, end), none, none)
        for i, (end, size) in enumerate(zip(ends, SIZES, strict=True))
    ]
    return Population(data, Partition.from_holdings(holdings))


def made(name: str, network=mlp, **settings):
    kind = METHODS.load(name)
    return kind(kind.Config(**settings), network)


def after_three_rounds(kind, method, population, **options):
    """Return server, client states and what clients told, after three rounds."""
    states = MemoryStates()
    backend = kind(method, population)
    rounds = list(federate(method, population, rounds=3, backend=backend, states=states, **options))
    told = {(r.info.round, u.client): u.metrics["train_loss"] for r in rounds for u in r.updates}
    assert len(told) == 3 * len(SIZES)
    return rounds[-1].server.shared, states.states, told


def assert_near(ours, theirs):
    server, states, told = theirs
    assert told == pytest.approx(ours[2], abs=1e-6)
    assert states.keys() == ours[1].keys()
    pairs = [(server, ours[0])] + [(states[c].local, ours[1][c].local) for c in states]
    for one, other in pairs:
        assert one.keys() == other.keys()
        for name in one:
            torch.testing.assert_close(one[name], other[name], rtol=0, atol=1e-6)


@pytest.fixture
def alone(monkeypatch):
    """Note whom the backend computes one by one; nobody else may be."""
    seen = []
    plain = Serial.map_clients

    def noted(self, job, tasks):
        tasks = list(tasks)
        if isinstance(self, Batched):
            seen.extend(task.client for task in tasks)
        return plain(self, job, tasks)

    monkeypatch.setattr(Serial, "map_clients", noted)
    return seen


@pytest.mark.parametrize("optimizer", SETTINGS)
@pytest.mark.parametrize("task", ["classes", "regression"])
@pytest.mark.parametrize("name", ["fedavg", "fedper"])
def test_clients_side_by_side_learn_what_they_learn_alone(name, task, optimizer, alone):
    population = table(task)
    method = made(name, **SETTINGS[optimizer])
    side_by_side = after_three_rounds(Batched, method, population)
    assert alone == []
    assert_near(side_by_side, after_three_rounds(Serial, method, population))


def test_a_round_with_more_clients_than_a_stack_is_several_stacks(monkeypatch, alone):
    monkeypatch.setattr(batched, "SIDE_BY_SIDE", 3)
    method, population = made("fedper"), table()
    side_by_side = after_three_rounds(Batched, method, population)
    assert alone == []
    assert_near(side_by_side, after_three_rounds(Serial, method, population))


def test_the_samples_of_a_batch_have_equal_shares_by_client():
    """One step of y = w·x from w = 1, worked by hand with one sample and with two."""
    x = np.array([[1.0], [1.0], [2.0]], np.float32)
    y = np.array([3.0, 3.0, 4.0], np.float32)
    data = Dataset("rows", x, y, np.zeros(3, bool), classes=0)
    none = np.arange(0)
    holdings = [
        Holding("a", "g", "member", np.arange(1), none, none),
        Holding("b", "g", "member", np.arange(1, 3), none, none),
    ]
    population = Population(data, Partition.from_holdings(holdings))
    method = made("fedavg", starts_at_one, lr=0.1, epochs=1)
    (result,) = federate(method, population, rounds=1, backend=Batched(method, population))
    found = {update.client: update.shared["weight"].item() for update in result.updates}
    # a: gradient 2(w − 3) = −4. b: the mean of 2(w − 3) and 2·2(2w − 4) is −6.
    assert found == pytest.approx({"a": 1.4, "b": 1.6})
    told = {update.client: update.metrics["train_loss"] for update in result.updates}
    assert told == pytest.approx({"a": 4.0, "b": 4.0})


def test_hostile_clients_are_computed_one_by_one(alone):
    method, population = made("fedavg"), table()
    attack = Attack("sign-flip", ("c1",), len(SIZES))
    side_by_side = after_three_rounds(Batched, method, population, attack=attack)
    assert alone == ["c1"] * 3
    assert_near(side_by_side, after_three_rounds(Serial, method, population, attack=attack))


def test_a_client_that_cannot_be_trained_does_not_stop_the_others():
    population = table()
    population.dataset.y[: SIZES[0]] = 7  # there is no such class
    method = made("fedavg")
    backend = Batched(method, population)
    said = []
    backend.say = said.append
    (result,) = federate(method, population, rounds=1, backend=backend)
    assert list(result.refused) == ["c0"]
    assert len(result.updates) == len(SIZES) - 1
    (line,) = said
    assert line.startswith("Training 7 clients one after the other: ")


def starts_at_one(data):
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    return layer


class Centred(nn.Sequential):
    """Looks at the whole batch."""

    def __init__(self, data):
        super().__init__(nn.Linear(6, 3))

    def forward(self, x):
        return self[0](x - x.mean(dim=0))


class Forgetful(nn.Sequential):
    """Has dropout, but no layer of it."""

    def __init__(self, data):
        super().__init__(nn.Linear(6, 3))

    def forward(self, x):
        return self[0](functional.dropout(x, training=self.training))


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (made("fedrep"), "fedrep trains its clients in a way of its own"),
        (made("fedavg", mlp_bn), "the network has a layer of type BatchNorm1d"),
        (
            made("fedavg", lambda data: nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.1))),
            "the network has a layer of type Dropout",
        ),
        (made("fedavg", Centred), "the network does not treat each sample by itself"),
        (made("fedavg", Forgetful), "the network does not treat each sample by itself"),
    ],
)
def test_what_cannot_be_stacked_is_computed_one_by_one_and_that_is_said(method, reason):
    assert why_not(method, CLASSES) == reason
    said = []
    config = RunConfig(backend="batched")
    assert type(make_backend(method, table(), config, said.append)) is Serial
    assert said == [
        f"Training clients one after the other: backend = 'batched' cannot, for {reason}. "
        "Set backend = 'auto' to use all cores."
    ]


def test_what_can_be_stacked_is():
    said = []
    config = RunConfig(backend="batched")
    assert type(make_backend(made("fedper"), table(), config, said.append)) is Batched
    assert said == []
