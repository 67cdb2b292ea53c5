"""Flower's messages on one machine: the same bits as every other backend."""

from __future__ import annotations

import pytest
import torch
from federations import make_population

pytest.importorskip("flwr")

from duotone.federation.backends import ClientTask
from duotone.federation.backends.flower import OneMachineFlower
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.serving import Serving
from duotone.measures.evaluation import EvaluateJob
from duotone.methods import METHODS
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network

SLOW = {"padpaf", "padpaf-vae", "ditto-gan", "content-style", "fedvc", "per-fedavg"}
"""Methods that take more than seconds for three rounds."""
EVERY = [
    pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in sorted(METHODS)
]


def trained(name, backend_type):
    kind = METHODS.load(name)
    method, population = kind(kind.Config(), as_network(cnn_bn)), make_population()
    states = MemoryStates()
    with backend_type(method, population) as backend:
        *_, last = federate(
            method, population, rounds=3, sampled=2, seed=0, backend=backend, states=states
        )
        serving = Serving(last.server, last.info, method.newcomer_rules[0])
        tasks = [ClientTask(client, states.get(client)) for client in population.partition]
        scores = {r.client: r.value for r in backend.map_clients(EvaluateJob(serving), tasks)}
    return last, states.states, scores, backend.ledger


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


@pytest.mark.parametrize("name", EVERY)
def test_every_method_gives_the_same_bits_over_flower_as_in_one_process(name):
    last, states, scores, ledger = trained(name, Serial)
    there, their_states, their_scores, their_ledger = trained(name, OneMachineFlower)
    assert_equal(last.server.shared, there.server.shared)
    assert_equal(last.server.extra, there.server.extra)
    assert states.keys() == their_states.keys()
    for client, state in states.items():
        assert_equal(state.local, their_states[client].local)
        assert_equal(state.extra, their_states[client].extra)
    assert scores == their_scores
    assert all(scores.values())
    assert ledger.table() == their_ledger.table()
