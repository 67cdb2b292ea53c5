from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from duotone.methods.concepts.concept_layer import (
    FLOOR,
    ConceptLinear,
    fitted_weights,
    floored,
    responsibilities,
)

CENTRES = torch.tensor([[0.0, 0.0], [2.0, 0.0]])


def test_responsibilities_by_hand():
    places = torch.tensor([[0.0, 0.0], [1.0, 5.0]])
    found = responsibilities(places, CENTRES, 0.5, torch.tensor([0.25, 0.75]))
    near = 0.25 / (0.25 + 0.75 * math.exp(-0.5 * 4))
    torch.testing.assert_close(found, torch.tensor([[near, 1 - near], [0.25, 0.75]]))


def test_far_samples_still_belong_somewhere():
    found = responsibilities(torch.tensor([[1e4, 0.0]]), CENTRES, 1.0, torch.tensor([0.5, 0.5]))
    assert found.tolist() == [[0.0, 1.0]]


def test_a_concept_without_weight_is_not_there():
    found = responsibilities(CENTRES, CENTRES, 1.0, torch.tensor([0.0, 1.0]))
    assert found.tolist() == [[0.0, 1.0], [0.0, 1.0]]


def test_a_sample_on_a_centre_has_a_gradient():
    places = CENTRES.clone().requires_grad_()
    responsibilities(places, CENTRES, 1.0, torch.tensor([0.5, 0.5]))[0, 0].backward()
    assert torch.isfinite(places.grad).all()


def test_weights_have_a_floor_and_sum_to_one():
    found = floored(torch.tensor([0.0, 1e-9, 1.0]))
    assert found[0] == 0
    assert float(found[1]) == pytest.approx(FLOOR, rel=1e-3)
    assert float(found.sum()) == pytest.approx(1)


def test_fitted_weights_are_the_shares_samples_were_drawn_with():
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    truth = torch.tensor([0.6, 0.3, 0.1])
    concept = torch.multinomial(truth, 4000, replacement=True, generator=generator)
    places = centres[concept] + torch.randn(4000, 2, generator=generator)
    found = fitted_weights(places, centres, 0.5, torch.ones(3))
    torch.testing.assert_close(found, truth, atol=0.03, rtol=0)


def test_a_concept_layer_starts_as_the_one_it_replaces():
    layer, z = nn.Linear(5, 3), torch.randn(4, 5)
    torch.testing.assert_close(ConceptLinear(layer, 2, 3)(z), layer(z))


def test_a_fed_layer_is_given_the_preference_too():
    layer = ConceptLinear(nn.Linear(1, 1), 1, 2, feeds=True)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[10.0, 1.0]]))
        layer.bias.zero_()
        layer.projection.fill_(1.0)
        layer.projection_bias.zero_()
        layer.centres.copy_(torch.tensor([[-1.0], [3.0]]))
        layer.weights.copy_(torch.tensor([0.5, 0.5]))
    # z = 1 lies in the middle: p̂ = (−1 + 3) / 2.
    assert layer(torch.tensor([[1.0]])).tolist() == [[11.0]]


def test_codes_are_under_equal_weights_and_leave_out_what_is_not_there():
    layer = ConceptLinear(nn.Linear(2, 1), 2, 3)
    with torch.no_grad():
        layer.projection.copy_(torch.eye(2))
        layer.projection_bias.zero_()
        layer.centres[:2] = CENTRES
        layer.shares.copy_(torch.tensor([0.9, 0.1, 0.0]))
        layer.weights.copy_(torch.tensor([0.999, 0.001, 0.0]))
    assert layer.unprejudiced(torch.tensor([[1.0, 0.0]])).tolist() == [[0.5, 0.5]]


def test_concepts_are_taught_by_the_preference_twice():
    """In p̂ = Σ s c they are what is added up, and they decide how much of each."""
    centres = torch.tensor([[-1.0], [3.0]], dtype=torch.float64)
    layer = ConceptLinear(nn.Linear(1, 1).double(), 1, 2, learns_centres=True)
    with torch.no_grad():
        layer.projection.fill_(1.0)
        layer.projection_bias.zero_()
        layer.centres.copy_(centres)
    layer.preference(layer.shares_of(torch.tensor([[1.0]], dtype=torch.float64))).sum().backward()
    # z = 1 lies in the middle, s = ½ each. ds₁/dc₁ = s₁s₂ · 2ι(z − c₁) = ¼ · 2 with ι = ½, and
    # p̂ changes by ds₁ (c₁ − c₂): ∂p̂/∂c₁ = ½ + ½ · (−4); by symmetry the same for c₂.
    assert layer.centres.grad.flatten().tolist() == pytest.approx([-1.5, -1.5])
