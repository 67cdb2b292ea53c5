from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies.verdicts import false_verdicts

from duotone.measures.statistics import (
    Comparison,
    Estimate,
    compare_pairs,
    estimate,
    holm,
    mean_ranks,
    rank_biserial,
    smallest_shown,
    verdict,
)

shares = st.integers(0, 20).map(lambda hits: hits / 20)
pairs = st.dictionaries(
    st.tuples(st.integers(0, 3), st.sampled_from("abcdef")),
    st.tuples(shares, shares),
    min_size=1,
    max_size=6,
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


def test_p_is_that_of_a_paired_t_test_over_seeds():
    # Seeds differ by 1, 2 and 3 points: mean 2, deviation 1, t = 2√3 with 2 degrees of freedom.
    first = {(seed, "a"): 0.01 * (seed + 1) for seed in range(3)}
    found = compare_pairs(first, dict.fromkeys(first, 0.0), "higher")
    assert found.p == pytest.approx(0.0741799, abs=1e-7)


def test_more_clients_do_not_make_more_certain():
    # Every client of a seed has the seed's luck: 200 of them say what one says.
    few = {(seed, "a"): 0.01 * (seed + 1) for seed in range(3)}
    many = {(seed, str(c)): value for (seed, _), value in few.items() for c in range(200)}
    alone = compare_pairs(few, dict.fromkeys(few, 0.0), "higher")
    found = compare_pairs(many, dict.fromkeys(many, 0.0), "higher")
    assert found.p == pytest.approx(alone.p)
    assert (found.pairs, alone.pairs) == (600, 3)


def test_seeds_that_all_differ_by_the_same_are_certain():
    first = {(seed, "a"): 0.75 for seed in range(3)}
    assert compare_pairs(first, dict.fromkeys(first, 0.5), "higher").p == 0


def test_the_smallest_difference_is_the_one_whose_p_just_suffices():
    for seeds, count in ((3, 1), (10, 4)):
        least = smallest_shown(seeds, 1.0, count)
        # Seeds around it with a deviation of 1.
        strays = np.linspace(-1, 1, seeds)
        strays /= strays.std(ddof=1)
        for factor, says in ((1.001, "better"), (0.999, "not shown")):
            first = {(seed, "a"): factor * least + strays[seed] for seed in range(seeds)}
            found = compare_pairs(first, dict.fromkeys(first, 0.0), "higher")
            corrected = holm([found.p, *[1.0] * (count - 1)])[0]
            assert verdict(found, corrected, "higher") == says


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


def comparison(mean, p):
    return Comparison(Estimate(mean, mean - 0.1, mean + 0.1, 3), p, 1.0, 1.0, 0.0, 10)


@pytest.mark.parametrize(
    ("mean", "p", "corrected", "direction", "says"),
    [
        (0.1, 0.01, 0.04, "higher", "better"),
        (-0.1, 0.01, 0.04, "higher", "worse"),
        (-0.1, 0.01, 0.04, "lower", "better"),
        (0.1, 0.01, 0.04, "lower", "worse"),
        (0.1, 0.01, 0.05, "higher", "not shown"),
        (0.1, 0.0001, None, "higher", "exploratory"),
        (0.1, None, None, "higher", "one seed"),
    ],
)
def test_a_verdict_needs_a_declaration_and_a_small_corrected_p(mean, p, corrected, direction, says):
    assert verdict(comparison(mean, p), corrected, direction) == says


@unhurried
@given(pairs, st.sampled_from(["higher", "lower"]))
def test_swapping_two_methods_flips_the_signs(both, direction):
    first, second = apart(both)
    there = compare_pairs(first, second, direction)
    back = compare_pairs(second, first, direction)
    assert there.difference.mean == pytest.approx(-back.difference.mean)
    assert there.effect == pytest.approx(-back.effect)
    assert (there.p is None) == (back.p is None)
    assert there.p is None or there.p == pytest.approx(back.p)
    assert there.won + there.tied + back.won == pytest.approx(1)
    opposite = {"better": "worse", "worse": "better"}
    said = verdict(there, there.p, direction)
    assert verdict(back, back.p, direction) == opposite.get(said, said)


@unhurried
@given(pairs, st.sampled_from(["higher", "lower"]))
def test_a_method_is_never_better_than_itself(both, direction):
    values, _ = apart(both)
    found = compare_pairs(values, dict(values), direction)
    assert (found.effect, found.tied) == (0.0, 1.0)
    assert found.p in (1.0, None)
    assert verdict(found, found.p, direction) in ("not shown", "one seed")


@unhurried
@given(pairs)
def test_effects_and_shares_stay_in_their_range(both):
    found = compare_pairs(*apart(both), "higher")
    assert -1 <= found.effect <= 1
    assert found.p is None or 0 <= found.p <= 1
    assert 0 <= found.won <= 1


@given(st.lists(st.floats(0, 1), min_size=1))
def test_holm_never_lowers_a_p_value_nor_changes_the_order(p_values):
    corrected = holm(p_values)
    assert all(p <= after <= 1 for p, after in zip(p_values, corrected, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [corrected[i] for i in order] == sorted(corrected)


@pytest.mark.parametrize(("seed_effect", "seeds"), [(0, 3), (1, 3), (2, 10)])
def test_equal_methods_are_rarely_called_different(seed_effect, seeds):
    # 5 % of tables may; with 60 tables the Monte-Carlo error is 2.8 points. See statistics.md for
    # more tables and more settings.
    found = false_verdicts(seed_effect, seeds, 60, np.random.default_rng(seeds))
    assert found <= 0.05 + 3 * 0.028


def test_a_large_difference_is_shown():
    rng = np.random.default_rng(0)
    shown = 0
    for _ in range(50):
        luck = rng.normal(0, 1, (2, 10, 1))
        first, second = luck + rng.normal(0, 3, (2, 10, 40)) + np.array([3, 0])[:, None, None]
        values = [
            {(s, str(c)): own[s, c] for s in range(10) for c in range(40)}
            for own in (first, second)
        ]
        found = compare_pairs(*values, "higher")
        shown += verdict(found, found.p, "higher") == "better"
    assert shown >= 48


def test_the_page_says_what_was_computed():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "statistics.md").read_text(encoding="utf-8")
    for seeds in (3, 5, 10):
        for count in (1, 4):
            cells = [f"{smallest_shown(seeds, d, count):.1f}" for d in (0.5, 1.0, 2.0)]
            assert f"| {seeds} | {count} | {' | '.join(cells)} |" in page
    rows = json.loads((root / "docs" / "results" / "verdicts.json").read_text())
    found = {(row["luck"], row["seeds"]): row["false"] for row in rows}
    assert len(found) == 12
    for luck in (0, 0.5, 1, 2):
        cells = [f"{100 * found[luck, seeds]:.1f} %" for seeds in (3, 5, 10)]
        assert f"| {luck:g} | {' | '.join(cells)} |" in page
