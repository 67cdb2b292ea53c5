from __future__ import annotations

import pytest
from worked import FIRST, Line, client, make, play, value

from duotone.methods.baselines.fedprox import FedProx


def test_two_rounds_of_two_steps_under_the_pull_are_as_worked_by_hand():
    method = make(FedProx, Line(0), mu=1.0, epochs=2)
    clients = [client("a", 10), client("b", 30, samples=3)]
    server, updates = play(method, clients, method.start(FIRST), {})
    # The gradient is 2(w − y) + (w − w⁰), w⁰ = 0; at the first step there is no pull.
    # a: 0 → 2, then 2·(2 − 10) + 2 = −14 → 3.4
    # b: 0 → 6, then 2·(6 − 30) + 6 = −42 → 10.2
    assert value(updates["a"].shared["head.weight"]) == pytest.approx(3.4)
    assert value(updates["b"].shared["head.weight"]) == pytest.approx(10.2)
    assert value(server.shared["head.weight"]) == pytest.approx(8.5)  # (3.4 + 3·10.2)/4
    _, updates = play(method, clients, server, {})
    # The pull is now towards 8.5. a: 8.5 → 8.8, then 2·(8.8 − 10) + 0.3 = −2.1 → 9.01
    assert value(updates["a"].shared["head.weight"]) == pytest.approx(9.01)


def test_the_loss_that_is_shown_includes_the_pull():
    method = make(FedProx, Line(0), mu=1.0, epochs=2)
    _, updates = play(method, [client("a", 10)], method.start(FIRST), {})
    # The second epoch begins at w = 2: (2 − 10)² + ½·2² = 66
    assert updates["a"].metrics["train_loss"] == pytest.approx(66)
