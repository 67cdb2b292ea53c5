from __future__ import annotations

import pytest
import torch
from worked import FIRST, Line, client, make, play, value

from duotone.methods.baselines.per_fedavg import PerFedAvg, meta_step
from duotone.types import ClientState


def one_meta_step(targets: list[float], inner_lr: float) -> tuple[float, float]:
    """Return the weight that one step with rate 0.1 makes of 0, and the loss it reports."""
    model = Line(0)
    y = torch.tensor(targets, dtype=torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss = meta_step(model, optimizer, torch.ones(len(y), 1), y, inner_lr)
    return value(model.head.weight), value(loss)


def test_a_meta_step_takes_the_gradient_of_the_second_half_where_the_first_half_leads():
    # First half: 2·(0 − 10) = −20, w̃ = 0.05·20 = 1; second: 2·(1 − 20) = −38, from the old w = 0
    weight, loss = one_meta_step([10, 10, 20, 20], 0.05)
    assert weight == pytest.approx(3.8)
    assert loss == pytest.approx(361)  # (1 − 20)²


def test_without_an_inner_step_only_the_second_half_counts():
    # 2·(0 − 20) = −40
    assert one_meta_step([10, 10, 20, 20], 0)[0] == pytest.approx(4)


def test_a_batch_too_small_to_halve_is_both_halves():
    # The mean target is 20: −40, w̃ = 2; 2·(2 − 20) = −36
    assert one_meta_step([10, 20, 30], 0.05)[0] == pytest.approx(3.6)
    assert one_meta_step([20], 0.05)[0] == pytest.approx(3.6)


def test_a_round_averages_the_starts_and_adapting_is_one_step_from_there():
    method = make(PerFedAvg, Line(0), inner_lr=0.05)
    clients = [client("a", 10), client("b", 30, samples=5)]
    states: dict[str, ClientState] = {}
    server, updates = play(method, clients, method.start(FIRST), states)
    # a: w̃ = 1, 2·(1 − 10) = −18: 1.8; b: w̃ = 3, 2·(3 − 30) = −54: 5.4; (1.8 + 5·5.4)/6 = 4.8
    assert value(updates["a"].shared["head.weight"]) == pytest.approx(1.8)
    assert value(server.shared["head.weight"]) == pytest.approx(4.8)
    member = method.before_use(server, states["a"], clients[0], FIRST)
    for used in (member, method.join(server, clients[0], FIRST)):
        # 2·(4.8 − 10) = −10.4 with the rate 0.05
        assert value(method.personal(server, used)["head.weight"]) == pytest.approx(5.32)
    assert not states["a"], "the adapted copy never comes back into training"


def test_a_parameter_that_is_not_trained_takes_no_inner_step():
    model = torch.nn.Sequential(Line(1), Line(2))
    model[1].head.weight.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    meta_step(model, optimizer, torch.ones(4, 1), torch.full((4,), 4.0), 0.05)
    # w̃ = 1 − 0.05·2·(2 − 4)·2 = 1.4; 2·(2.8 − 4)·2 = −4.8
    assert value(model[0].head.weight) == pytest.approx(1.48)
    assert value(model[1].head.weight) == 2
