from __future__ import annotations

import torch
from torch import nn

from duotone.methods.concepts.hidden import hidden_vectors, replace_layer


def test_hidden_vectors_are_what_the_layer_is_given_in_evaluation_mode():
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.9), nn.Linear(4, 2)).train()
    x = torch.randn(250, 3)
    found = hidden_vectors(model, model[2], x)
    torch.testing.assert_close(found, model[0](x).detach())
    assert not found.requires_grad


def test_a_layer_inside_a_block_can_be_replaced():
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 4)), nn.Linear(4, 2))
    new = nn.Linear(3, 4)
    replace_layer(model, "0.0", new)
    assert model[0][0] is new
