from __future__ import annotations

import pytest
from test_study import small

from duotone.errors import ConfigError
from duotone.runs.study import execute_study
from duotone.runs.study_plan import plan_study
from duotone.runs.study_search import choose


def test_an_entry_keeps_its_own_values_unless_others_are_better_with_every_seed():
    scores = {0: {1: 0.90, 2: 0.80}, 1: {1: 0.99, 2: 0.79}, 2: {1: 0.91, 2: 0.81}}
    assert choose(scores, 0, "higher") == 2, "1 is better in the mean, but not with every seed"
    assert choose(scores, None, "higher") == 1
    assert choose({0: scores[0], 1: scores[1]}, 0, "higher") == 0


def test_equal_scores_are_no_reason_to_leave_the_default():
    assert choose({0: {1: 0.5}, 1: {1: 0.5}}, 1, "higher") == 1
    assert choose({0: {1: 0.5}, 1: {1: 0.5}}, None, "higher") == 0


def test_errors_are_better_the_smaller_they_are():
    assert choose({0: {1: 2.0, 2: 3.0}, 1: {1: 1.0, 2: 2.0}}, 0, "lower") == 1


def test_a_default_that_failed_is_not_kept():
    assert choose({1: {1: 0.2}, 2: {1: 0.3}}, None, "higher") == 2


def test_other_seeds_may_search(tmp_path):
    searched = small(methods=["fedavg"], seeds=[5], search={"lr": [1e-6, 0.1]}, search_seeds=[0, 1])
    results = execute_study(plan_study(searched, tmp_path / "s")).results
    (entry,) = results["entries"]
    assert results["search_seeds"] == [0, 1]
    assert results["complete"]
    assert entry["chosen"] == {"lr": 0.1}
    assert entry["runs"] == ["fedavg/lr=0.1/seed5"]
    assert [list(tried["scores"]) for tried in entry["search"]] == [["0", "1"]] * 2
    assert [tried["default"] for tried in entry["search"]] == [False, True]


def test_a_search_seed_that_is_given_twice_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="search seed 1 more than once"):
        plan_study(small(search={"lr": [0.1]}, search_seeds=[1, 1]), tmp_path)
