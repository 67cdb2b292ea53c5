from __future__ import annotations

import pytest
import torch
from torch import nn
from worked import FIRST, Product, client, make, play, value

from duotone.errors import ConfigError
from duotone.methods.baselines.feddual import FedDual, TwoExtractors
from duotone.types import ClientState, ServerState


def test_the_head_reads_the_features_of_both_extractors():
    model = TwoExtractors(Product(2, 7), Product(3, 7))
    nn.init.constant_(model.head.bias, 0.5)
    with torch.no_grad():
        model.head.weight.copy_(torch.tensor([[1.0, 10.0]]))
    # 1·(2·4) + 10·(3·4) + 0.5; the heads of the two networks, 7, have no say
    assert value(model(torch.tensor([[4.0]]))) == pytest.approx(128.5)
    assert set(model.state_dict()) == {
        *("shared.body.weight", "local.body.weight", "head.weight", "head.bias")
    }


def start(method: FedDual) -> tuple[ServerState, ClientState]:
    """Return b = v = 1 under the head (1, 2) without bias: 1·1 + 2·1 = 3."""
    shared = {
        "shared.body.weight": torch.tensor([[1.0]]),
        "head.weight": torch.tensor([[1.0, 2.0]]),
        "head.bias": torch.tensor([0.0]),
    }
    assert shared.keys() == method.start(FIRST).shared.keys()
    return ServerState(shared), ClientState({"local.body.weight": torch.tensor([[1.0]])})


def test_one_step_moves_everything_at_once_and_keeps_one_extractor():
    method = make(FedDual, Product(1, 1))
    server, state = start(method)
    states = {"a": state, "b": state}
    server, updates = play(method, [client("a", 13), client("b", 8)], server, states)
    # a: 2·(3 − 13) = −20; shared body 1 + 2·1 = 3, local body 1 + 2·2 = 5, head (1 + 2, 2 + 2),
    # bias 2. b: 2·(3 − 8) = −10; 2, 3, (2, 3), 1
    assert value(updates["a"].shared["shared.body.weight"]) == pytest.approx(3)
    assert updates["a"].shared["head.weight"].tolist() == [pytest.approx([3, 4])]
    assert value(states["a"].local["local.body.weight"]) == pytest.approx(5)
    assert value(states["b"].local["local.body.weight"]) == pytest.approx(3)
    assert value(server.shared["shared.body.weight"]) == pytest.approx(2.5)
    assert server.shared["head.weight"].tolist() == [pytest.approx([2.5, 3.5])]
    assert value(server.shared["head.bias"]) == pytest.approx(1.5)


def test_a_newcomer_trains_its_own_extractor_alone():
    method = make(FedDual, Product(1, 1))
    server, _ = start(method)
    state = method.join(server, client("n", 13), FIRST)
    # Its body starts at 1: 2·(3 − 13)·2 = −40
    assert value(state.local["local.body.weight"]) == pytest.approx(5)
    model = method.load(method.personal(server, state), FIRST.data)
    assert model.head.weight.tolist() == [[1, 2]]
    assert value(model.shared.body.weight) == 1
    codes = method.encode(model, torch.tensor([[4.0]]))
    assert value(codes.shared) == 4
    assert value(codes.local) == pytest.approx(20)


def test_the_last_layer_may_be_named_and_nested():
    def network() -> nn.Module:
        return nn.Sequential(nn.Sequential(nn.Linear(1, 3), nn.ReLU()), nn.Linear(3, 2))

    model = TwoExtractors(network(), network(), "1")
    assert model.head.in_features == 6
    assert model.head.out_features == 2
    assert model(torch.ones(5, 1)).shape == (5, 2)


def test_a_head_that_is_not_linear_is_refused():
    networks = [nn.Sequential(nn.Linear(1, 3), nn.ReLU()) for _ in range(2)]
    with pytest.raises(ConfigError, match=r"linear head.*ReLU.*head=NAME"):
        TwoExtractors(*networks, "1")
