from __future__ import annotations

import pytest
import torch

from duotone.methods.padpaf.twins import barlow_twins, chained, contrast_term, standardised
from duotone.types import Draws


def test_features_are_standardised_over_the_batch_and_constants_vanish():
    found = standardised(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    assert found[:, 0].tolist() == pytest.approx([-1, 1], abs=1e-4)
    assert found[:, 1].tolist() == [0, 0]


def test_equal_and_independent_features_have_no_barlow_twins_loss():
    features = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert float(barlow_twins(features, 3 * features + 1)) == pytest.approx(0, abs=1e-4)


def test_barlow_twins_of_two_features_is_worked_out():
    first = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])
    second = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    # C = [[1, 0], [1, 0]]: the first feature is its own twin, the second nobody's, and C_21 = 1.
    assert float(barlow_twins(first, second, 0.1)) == pytest.approx(0 + 1 + 0.1, abs=1e-4)


def test_opposite_twins_cost_four_per_feature():
    first = torch.tensor([[1.0], [-1.0]])
    assert float(barlow_twins(first, -first)) == pytest.approx(4, abs=1e-3)


def test_neighbours_in_a_chain_share_content_and_style_in_turn():
    found = chained(Draws(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0], [1.0]])))
    assert found.content.flatten().tolist() == [0, 0, 1, 1]
    assert found.style.flatten().tolist() == [0, 1, 1, 0]


def test_the_contrast_compares_the_pairs_of_the_chain():
    draws = chained(Draws(torch.randn(4, 1), torch.randn(4, 1)))
    # Features that are the latents themselves are perfect twins.
    assert float(contrast_term(draws.content, draws.style)) == pytest.approx(0, abs=1e-3)
    assert float(contrast_term(draws.style, draws.content)) > 0.1
