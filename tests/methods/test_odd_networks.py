"""Networks that are not like ours, and updates that are not honest."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
import torch
from federations import make_population
from torch import nn

from duotone.errors import ConfigError
from duotone.federation.backends import ClientTask
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.local_training import train_head, turns_so_far
from duotone.federation.serving import Serving
from duotone.federation.settings import MethodSettings
from duotone.measures.evaluation import EvaluateJob
from duotone.methods import METHODS
from duotone.methods.baselines.apfl import APFL
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.baselines.fedbn import FedBN
from duotone.methods.baselines.feddual import TwoExtractors
from duotone.methods.baselines.fedper import FedPer
from duotone.methods.baselines.fedrep import FedRep
from duotone.methods.baselines.ifca import IFCA
from duotone.methods.baselines.lg_fedavg import LGFedAvg
from duotone.networks.classifiers import mlp
from duotone.networks.reading import as_network
from duotone.types import ClientData, DataInfo, RoundInfo

INFO = DataInfo((3,), "classes", 2)


def serve_all(method, **given):
    population, states = make_population(), MemoryStates()
    (*_, last) = federate(method, population, rounds=2, states=states, **given)
    for rule in method.newcomer_rules:
        for client in population.partition:
            task = ClientTask(client, states.get(client))
            EvaluateJob(Serving(last.server, last.info, rule))(method, population, task)
    return last, states


@pytest.mark.parametrize(("round", "participation"), [(3, 1 / 2), (2, 1 / 3), (30, 7 / 10)])
def test_no_turn_lies_in_the_future(round, participation):
    info = RoundInfo(round, 30, 0, INFO, participation)
    assert all(turn.round <= round for turn in turns_so_far(info))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        return self.head(self.scale * x.flatten(1))


def test_apfl_serves_a_model_with_a_buffer_that_is_not_kept():
    serve_all(APFL(APFL.Config(), as_network(Scaled)))


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.fixed = nn.Linear(64, 8)
        self.fixed.requires_grad_(False)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.relu(self.fixed(x.flatten(1))))


@pytest.mark.parametrize(
    "name", [n for n in sorted(METHODS) if n != "fedbn" and METHODS.load(n).own_model is None]
)
def test_what_the_model_froze_is_never_trained(name):
    kind = METHODS.load(name)
    population, states = make_population(), MemoryStates()
    method = kind(kind.Config(), as_network(Frozen))
    start = {**method.initial(RoundInfo(0, 2, 0, population.info))[0]}
    start |= method.initial(RoundInfo(0, 2, 0, population.info))[1]
    key = "local.fixed.weight" if name == "feddual" else "fixed.weight"
    (*_, last) = federate(method, population, rounds=2, states=states)
    state = states.get("c0") or method.first_state(last.server, last.info)
    assert torch.allclose(method.personal(last.server, state)[key], start[key], atol=1e-7)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 64)
        self.b = nn.Linear(64, 64)
        self.b.weight = self.a.weight
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        return self.head(torch.relu(self.b(torch.relu(self.a(x.flatten(1))))))


def test_apfl_mixes_tied_weights():
    method = APFL(APFL.Config(), as_network(Tied))
    population, states = make_population(), MemoryStates()
    (*_, last) = federate(method, population, rounds=2, states=states)
    params = method.personal(last.server, states.get("c0"))
    model = method.load(params, population.info)
    assert torch.equal(model.a.weight, params["a.weight"])


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 64)
        self.b = self.a
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        return self.head(self.b(self.a(x.flatten(1))))


def test_a_layer_under_two_names_can_be_trained():
    list(federate(FedAvg(FedAvg.Config(), as_network(Twice)), make_population(), rounds=2))


def no_affine():
    norm = nn.BatchNorm1d(8, affine=False)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), norm, nn.ReLU(), nn.Linear(8, 4))


def test_fedbn_serves_newcomers_of_a_batch_norm_without_scale_and_shift():
    serve_all(FedBN(FedBN.Config(), as_network(no_affine)))


@pytest.mark.parametrize("name", ["fedrep", "percnn"])
def test_statistics_of_a_batch_norm_without_scale_and_shift_are_trained(name):
    kind = METHODS.load(name)
    method = kind(kind.Config(), as_network(no_affine))
    last, states = serve_all(method)
    used = method.personal(last.server, states.get("c0"))
    assert not torch.equal(used["2.running_mean"], torch.zeros(8))


class Liar(IFCA):
    def client_update(self, server, client, data, info):
        update, state = super().client_update(server, client, data, info)
        return (replace(update, extra=self.claim) if data.client == "c1" else update), state


@pytest.mark.parametrize(
    "group", [torch.tensor(float("nan")), torch.tensor([0, 1]), torch.tensor(0.5)]
)
def test_a_group_that_is_no_number_is_refused(group):
    method = Liar(IFCA.Config(groups=2, warm_rounds=0), mlp)
    method.claim = {"group": group}
    (result,) = federate(method, make_population(), rounds=1)
    assert list(result.refused) == ["c1"]


def test_ifca_minds_the_servers_optimiser():
    shared = []
    for name in ("average", "adam"):
        method = IFCA(IFCA.Config(groups=1, server_optimizer=name), mlp)
        (result,) = federate(method, make_population(), rounds=1)
        shared.append(result.server.shared["0/head.weight"])
    assert not torch.equal(*shared)


def test_a_model_that_has_no_loss_is_not_chosen():
    method = IFCA(IFCA.Config(groups=2), mlp)
    info = RoundInfo(1, 1, 0, make_population().info)
    server = method.start(info)
    server.shared["0/head.weight"] = torch.full_like(server.shared["0/head.weight"], 3e38)
    chosen = method.join(server, make_population().data("c0"), info)
    assert int(chosen.extra["group"]) == 1


def only_head():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4))


@pytest.mark.parametrize("name", ["fedrep", "lg-fedavg", "percnn", "feddual"])
def test_a_model_that_is_all_head_works_or_is_refused_with_advice(name):
    kind = METHODS.load(name)
    with contextlib.suppress(ConfigError):
        serve_all(kind(kind.Config(), as_network(only_head)))


class Bare(nn.Linear):
    def __init__(self):
        super().__init__(64, 4)

    def forward(self, x):
        return super().forward(x.flatten(1))


@pytest.mark.parametrize(("kind", "shared"), [(FedPer, 0), (FedRep, 0), (LGFedAvg, 2)])
def test_a_bare_linear_layer_is_its_own_head(kind, shared):
    method = kind(kind.Config(), as_network(Bare))
    assert len(method.split(method.build(make_population().info))[0]) == shared


@pytest.mark.parametrize("shape", [(), (1, 1)])
def test_a_head_of_the_wrong_size_or_form_is_a_config_error(shape):
    hidden = (
        nn.Linear(3, 1) if not shape else nn.Sequential(nn.Linear(3, 4), nn.Unflatten(1, (4, 1, 1)))
    )
    rest = nn.Linear(1, 2) if not shape else nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    model = nn.Sequential(hidden, rest)
    data = ClientData("a", torch.randn(8, 3), torch.ones(8, dtype=torch.long), INFO)
    with pytest.raises(ConfigError):
        train_head(
            model, hidden, data, MethodSettings(), RoundInfo(1, 1, 0, INFO), epochs=1, phase="h"
        )


def test_feddual_reads_the_features_and_not_what_comes_after_the_head():
    def network():
        return nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2), nn.LogSoftmax(1))

    first = network()
    model = TwoExtractors(first, network())
    x = torch.randn(4, 3)
    assert torch.allclose(model.features(model.shared, x), first[0](x))


def test_refreshing_changes_nothing_but_statistics():
    from duotone.federation.local_training import refresh_statistics

    model = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Linear(3, 5)), nn.BatchNorm1d(5)
    )
    before = {k: v.clone() for k, v in model[0].state_dict().items()}
    refresh_statistics(model, torch.randn(8, 3))
    for key, tensor in model[0].state_dict().items():
        assert torch.equal(tensor, before[key]), key
