"""Sliders, with numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from duotone.errors import ConfigError
from duotone.explorer.moving import MOST_SLIDERS, Axes


def test_a_narrow_code_has_a_slider_for_each_dimension():
    codes = np.array([[0.0, 10.0], [4.0, 30.0], [2.0, 20.0]])
    axes = Axes.of(codes)
    assert axes.are_dimensions
    # 1 % and 99 % of three values lie 2 % of half the range inside; a tenth of that is room.
    assert axes.low == pytest.approx([0.04 - 0.392, 10.2 - 1.96])
    assert axes.high == pytest.approx([3.96 + 0.392, 29.8 + 1.96])
    assert axes.places(codes[1]).tolist() == [4.0, 30.0]
    assert axes.moved(codes[1], (1.0, 2.0)).tolist() == [1.0, 2.0]


def test_shares_stay_between_0_and_1():
    axes = Axes.of(np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]))
    assert axes.low.tolist() == [0, 0]
    assert axes.high.tolist() == [1, 1]


def test_a_wide_code_keeps_what_no_slider_moves():
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(50, MOST_SLIDERS + 8))
    axes = Axes.of(codes)
    assert not axes.are_dimensions
    code = codes[7]
    assert axes.moved(code, tuple(axes.places(code))) == pytest.approx(code)
    places = axes.places(code).copy()
    places[2] += 5
    step = axes.moved(code, tuple(places)) - code
    assert step == pytest.approx(5 * axes.directions[2])


def test_draws_reach_three_deviations():
    axes = Axes.normal(30)
    assert len(axes.low) == MOST_SLIDERS
    code = np.arange(30.0)
    assert axes.moved(code, (0.0,) * MOST_SLIDERS).tolist() == [
        *[0.0] * MOST_SLIDERS,
        *range(MOST_SLIDERS, 30),
    ]
    assert set(axes.low) == {-3.0}


@pytest.mark.parametrize("codes", [np.zeros((5, 0)), np.zeros((0, 3))])
def test_no_code_has_no_slider(codes):
    assert Axes.of(codes).as_json(np.zeros(codes.shape[1])) == []


def test_as_many_places_as_sliders():
    with pytest.raises(ConfigError, match=r"There are 2 sliders. Got places for 3."):
        Axes.of(np.ones((4, 2))).moved(np.ones(2), (1.0, 2.0, 3.0))
