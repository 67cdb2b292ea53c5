from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duotone.measures.groups import client_means, group_scores, newcomers_beside_own_group


def clouds(rng, groups=3, each=4, apart=10.0):
    """Return mean codes of clients whose groups lie far apart, and the groups."""
    group = np.repeat(np.arange(groups), each)
    centre = apart * np.eye(groups)
    return centre[group] + rng.normal(size=(len(group), groups)), group.astype(str)


def test_means_are_taken_client_by_client():
    codes = np.array([[1.0, 0.0], [3.0, 2.0], [5.0, 5.0]], np.float32)
    means = client_means(codes, np.array(["b", "b", "a"]))
    assert means.tolist() == [[5, 5], [2, 1]]


def test_groups_that_lie_apart_are_found():
    found = group_scores(*clouds(np.random.default_rng(0)), seed=0)
    assert found["nmi"] == pytest.approx(1)
    assert found["ari"] == 1
    assert found["silhouette"] > 0.7


def test_silhouette_of_four_clients_on_a_line_worked_by_hand():
    means = np.array([[0.0], [1.0], [4.0], [5.0]])
    found = group_scores(means, np.array(["a", "a", "b", "b"]), seed=0)
    # own distance 1; to the other group 4.5 for the outer clients, 3.5 for the inner ones
    assert found["silhouette"] == pytest.approx((2 * 3.5 / 4.5 + 2 * 2.5 / 3.5) / 4)
    assert found["ari"] == 1


def test_random_codes_have_an_ari_and_a_silhouette_around_zero():
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(4), 10)
    found = [group_scores(rng.normal(size=(40, 8)), group, seed=0) for _ in range(10)]
    assert np.mean([scores["ari"] for scores in found]) == pytest.approx(0, abs=0.05)
    assert np.mean([scores["silhouette"] for scores in found]) == pytest.approx(0, abs=0.08)


@pytest.mark.parametrize("group", [["a"] * 5, list("abcde"), ["a"]])
def test_one_group_or_a_group_for_each_client_has_no_score(group):
    assert group_scores(np.random.default_rng(0).normal(size=(len(group), 2)), group, seed=0) == {}


def test_a_part_without_dimensions_has_no_score():
    assert group_scores(np.zeros((4, 0)), np.array(list("aabb")), seed=0) == {}


def test_codes_that_coincide_show_no_groups():
    found = group_scores(np.ones((6, 3)), np.array(list("aabbcc")), seed=0)
    assert found == {"nmi": 0, "ari": 0, "silhouette": 0}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000))
def test_scores_do_not_depend_on_order_of_clients_dimensions_and_names(seed):
    rng = np.random.default_rng(seed)
    means, group = clouds(rng, apart=6.0)
    clients, dimensions = rng.permutation(len(group)), rng.permutation(means.shape[1])
    renamed = np.array(["x", "y", "z"])[group.astype(int)]
    changed = -3 * means[clients][:, dimensions] + 7
    plain = group_scores(means, group, seed=0)
    other = group_scores(changed, renamed[clients], seed=0)
    assert other["silhouette"] == pytest.approx(plain["silhouette"])
    assert other["ari"] == pytest.approx(plain["ari"], abs=1e-9)


def test_newcomers_are_placed_beside_the_nearest_member():
    means = np.array([[0.0], [10.0]])
    right = newcomers_beside_own_group(
        means, np.array(["a", "b"]), np.array([[1.0], [2.0], [9.0]]), np.array(["a", "b", "b"])
    )
    assert right.tolist() == [True, False, True]


def test_newcomers_of_groups_without_members_are_left_out():
    means, group = np.array([[0.0], [10.0]]), np.array(["a", "b"])
    right = newcomers_beside_own_group(means, group, np.array([[1.0], [9.0]]), np.array(["c", "b"]))
    assert right.tolist() == [True]


def test_with_one_group_newcomers_cannot_be_misplaced_and_have_no_score():
    means, group = np.array([[0.0], [10.0]]), np.array(["a", "a"])
    assert len(newcomers_beside_own_group(means, group, means, group)) == 0
