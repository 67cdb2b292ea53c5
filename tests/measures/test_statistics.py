from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duotone.measures.statistics import (
    Comparison,
    Estimate,
    compare_pairs,
    estimate,
    holm,
    mean_ranks,
    rank_biserial,
    verdict,
)

shares = st.integers(0, 20).map(lambda hits: hits / 20)
pairs = st.dictionaries(
    st.tuples(st.integers(0, 3), st.sampled_from("abcdef")),
    st.tuples(shares, shares),
    min_size=1,
    max_size=6,  # with ties SciPy tries all signs, which takes long for many pairs
)
unhurried = settings(max_examples=40, deadline=None)


def apart(both):
    return {k: a for k, (a, _) in both.items()}, {k: b for k, (_, b) in both.items()}


def test_the_interval_of_three_seeds_is_worked_by_hand():
    found = estimate([0.8, 0.9, 1.0])
    half = 4.302653 * 0.1 / math.sqrt(3)  # t with 2 degrees of freedom; the deviation is 0.1
    assert found.mean == pytest.approx(0.9)
    assert (found.low, found.high) == pytest.approx((0.9 - half, 0.9 + half), abs=1e-7)
    assert found.half == pytest.approx(half, abs=1e-7)
    assert found.n == 3


def test_one_seed_has_no_interval():
    assert estimate([0.7]) == Estimate(0.7, None, None, 1)
    assert estimate([0.7]).half is None


def test_seeds_count_alike_however_many_clients_they_have():
    first = {(0, "a"): 0.9, (0, "b"): 0.7, (0, "c"): 0.8, (1, "a"): 0.5}
    second = dict.fromkeys(first, 0.4)
    found = compare_pairs(first, second, "higher")
    assert found.difference.mean == pytest.approx((0.4 + 0.1) / 2)
    half = 12.706205 * math.sqrt(0.045) / math.sqrt(2)  # 0.15² + 0.15² over n - 1 = 1
    assert found.difference.high == pytest.approx(0.25 + half, abs=1e-6)
    assert (found.pairs, found.won, found.tied) == (4, 1.0, 0.0)


def test_the_same_client_of_another_seed_is_another_pair():
    first = {(seed, "a"): 0.9 for seed in range(6)}
    second = {(seed, "a"): 0.9 - 0.01 * (seed + 1) for seed in range(6)}
    assert compare_pairs(first, second, "higher").p == pytest.approx(2 / 2**6)


def test_the_rank_biserial_correlation_is_worked_by_hand():
    # sizes 1 1 2 3 have ranks 1.5 1.5 3 4; the zero does not count
    differences = np.array([1.0, -1.0, 2.0, -3.0, 0.0])
    assert rank_biserial(differences) == pytest.approx((1.5 - 1.5 + 3 - 4) / 10)
    assert rank_biserial(np.zeros(3)) == 0


def test_equal_steps_tie_although_floats_differ_in_the_last_bit():
    assert 0.9 - 0.8 != 0.7 - 0.8 + 0.2
    first = {(0, "a"): 0.9, (0, "b"): 0.7}
    second = {(0, "a"): 0.8, (0, "b"): 0.8}
    assert compare_pairs(first, second, "higher").effect == 0


def test_only_what_both_have_is_compared():
    first = {(0, "a"): 1.0, (0, "b"): 0.0, (1, "a"): 0.5}
    second = {(0, "a"): 0.5, (2, "a"): 0.9}
    found = compare_pairs(first, second, "higher")
    assert (found.pairs, found.difference.mean, found.difference.n) == (1, 0.5, 1)
    assert compare_pairs({(0, "a"): 1.0}, {(1, "a"): 1.0}, "higher") is None


def test_holm_is_worked_by_hand():
    # sorted 0.01 0.02 0.03 0.5 times 4 3 2 1, never falling
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_mean_ranks_share_ties():
    values = {
        "a": {(0, "x"): 0.9, (0, "y"): 0.5},
        "b": {(0, "x"): 0.8, (0, "y"): 0.5},
        "c": {(0, "x"): 0.7, (0, "y"): 0.1, (1, "x"): 1.0},
    }
    assert mean_ranks(values, "higher") == {"a": 1.25, "b": 1.75, "c": 3.0}
    assert mean_ranks(values, "lower") == {"a": 2.75, "b": 2.25, "c": 1.0}
    assert mean_ranks({"a": {(0, "x"): 1.0}, "b": {(1, "x"): 1.0}}, "higher") == {}


def comparison(mean, half, effect):
    interval = (None, None) if half is None else (mean - half, mean + half)
    return Comparison(Estimate(mean, *interval, 3), 0.0, effect, 1.0, 0.0, 10)


@pytest.mark.parametrize(
    ("mean", "half", "effect", "p", "direction", "says"),
    [
        (0.1, 0.05, 0.9, 0.01, "higher", "better"),
        (-0.1, 0.05, -0.9, 0.01, "higher", "worse"),
        (-0.1, 0.05, 0.9, 0.01, "lower", "better"),
        (0.1, 0.05, -0.9, 0.01, "lower", "worse"),
        (0.1, 0.2, 0.9, 0.01, "higher", "no difference shown"),
        (0.1, 0.05, 0.9, 0.05, "higher", "no difference shown"),
        (0.1, 0.05, -0.9, 0.01, "higher", "no difference shown"),
        (0.1, None, 0.9, 0.01, "higher", "one seed"),
    ],
)
def test_a_verdict_needs_seeds_and_clients_to_agree(mean, half, effect, p, direction, says):
    assert verdict(comparison(mean, half, effect), p, direction) == says


@unhurried
@given(pairs, st.sampled_from(["higher", "lower"]))
def test_swapping_two_methods_flips_the_signs(both, direction):
    first, second = apart(both)
    there = compare_pairs(first, second, direction)
    back = compare_pairs(second, first, direction)
    assert there.difference.mean == pytest.approx(-back.difference.mean)
    assert there.effect == pytest.approx(-back.effect)
    assert there.p == pytest.approx(back.p)
    assert there.won + there.tied + back.won == pytest.approx(1)
    opposite = {"better": "worse", "worse": "better"}
    said = verdict(there, there.p, direction)
    assert verdict(back, back.p, direction) == opposite.get(said, said)


@unhurried
@given(pairs, st.sampled_from(["higher", "lower"]))
def test_a_method_is_never_better_than_itself(both, direction):
    values, _ = apart(both)
    found = compare_pairs(values, dict(values), direction)
    assert (found.p, found.effect, found.tied) == (1.0, 0.0, 1.0)
    assert verdict(found, found.p, direction) in ("no difference shown", "one seed")


@unhurried
@given(pairs)
def test_effects_and_shares_stay_in_their_range(both):
    found = compare_pairs(*apart(both), "higher")
    assert -1 <= found.effect <= 1
    assert 0 < found.p <= 1
    assert 0 <= found.won <= 1


@given(st.lists(st.floats(0, 1), min_size=1))
def test_holm_never_lowers_a_p_value_nor_changes_the_order(p_values):
    corrected = holm(p_values)
    assert all(p <= after <= 1 for p, after in zip(p_values, corrected, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [corrected[i] for i in order] == sorted(corrected)
