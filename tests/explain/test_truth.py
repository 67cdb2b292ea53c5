"""Explanations against planted truth: who depends on the client, and what exchanging does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from duotone.explain.witnesses import Federation, compare
from duotone.runs.client import Client


def readings(federation, clients):
    """Return |reading| of the true class, whether it depends on the client, and rival answers."""
    population = federation.opened.plan.population
    found = []
    for client in clients:
        own = population.data(client.name, "test")
        gates = population.factors(population.rows(client.name, "test"))["gate"]
        for row in range(len(own)):
            compared = compare(federation, client, own.x[row : row + 1], "members")
            reading = abs(compared.parts.reading[0, int(own.labels[row])])
            mine, told = compared.answer.argmax(), compared.told.argmax(axis=1)
            found.append((reading, gates[row], float((told != mine).mean())))
    return np.array(found).T


def named(reading, flips):
    """Return how often an exchange changes what a card calls a client's reading, and the rest."""
    is_named = reading > 0.3
    assert is_named.any()
    assert not is_named.all()
    return flips[is_named].mean(), flips[~is_named].mean()


def randomised(client):
    """Return a client with a local part that was never trained."""
    generator = torch.Generator().manual_seed(0)
    params = dict(client.params)
    for name in ("head.weight", "head.bias"):
        params[name] = torch.randn(params[name].shape, generator=generator)
    return Client(client.facts, client.method, params, client.opened)


@pytest.fixture(scope="module")
def federation(ruled):
    return Federation(ruled.client("c0").opened)


def test_reading_finds_the_samples_that_depend_on_the_client(federation):
    clients = [federation.client(name) for name in ("c0", "c1", "c2")]
    reading, gate, flips = readings(federation, clients)
    assert reading[gate == 1].mean() > 0.4
    assert reading[gate == 0].mean() < 0.12
    assert roc_auc_score(gate, reading) > 0.95
    changed, others = named(reading, flips)
    assert changed >= 5 * others


def test_a_randomised_local_part_fails_the_same_test(federation):
    clients = [randomised(federation.client(name)) for name in ("c0", "c1", "c2")]
    reading, gate, flips = readings(federation, clients)
    assert roc_auc_score(gate, reading) < 0.7
    changed, others = named(reading, flips)
    assert changed < 5 * others
