from __future__ import annotations

import pytest
import torch
from studies.equivariance import ORDERS, action, moved, permuted, r2


def test_channels_are_exchanged_and_two_permutations_in_a_row_are_one():
    x = torch.arange(3.0).view(1, 3, 1, 1)
    assert permuted(x, (2, 0, 1)).flatten().tolist() == [2, 0, 1]
    first, second = (2, 0, 1), (1, 0, 2)
    both = tuple(first[i] for i in second)
    assert torch.equal(permuted(permuted(x, first), second), permuted(x, both))
    assert len(ORDERS) == 5


def test_codes_that_stay_move_by_nothing_and_others_codes_by_one():
    codes = torch.tensor([[0.0, 1.0], [2.0, 1.0]])
    assert moved(codes, codes) == 0
    assert moved(codes, codes.roll(1, 0)) == 1
    assert moved(codes, codes + torch.tensor([1.0, 0.0])) == pytest.approx(2 / 8)


def test_an_affine_action_is_found_and_told_on_other_samples():
    torch.manual_seed(0)
    turn, shift = torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), torch.tensor([3.0, 0.0])
    old, new = torch.randn(20, 2), torch.randn(20, 2)
    act = action(old, old @ turn + shift)
    assert r2(act(new), (new @ turn + shift).double()) == pytest.approx(1)
    assert r2(new, new @ turn + shift) < 0


def test_the_mean_tells_nothing():
    truth = torch.tensor([[1.0], [3.0]])
    assert r2(torch.full((2, 1), 2.0), truth) == 0
