"""Exchanging layers, on a network whose answers are worked by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from duotone.explain.layers import LayerShares, exchange_values, layer_shares, local_layers


class Two(nn.Module):
    """Multiplies by a, then adds b."""

    def __init__(self, a, b):
        super().__init__()
        self.scale = nn.Linear(1, 1, bias=False)
        self.shift = nn.ParameterDict({"b": nn.Parameter(torch.tensor([b]))})
        nn.init.constant_(self.scale.weight, a)

    def forward(self, x):
        return self.scale(x) + self.shift["b"]


def client(a, b):
    network = Two(a, b)
    method = SimpleNamespace(device="cpu", predict=lambda model, x: model(x))
    params = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    return SimpleNamespace(model=lambda: Two(a, b), method=method, params=params)


def value(scores):
    return float(scores[0, 0])


def test_every_combination_of_layers_is_tried():
    first, second = client(2.0, 1.0), client(5.0, -1.0)
    layers = local_layers(first, [second.params])
    assert list(layers) == ["scale", "shift"]
    # 2·3 + 1, 5·3 + 1, 2·3 − 1, 5·3 − 1: bit 0 is the first layer, bit 1 the second.
    found = exchange_values(first, torch.tensor([[3.0]]), second.params, layers, value)
    assert found == pytest.approx([7, 16, 5, 14])


def test_shares_are_means_over_the_other_models():
    first, others = client(2.0, 1.0), [client(5.0, -1.0).params, client(3.0, 0.0).params]
    found = layer_shares(first, torch.tensor([[3.0]]), others, value)
    assert found.values == pytest.approx((6, -1.5))
    assert found.total == pytest.approx(4.5)
    assert found.largest == "scale"
    assert found.faithfulness == pytest.approx(1)
    assert found.passes == 8


def test_what_is_exchanged_is_what_is_named():
    """The layer that is named moves the answer five times as much as the one that is not."""
    first, second = client(2.0, 1.0), client(9.0, 0.5)
    found = layer_shares(first, torch.tensor([[3.0]]), [second.params], value)
    assert abs(found.values[0]) >= 5 * abs(found.values[1])


def test_one_differing_layer_has_nothing_to_share_out():
    first, second = client(2.0, 1.0), client(5.0, 1.0)
    assert layer_shares(first, torch.tensor([[3.0]]), [second.params], value) is None


def test_what_a_layer_does_by_itself_is_measured():
    # Exchanging the scale alone gives 16 of 7, the shift alone 5: see the combinations above.
    first, second = client(2.0, 1.0), client(5.0, -1.0)
    found = layer_shares(first, torch.tensor([[3.0]]), [second.params], value)
    assert (found.alone, found.others, found.total) == pytest.approx((9, -2, 7))
    assert found.is_one_layers_doing


@pytest.mark.parametrize(
    ("alone", "others", "expected"), [(0.8, 0.2, True), (0.79, 0.1, False), (0.9, 0.21, False)]
)
def test_a_layer_is_named_alone_only_if_it_does_it_and_the_others_do_not(alone, others, expected):
    for sign in (1, -1):
        values = (0.6 * sign, 0.4 * sign)
        found = LayerShares(("a", "b"), values, sign * 1.0, 1.0, 4, alone * sign, others * sign)
        assert found.is_one_layers_doing is expected
        assert found.largest == "a"
