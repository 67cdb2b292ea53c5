from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, roc_auc_score

from duotone.measures.metrics import (
    classification_metrics,
    regression_metrics,
    weighted_auc,
    weighted_f1,
)


def test_metrics_of_four_samples_worked_by_hand():
    y = np.array([0, 0, 1, 1])
    scores = np.log(np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.3, 0.7]]))
    found = classification_metrics(y, scores)
    assert found["accuracy"] == 0.75
    # class 0: precision 1, recall 1/2 → 2/3; class 1: precision 2/3, recall 1 → 4/5
    assert found["f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert found["loss"] == pytest.approx(-np.log([0.9, 0.4, 0.8, 0.7]).mean())
    # class 1 scores .1 .6 against .8 .7: every pair in the right order
    assert found["auc"] == 1.0


def test_auc_equals_scikit_learn_where_every_class_is_present():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2], [20, 30, 50]))
    probabilities = rng.dirichlet(np.ones(3), 100)
    expected = roc_auc_score(y, probabilities, multi_class="ovr", average="weighted")
    assert weighted_auc(y, probabilities) == pytest.approx(expected)


@given(st.integers(2, 6), st.integers(2, 40), st.integers(0, 10_000), st.booleans())
def test_f1_and_auc_equal_scikit_learn(classes, count, seed, coarse):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, count)
    probabilities = rng.dirichlet(np.ones(classes), count)
    if coarse:  # many equal scores
        probabilities = probabilities.round(1)
    predicted = probabilities.argmax(1)
    expected = f1_score(y, predicted, average="weighted", zero_division=0.0)
    assert weighted_f1(y, predicted) == pytest.approx(expected, abs=1e-12)
    present, counts = np.unique(y, return_counts=True)
    if len(present) > 1:
        areas = [roc_auc_score(y == label, probabilities[:, label]) for label in present]
        expected = np.average(areas, weights=counts)
        assert weighted_auc(y, probabilities) == pytest.approx(expected, abs=1e-12)


def test_auc_ignores_classes_a_client_does_not_have():
    y = np.array([0, 0, 2, 2])
    probabilities = np.array([[0.6, 0.3, 0.1], [0.5, 0.1, 0.4], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]])
    # class 0: .6 .5 against .1 .2 → 1; class 2: .1 .7 against .1 .4 → (½ + 0 + 1 + 1)/4 = 0.625
    assert weighted_auc(y, probabilities) == pytest.approx((1 + 0.625) / 2)


def test_auc_is_left_out_for_a_single_class():
    found = classification_metrics(np.array([1, 1]), np.zeros((2, 3)))
    assert "auc" not in found


@given(st.integers(2, 5), st.integers(5, 30), st.integers(0, 1000))
def test_scores_shifted_by_a_constant_change_nothing(classes, count, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, count)
    scores = rng.normal(size=(count, classes))
    first = classification_metrics(y, scores)
    second = classification_metrics(y, scores + rng.normal(size=(count, 1)))
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert second[name] == pytest.approx(value, abs=1e-9)


def test_regression_metrics_of_three_samples():
    found = regression_metrics(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 5.0]))
    assert found == pytest.approx({"mse": 4 / 3, "mae": 2 / 3, "r2": 1 - 4 / 2})
    assert "r2" not in regression_metrics(np.array([1.0, 1.0]), np.array([0.0, 2.0]))
