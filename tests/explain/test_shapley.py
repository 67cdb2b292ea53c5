from __future__ import annotations

import numpy as np
import pytest

from duotone.explain.shapley import faithfulness, shapley


def test_three_players_by_hand():
    # Player 0 is worth 1 alone; 1 and 2 are worth 6 together and nothing alone.
    values = np.array([0, 1, 0, 1, 0, 1, 6, 7], np.float64)
    assert shapley(values) == pytest.approx([1, 3, 3])


def test_values_add_up_to_the_whole_change():
    values = np.random.default_rng(0).normal(size=32)
    assert shapley(values).sum() == pytest.approx(values[-1] - values[0])


def test_one_player_takes_all():
    assert shapley(np.array([2.0, 5.0])) == pytest.approx([3])


def test_faithfulness_is_one_for_players_on_their_own_and_less_for_pairs():
    alone = np.array([0.0, 1.0, 2.0, 3.0])
    assert faithfulness(alone, shapley(alone)) == 1
    # Worth 2 only together: each gets 1. Worths 0, 0, 0, 2 against sums 0, 1, 1, 2:
    # missed 2 of the 3 that the worths vary by.
    pair = np.array([0.0, 0.0, 0.0, 2.0])
    assert faithfulness(pair, shapley(pair)) == pytest.approx(1 / 3)
    assert faithfulness(alone, np.array([-1.0, -2.0])) < 0
