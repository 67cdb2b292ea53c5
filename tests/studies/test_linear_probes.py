from __future__ import annotations

import pytest
import torch
from studies.linear_probes import fitted, scaled, top
from torch import nn


def test_features_are_scaled_by_the_first_table():
    old, new = scaled(torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0]]))
    assert old.flatten().tolist() == pytest.approx([-(0.5**0.5), 0.5**0.5])
    assert new.tolist() == [[0.0]]


def test_a_class_counts_if_it_is_among_the_likeliest():
    scores = torch.tensor([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    truth = torch.tensor([0, 1, 2])
    assert [top(nn.Identity(), scores, truth, k) for k in (1, 2, 3)] == [0.3333, 0.6667, 1.0]


def test_a_probe_learns_what_can_be_read():
    torch.manual_seed(0)
    x = torch.randn(60, 2)
    probe = fitted(nn.Linear(2, 2), x, (x[:, 0] > 0).long(), epochs=20, lr=0.1, batch=10, seed=0)
    assert top(probe, x, (x[:, 0] > 0).long()) > 0.9
