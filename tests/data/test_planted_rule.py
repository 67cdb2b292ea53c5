from __future__ import annotations

import numpy as np
import pytest

from duotone.data import load_dataset
from duotone.data.planted_rule import rule
from duotone.measures.decomposition import decomposed

NAMES = ("planted-rule", "planted-rule-visible", "planted-rule-table")


@pytest.fixture(params=NAMES)
def made(request):
    return load_dataset(request.param)


def test_the_class_follows_the_rule(made):
    facts = made.factors
    dependent = facts["gate"] == 1
    assert (made.y[~dependent] == facts["evidence"][~dependent]).all()
    assert (made.y[dependent] == (facts["evidence"] + facts["group"])[dependent] % 4).all()
    assert 0.35 < dependent.mean() < 0.45


def test_true_parts_are_those_of_the_rules_themselves(made):
    """The recorded parts, against the general decomposition of what the twelve rules say."""
    facts = made.factors
    says = np.stack([rule(facts["evidence"], facts["gate"], i % 3) for i in range(12)])
    answers = np.eye(4)[says]
    usual = answers.mean(axis=1)
    rows = np.flatnonzero(facts["group"] == 1)[:200]
    parts = decomposed(answers[1, rows], answers[:, rows], usual[1], usual)
    place, label = np.arange(len(rows)), made.y[rows]
    assert facts["sample"][rows] == pytest.approx(parts.sample[place, label])
    assert facts["habit"][rows] == pytest.approx(parts.habit[label])
    assert facts["reading"][rows] == pytest.approx(parts.reading[place, label])


def test_reading_is_large_where_the_client_decides_and_small_elsewhere(made):
    reading, gate = np.abs(made.factors["reading"]), made.factors["gate"]
    assert reading[gate == 1].min() > 0.5
    assert reading[gate == 0].max() < 0.15


def test_habits_differ(made):
    assert np.abs(made.factors["habit"]).max() > 0.05


def test_hidden_groups_cannot_be_read_from_the_inputs_and_visible_ones_can():
    hidden, visible = (load_dataset(name) for name in NAMES[:2])

    def steepness(data, group):
        """How much more an image changes from left to right than from top to bottom."""
        x = data.x[data.factors["group"] == group].astype(float)
        return np.abs(np.diff(x, axis=2)).mean() - np.abs(np.diff(x, axis=1)).mean()

    assert abs(steepness(hidden, 0) - steepness(hidden, 1)) < 3
    assert abs(steepness(visible, 0) - steepness(visible, 1)) > 10
