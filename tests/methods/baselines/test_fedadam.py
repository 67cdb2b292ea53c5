from __future__ import annotations

import math

import pytest
from worked import FIRST, Line, client, make, play, value

from duotone.methods.baselines.fedadam import FedAdam


def test_two_server_steps_are_as_worked_by_hand():
    method = make(FedAdam, Line(0), server_lr=1.0)
    clients = [client("a", 10), client("b", 30, samples=3)]
    server, _ = play(method, clients, method.start(FIRST), {})
    # The mean of 2 and three times 6 is 5, so Δ = 5: m = 0.1·5, v = 0.99·10⁻⁶ + 0.01·25
    moved = 0.5 / (math.sqrt(0.25000099) + 0.001)
    assert moved == pytest.approx(0.998002, abs=1e-6)
    assert value(server.shared["head.weight"]) == pytest.approx(moved)
    assert value(server.extra["adam.m/head.weight"]) == pytest.approx(0.5)
    assert value(server.extra["adam.v/head.weight"]) == pytest.approx(0.25000099)
    server, _ = play(method, clients, server, {})
    # A client's step is a fifth of its way: Δ = (10 + 3·30)/4/5 − w/5 = 5 − 0.1996004
    change = 5 - moved / 5
    first, second = 0.9 * 0.5 + 0.1 * change, 0.99 * 0.25000099 + 0.01 * change**2
    expected = moved + first / (math.sqrt(second) + 0.001)
    assert value(server.shared["head.weight"]) == pytest.approx(expected)


def test_the_first_step_hardly_depends_on_the_size_of_the_change():
    for target in (1, 1000):
        method = make(FedAdam, Line(0), server_lr=0.01)
        server, _ = play(method, [client("a", target)], method.start(FIRST), {})
        # m/√v = 0.1Δ/√(0.01Δ²) = 1, up to τ
        assert value(server.shared["head.weight"]) == pytest.approx(0.01, rel=0.06)
