from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotone.errors import TrainingError
from duotone.federation.aggregate import aggregated, weighted_mean
from duotone.federation.robust import (
    assumed_hostile,
    clipped_mean,
    combined,
    geometric_median,
    krum,
    krum_scores,
    median,
    multi_krum,
    needed,
    shortage,
    trimmed_mean,
)
from duotone.types import ClientUpdate

ROBUST = ("median", "trimmed-mean", "krum", "multi-krum", "geometric-median", "clipped-mean")


def rows(*vectors: list[float]) -> torch.Tensor:
    return torch.tensor(vectors, dtype=torch.float64)


# -- numbers worked by hand


def test_median_of_an_odd_and_an_even_number():
    assert median(rows([1, 9], [2, 7], [100, 8])).tolist() == [2, 8]
    assert median(rows([1.0], [2.0], [4.0], [100.0])).tolist() == [3]


def test_trimmed_mean_leaves_out_both_ends_of_every_coordinate():
    vectors = rows([-50, 3], [1, 1], [2, 2], [6, 99], [70, 4])
    # (1 + 2 + 6) / 3 and (2 + 3 + 4) / 3
    assert trimmed_mean(vectors, 1).tolist() == [3, 3]


def test_krum_takes_the_vector_in_the_middle_of_the_crowd():
    vectors = rows([0.0], [1.0], [2.5], [4.0], [100.0])
    # Two nearest of five with one hostile: squares 1 + 6.25, 1 + 2.25, 2.25 + 2.25, 2.25 + 9, …
    assert krum_scores(vectors, 1).tolist()[:4] == [7.25, 3.25, 4.5, 11.25]
    assert krum(vectors, 1).tolist() == [1]


def test_multi_krum_is_the_mean_of_all_but_the_assumed_share():
    vectors = rows([0.0], [1.0], [2.5], [4.0], [100.0])
    assert multi_krum(vectors, 1).tolist() == [1.875]  # (0 + 1 + 2.5 + 4) / 4


def test_geometric_median_of_a_triangle_is_its_fermat_point():
    side = 3**0.5
    vectors = rows([-1, 0], [1, 0], [0, side])  # equal sides: the point is the centre
    found = geometric_median(vectors)
    assert found.tolist() == pytest.approx([0, side / 3], abs=1e-6)


def test_geometric_median_on_a_line_is_the_middle_point():
    found = geometric_median(rows([0, 0], [1, 0], [50, 0]))
    assert found.tolist() == pytest.approx([1, 0], abs=1e-6)


def test_clipped_mean_cuts_long_moves_to_the_median_length():
    sent = torch.tensor([1.0, 1.0], dtype=torch.float64)
    vectors = rows([2, 1], [1, 3], [1, -99])
    # Moves (1, 0), (0, 2), (0, −100); lengths 1, 2, 100; the last is cut to (0, −2).
    assert clipped_mean(vectors, sent).tolist() == pytest.approx([1 + 1 / 3, 1.0])


def test_nobody_moved_and_nothing_is_divided_by_zero():
    sent = torch.ones(2, dtype=torch.float64)
    assert clipped_mean(sent.repeat(3, 1), sent).tolist() == [1, 1]
    assert geometric_median(sent.repeat(3, 1)).tolist() == [1, 1]


def test_how_many_are_assumed_and_needed():
    assert [assumed_hostile(n, 0.2) for n in (1, 5, 6, 10)] == [1, 1, 2, 2]
    assert needed("mean", 2) == 1
    assert needed("trimmed-mean", 2) == 5
    assert needed("krum", 2) == 7
    assert shortage("median", 10, 0.2) == ""
    assert "needs 5" in shortage("median", 4, 0.45)


# -- properties

numbers = st.floats(-100, 100, width=32)
attacks = st.floats(-1e9, 1e9, width=32)


def vectors_of(values: st.SearchStrategy[float], low: int, high: int):
    return st.lists(st.lists(values, min_size=3, max_size=3), min_size=low, max_size=high)


@pytest.mark.parametrize("rule", ROBUST)
@given(honest=vectors_of(numbers, 7, 10), random=st.randoms(use_true_random=False))
def test_the_order_of_clients_does_not_matter(rule, honest, random):
    given = torch.tensor(honest, dtype=torch.float64)
    given += torch.arange(len(given) * 3).reshape(-1, 3).double().sin() * 1e-3  # no ties for krum
    shuffled = given[random.sample(range(len(given)), len(given))]
    sent = torch.zeros(3, dtype=torch.float64)
    first, second = (combined(rule, v, sent, 2) for v in (given, shuffled))
    if rule in ("krum", "multi-krum"):
        scores = krum_scores(given, 2)
        gaps = scores.sort().values.diff()
        if float(gaps.min()) < 1e-6 * float(scores.max()):
            return  # equally good
    assert torch.allclose(first, second, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rule", ["median", "trimmed-mean"])
@given(honest=vectors_of(numbers, 5, 8), hostile=vectors_of(attacks, 2, 2))
def test_hostile_values_leave_every_coordinate_within_the_honest_ones(rule, honest, hostile):
    good = torch.tensor(honest, dtype=torch.float64)
    both = torch.cat([good, torch.tensor(hostile, dtype=torch.float64)])
    found = combined(rule, both, torch.zeros(3, dtype=torch.float64), 2)
    assert (found >= good.amin(0) - 1e-6).all()
    assert (found <= good.amax(0) + 1e-6).all()


@given(honest=vectors_of(numbers, 5, 8), hostile=vectors_of(attacks, 2, 2))
def test_krum_returns_what_somebody_sent_and_never_something_far(honest, hostile):
    good = torch.tensor(honest, dtype=torch.float64)
    both = torch.cat([good, torch.tensor(hostile, dtype=torch.float64)])
    found = krum(both, 2)
    assert (both == found).all(dim=1).any()
    widest = max(float(torch.cdist(good, good).max()), 1e-3)
    nearest = float((good - found).norm(dim=1).min())
    assert nearest <= widest * len(both) ** 0.5


@given(honest=vectors_of(numbers, 5, 8), hostile=vectors_of(attacks, 2, 2))
def test_the_geometric_median_stays_near_the_honest_ones(honest, hostile):
    good = torch.tensor(honest, dtype=torch.float64)
    both = torch.cat([good, torch.tensor(hostile, dtype=torch.float64)])
    found = geometric_median(both)
    centre = good.mean(0)
    farthest = float((good - centre).norm(dim=1).max())
    # Lopuhaä and Rousseeuw (1991): within 2(1 − a)/(1 − 2a) radii, a the share of hostile ones.
    a = 2 / len(both)
    assert float((found - centre).norm()) <= 2 * (1 - a) / (1 - 2 * a) * farthest + 1e-3


@given(honest=vectors_of(numbers, 5, 8), hostile=vectors_of(attacks, 2, 2))
def test_a_clipped_mean_moves_no_further_than_an_honest_client(honest, hostile):
    good = torch.tensor(honest, dtype=torch.float64)
    both = torch.cat([good, torch.tensor(hostile, dtype=torch.float64)])
    found = clipped_mean(both, torch.zeros(3, dtype=torch.float64))
    assert float(found.norm()) <= float(good.norm(dim=1).max()) + 1e-6


# -- updates


def update(number: float, count: int = 1, weight: float = 1) -> ClientUpdate:
    shared = {"w": torch.full((2, 2), float(number)), "n": torch.tensor(count)}
    shared["b"] = torch.tensor(-float(number))
    return ClientUpdate(str(number), shared, weight)


def test_updates_are_combined_tensor_by_tensor_and_integers_by_their_median():
    updates = [update(1, 3), update(2, 4), update(900, 10**12)]
    found = aggregated(updates, update(0).shared, "median", 0.3)
    assert list(found) == ["w", "n", "b"]
    assert found["w"].tolist() == [[2, 2], [2, 2]]
    assert found["w"].dtype == torch.float32
    assert found["b"].item() == -2
    assert found["n"].item() == 4


def test_robust_rules_count_clients_alike_whatever_weight_they_claim():
    updates = [update(1), update(2), update(3, weight=1e6)]
    assert aggregated(updates, update(0).shared, "trimmed-mean", 0.3)["b"].item() == -2


def test_the_mean_is_the_weighted_mean():
    updates = [update(1, weight=1), update(2, weight=3)]
    found, expected = aggregated(updates, {}, "mean", 0.2), weighted_mean(updates)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("rule", ROBUST)
def test_too_few_clients_are_refused_in_one_line(rule):
    with pytest.raises(TrainingError, match="assumes 1 hostile among 2 clients"):
        aggregated([update(1), update(2)], update(0).shared, rule, 0.2)


@pytest.mark.parametrize("rule", ROBUST)
def test_nothing_shared_is_nothing(rule):
    assert aggregated([ClientUpdate(str(i), {}, 1) for i in range(7)], {}, rule, 0.2) == {}
