"""Methods that become one another for some setting do so to the bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from federations import make_population

from duotone.federation.engine import MemoryStates, RoundResult, federate
from duotone.federation.method import Method
from duotone.federation.params import unpacked
from duotone.methods.baselines.apfl import APFL
from duotone.methods.baselines.ditto import Ditto, DittoProx
from duotone.methods.baselines.fedadam import FedAdam
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.baselines.fedavg_ft import FedAvgFT
from duotone.methods.baselines.fedprox import FedProx
from duotone.methods.baselines.fedrep import FedRep
from duotone.methods.baselines.ifca import IFCA
from duotone.methods.baselines.local import Local
from duotone.methods.baselines.per_fedavg import PerFedAvg
from duotone.networks.classifiers import cnn_bn
from duotone.types import Params

ROUNDS = 3
POPULATION = make_population(samples=20)


def run(
    kind: type[Method], *, sampled: int | None = 2, **settings: Any
) -> tuple[Method, RoundResult, MemoryStates]:
    """Return method, last round and client states of a short run of several batches per epoch."""
    method = kind(kind.Config(batch_size=8, **settings), cnn_bn)
    states = MemoryStates()
    (*_, last) = federate(method, POPULATION, rounds=ROUNDS, sampled=sampled, states=states)
    return method, last, states


@pytest.fixture(scope="module")
def fedavg() -> Params:
    return run(FedAvg)[1].server.shared


@pytest.fixture(scope="module")
def fedprox() -> Params:
    return run(FedProx, mu=0.5)[1].server.shared


def assert_same(first: Params, second: Params) -> None:
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


class Everywhere(FedRep):
    """FedRep with nothing local."""

    def is_shared(self, name, owner):
        return True


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (FedProx, {"mu": 0}),
        (FedAdam, {"server_optimizer": "average"}),
        (FedAvgFT, {}),
        (Everywhere, {}),
        (Ditto, {}),
        (DittoProx, {"mu": 0}),
        (APFL, {}),
    ],
)
def test_the_shared_model_is_that_of_fedavg(kind, settings, fedavg):
    assert_same(run(kind, **settings)[1].server.shared, fedavg)


def test_a_single_group_is_fedavg(fedavg):
    for warm_rounds in (0, 2, 5):
        _, last, _ = run(IFCA, groups=1, warm_rounds=warm_rounds)
        assert_same(unpacked(last.server.shared, "0"), fedavg)


def test_a_pull_or_a_server_step_is_not_fedavg(fedavg, fedprox):
    assert not torch.equal(fedprox["head.weight"], fedavg["head.weight"])
    for kind in (FedAdam, PerFedAvg):
        shared = run(kind)[1].server.shared
        assert not torch.equal(shared["head.weight"], fedavg["head.weight"]), kind


def test_the_shared_model_of_ditto_on_fedprox_is_that_of_fedprox(fedprox):
    _, last, _ = run(DittoProx, mu=0.5)
    assert_same(last.server.shared, fedprox)


def test_ditto_on_fedprox_without_its_pull_is_ditto():
    (_, first, ours), (_, second, theirs) = run(DittoProx, mu=0, lam=0.7), run(Ditto, lam=0.7)
    assert_same(first.server.shared, second.server.shared)
    assert ours.states.keys() == theirs.states.keys()
    for client, state in ours.states.items():
        assert_same(state.extra, theirs.states[client].extra)


def test_the_own_model_of_ditto_without_its_pull_is_trained_alone():
    _, _, alone = run(Local, sampled=None)
    method, last, states = run(Ditto, sampled=None, lam=0)
    for client, state in states.states.items():
        assert_same(method.personal(last.server, state), alone.states[client].local)
    method, last, states = run(Ditto, sampled=None, lam=0.1)
    own = method.personal(last.server, states.states["c0"])
    assert not torch.equal(own["head.weight"], alone.states["c0"].local["head.weight"])


def test_a_mixture_without_an_own_share_has_the_shared_parameters():
    method, last, states = run(APFL, sampled=None, alpha=0, adaptive=False)
    names = [name for name, _ in method.module(POPULATION.info).named_parameters()]
    for state in states.states.values():
        model = method.personal(last.server, state)
        for name in names:
            assert torch.equal(model[name], last.server.shared[name]), name
        # The mixture has statistics of its own, for it saw the client's batches alone.
        shared = last.server.shared["norm1.running_mean"]
        assert not torch.equal(model["norm1.running_mean"], shared)


def test_a_start_that_is_not_adapted_is_used_as_it_is():
    for settings in ({"adapt_epochs": 0}, {"inner_lr": 0}):
        method, last, states = run(PerFedAvg, sampled=None, **settings)
        data = POPULATION.data("c0")
        state = states.get("c0") or method.first_state(last.server, last.info)
        used = method.before_use(last.server, state, data, last.info)
        assert_same(method.personal(last.server, used), last.server.shared)


def test_fine_tuning_for_no_epochs_is_fedavg(fedavg):
    method, last, _ = run(FedAvgFT, finetune_epochs=0)
    used = method.join(last.server, POPULATION.data("c3"), last.info)
    assert_same(method.personal(last.server, used), fedavg)
