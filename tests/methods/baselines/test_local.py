from __future__ import annotations

import torch
from federations import make_population

from duotone.federation.engine import MemoryStates, federate
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.baselines.local import Local
from duotone.networks.classifiers import cnn_bn
from duotone.types import RoundInfo


def test_a_single_client_alone_is_fedavg_with_a_single_client():
    alone, shared = MemoryStates(), None
    population = make_population(members=1, newcomers=0)
    for result in federate(FedAvg(FedAvg.Config(), cnn_bn), population, rounds=3):
        shared = result.server.shared
    for _ in federate(Local(Local.Config(), cnn_bn), population, rounds=3, states=alone):
        pass
    for name, tensor in shared.items():
        assert torch.equal(tensor, alone.get("c0").local[name]), name


def test_a_newcomer_trains_exactly_as_a_member_that_was_always_drawn():
    population = make_population(members=2, newcomers=0)
    method = Local(Local.Config(lr_decay_every=1), cnn_bn)
    states = MemoryStates()
    (*_, last) = federate(method, population, rounds=3, states=states)
    served = method.join(last.server, population.data("c1"), last.info)
    for name, tensor in states.get("c1").local.items():
        assert torch.equal(tensor, served.local[name]), name


def test_a_newcomer_trains_for_as_many_turns_as_a_member_has_on_average():
    population = make_population(members=2, newcomers=0)
    method = Local(Local.Config(), cnn_bn)
    calls = []
    info = RoundInfo(10, 20, 0, population.info, participation=0.25)
    original = method.load
    method.load = lambda *given: calls.append(given) or original(*given)
    import duotone.methods.baselines.local as module

    turns = []
    train = module.train
    module.train = lambda model, data, config, info: turns.append(info.round)
    try:
        method.join(method.start(info), population.data("c0"), info)
    finally:
        module.train = train
    assert turns == [4, 8]
