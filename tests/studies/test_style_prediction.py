from __future__ import annotations

import torch
from studies.style_prediction import OneNumberEach


def test_features_of_each_client_become_one_number_before_all_are_compared():
    network = OneNumberEach(clients=2, features=2)
    with torch.no_grad():
        for layer, weight in zip(network.numbers, ([1.0, 0.0], [0.0, 2.0]), strict=True):
            layer.weight.copy_(torch.tensor([weight]))
            layer.bias.zero_()
        network.answer.weight.copy_(torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
        network.answer.bias.zero_()
        # Numbers 3 and 2 · 7 = 14; answers 3 and 3 + 14.
        assert network(torch.tensor([[3.0, 5.0, 6.0, 7.0]])).tolist() == [[3.0, 17.0]]
