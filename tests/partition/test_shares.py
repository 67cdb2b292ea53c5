from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotone.partition.shares import (
    NOBODY,
    Who,
    deal_classes,
    deal_evenly,
    nobody,
    shares_of,
    whole_numbers,
)
from duotone.seeding import stream


@given(
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=30).filter(lambda w: sum(w) > 1e-3),
    total=st.integers(0, 1000),
    seed=st.integers(0, 2**32),
)
def test_whole_numbers_add_up_and_are_less_than_one_off(
    weights: list[float], total: int, seed: int
) -> None:
    proportions = np.array(weights) / sum(weights)
    counts = whole_numbers(proportions, total, stream(seed))
    assert counts.sum() == total
    assert (np.abs(counts - proportions * total) < 1 + 1e-9).all()
    assert (counts[proportions == 0] == 0).all()


def test_whole_numbers_are_exact_where_the_proportions_are_whole() -> None:
    for seed in range(20):
        counts = whole_numbers(np.array([0.5, 0.25, 0.0, 0.25]), 4, stream(seed))
        assert counts.tolist() == [2, 1, 0, 1]


def test_whole_numbers_are_right_on_average() -> None:
    # One sample for two clients with 3 : 7. Always rounding to the nearest would never give the
    # first client anything.
    first = [whole_numbers(np.array([0.3, 0.7]), 1, stream(seed))[0] for seed in range(2000)]
    assert np.mean(first) == pytest.approx(0.3, abs=0.04)


def test_a_class_is_dealt_out_in_the_given_proportions(make_dataset) -> None:
    dataset = make_dataset(train=40, test=16, classes=4)  # 10 and 4 of each class
    proportions = np.array([[0.5, 1.0, 0.0, 0.0], [0.5, 0.0, 1.0, 0.0]])
    owner = deal_classes(dataset, proportions, stream(0))
    for rows, each in ((dataset.train_rows, 10), (dataset.test_rows, 4)):
        held = {
            (client, label): int(((owner[rows] == client) & (dataset.y[rows] == label)).sum())
            for client in (0, 1, NOBODY)
            for label in range(4)
        }
        assert held[0, 0] == held[1, 0] == each // 2
        assert held[0, 1] == held[1, 2] == each
        assert held[NOBODY, 3] == each
        assert sum(held.values()) == 4 * each


def test_who_gets_which_samples_of_a_class_is_left_to_chance(make_dataset) -> None:
    dataset = make_dataset(train=40, test=16, classes=1)
    halves = np.array([[0.5], [0.5]])
    one, two = (deal_classes(dataset, halves, stream(seed)) for seed in (0, 1))
    assert (one == 0).sum() == (two == 0).sum() == 28
    assert (one != two).any()


def test_rows_are_dealt_evenly_to_the_named_clients_only(make_dataset) -> None:
    dataset = make_dataset(train=10, test=4)
    owner = nobody(dataset)
    deal_evenly(owner, dataset.train_rows, np.array([2, 5, 7]), stream(0))
    assert {client: int((owner == client).sum()) for client in (2, 5, 7)} == {2: 4, 5: 3, 7: 3}
    assert (owner[dataset.test_rows] == NOBODY).all()


def test_shares_follow_from_the_owner_of_each_row(make_dataset) -> None:
    dataset = make_dataset(train=4, test=3)
    owner = np.array([1, NOBODY, 0, 1, 0, 0, NOBODY])
    a, b, c = shares_of(dataset, owner, [Who(name, "all", "member") for name in "abc"])
    assert (a.client, a.train.tolist(), a.test.tolist()) == ("a", [2], [4, 5])
    assert (b.client, b.train.tolist(), b.test.tolist()) == ("b", [0, 3], [])
    assert (c.client, c.train.tolist(), c.test.tolist()) == ("c", [], [])
