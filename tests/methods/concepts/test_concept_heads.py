from __future__ import annotations

import pytest
import torch
from torch import nn

from duotone.methods.concepts.concept_heads import mean_heads
from duotone.methods.concepts.concept_layer import ConceptHeads


def test_a_head_is_the_mean_of_those_who_have_samples_of_its_concept():
    def told(mass, value):
        return {
            "mass": torch.tensor(mass),
            "weight": torch.full((2, 1, 1), value),
            "bias": torch.full((2, 1), 10 * value),
        }

    found = mean_heads([told([3.0, 0.0], 1.0), told([1.0, 5.0], 2.0)])
    assert found["weight"].flatten().tolist() == pytest.approx([1.25, 2.0])
    assert found["bias"].flatten().tolist() == pytest.approx([12.5, 20.0])


def test_a_concept_of_nobody_has_an_empty_head():
    own = {"mass": torch.zeros(1), "weight": torch.zeros(1, 1, 1), "bias": torch.zeros(1, 1)}
    assert mean_heads([own])["weight"].tolist() == [[[0.0]]]


def test_heads_add_their_share_by_hand():
    heads = ConceptHeads(nn.Linear(2, 1), 2)
    assert heads(torch.ones(1, 2), torch.ones(1, 2)).tolist() == [[0.0]]
    with torch.no_grad():
        heads.weight.copy_(torch.tensor([[[1.0, 2.0]], [[0.0, 10.0]]]))
        heads.bias.copy_(torch.tensor([[5.0], [7.0]]))
    z, shares = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.25, 0.75]])
    assert heads(z, shares).tolist() == [[0.25 * (3 + 8 + 5) + 0.75 * (40 + 7)]]
