from __future__ import annotations

import numpy as np
import pytest
import torch
from studies.domains_told import Points, preferences_of
from torch import nn

from duotone.methods.concepts.concept_layer import ConceptLinear


def test_the_nearest_samples_name_the_domain():
    """Two domains of two clients; a sample's own client is near, its domain is not."""
    places = np.array([[0.0], [0.1], [9.0], [9.1], [5.0], [5.1], [5.2], [5.3]] * 3)
    places += np.repeat([0, 0.01, 0.02], 8)[:, np.newaxis]
    client = ["a", "a", "b", "b", "c", "c", "d", "d"] * 3
    group = ["x"] * 4 + ["y"] * 4
    points = Points({"p": places.astype(np.float32)}, client, group * 3)
    assert points.domain_told("p", by_other_clients=False) == 1
    # Without its own client, a sample of a or b is nearest to those of c and d.
    assert points.domain_told("p", by_other_clients=True) == pytest.approx(0.5)


def test_a_direction_that_does_not_vary_is_left_out():
    points = Points({"p": np.array([[1.0, 5.0], [3.0, 5.0]], np.float32)}, ["a", "b"], ["x", "y"])
    assert points.scaled("p").tolist() == [[-1], [1]]


def test_preferences_with_and_without_the_weights_of_the_client():
    layer = ConceptLinear(nn.Linear(1, 2), 1, 2)
    with torch.no_grad():
        layer.projection.fill_(1.0)
        layer.projection_bias.fill_(0.0)
        layer.centres.copy_(torch.tensor([[0.0], [4.0]]))
        layer.sharpness.fill_(0.1)
        layer.weights.copy_(torch.tensor([0.25, 0.75]))
    found = preferences_of(layer, torch.tensor([[2.0]]))
    # Both centres are as near, so that the weights alone decide: 0.75 · 4 and 0.5 · 4.
    assert float(found["own weights"]) == pytest.approx(3.0)
    assert float(found["equal weights"]) == pytest.approx(2.0)
