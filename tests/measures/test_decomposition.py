"""Answers taken apart, with numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from duotone.measures.client_answers import share_scores
from duotone.measures.decomposition import decomposed, variance_shares
from duotone.measures.exchanges import flip_scores, flip_table
from duotone.measures.score import Key


def test_parts_by_hand():
    # Two witnesses say 0.2 and 0.6 of the sample, and 0.1 and 0.3 of anything. The client is the
    # second one. mean 0.2; sample 0.4 - 0.2; habit 0.3 - 0.2; reading 0.6 - 0.2 - 0.2 - 0.1.
    found = decomposed(
        np.array([[0.6]]),
        np.array([[[0.2]], [[0.6]]]),
        np.array([0.3]),
        np.array([[0.1], [0.3]]),
    )
    parts = (found.mean[0], found.sample[0, 0], found.habit[0], found.reading[0, 0])
    assert parts == pytest.approx((0.2, 0.2, 0.1, 0.1))
    assert found.total()[0, 0] == pytest.approx(0.6)


def test_a_client_that_says_the_same_of_anything_has_a_habit_and_nothing_else():
    answers = np.array([[[0.0], [0.0]], [[1.0], [1.0]]])
    assert variance_shares(answers) == {"sample": 0.0, "habit": 1.0, "reading": 0.0}


def test_an_answer_that_depends_on_who_reads_what_is_all_reading():
    answers = np.array([[[0.0], [1.0]], [[1.0], [0.0]]])
    assert variance_shares(answers) == {"sample": 0.0, "habit": 0.0, "reading": 1.0}


def test_shares_of_mixed_answers_by_hand():
    # Rows 0, 2 and 0, 4: mean 1.5, sample ∓1.5, habit ∓0.5, reading ±0.5.
    answers = np.array([[[0.0], [2.0]], [[0.0], [4.0]]])
    found = variance_shares(answers)
    assert found == pytest.approx({"sample": 2.25 / 2.75, "habit": 1 / 11, "reading": 1 / 11})


def test_equal_answers_have_no_variance_to_share():
    assert set(variance_shares(np.full((3, 4, 2), 0.3)).values()) == {0.0}


def test_intervals_hold_the_value():
    answers = np.random.default_rng(0).uniform(size=(4, 30, 3))
    for score in share_scores(answers, 0).values():
        assert score.low <= score.value <= score.high
        assert score.n == 30


def test_flips_are_counted_on_the_samples_of_the_first_client():
    decisions = np.array([[0, 0, 1], [0, 1, 1]])
    flips = flip_table(decisions, ["a", "b"], ["a", "a", "b"])
    assert flips == [("a", "b", 1, 2), ("b", "a", 0, 1)]


def test_flips_by_group_stand_beside_groups_dealt_at_random():
    # Clients of one group always agree, clients of two never do.
    decisions = np.repeat(np.array([[0], [0], [0], [1], [1], [1]]), 6, axis=1)
    clients = list("abcdef")
    flips = flip_table(decisions, clients, clients)
    groups = dict(zip(clients, "xxxyyy", strict=True))
    scores = flip_scores(flips, groups, 0)
    key = Key("answers", "flips")
    assert scores[key].value == pytest.approx(3 / 5)
    assert scores[key.beside("same_group")].value == 0
    assert scores[key.beside("other_group")].value == 1
    chance = scores[key.beside("permuted")]
    assert chance.n == 100
    assert abs(chance.value) < 0.15
