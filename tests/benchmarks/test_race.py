"""Who has no figure in the race, and how turns are compared."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

RACERS = Path(__file__).parents[2] / "benchmarks" / "racers"


@pytest.fixture
def verdicts(monkeypatch):
    monkeypatch.syspath_prepend(RACERS)
    import verdicts

    yield verdicts
    del sys.modules["verdicts"]


def turns(start=2.3, loss=0.5, accuracy=0.75):
    """The state before the first round and after four; the last three are level in the mean."""
    return [
        {"loss": start, "accuracy": 0.1},
        {"loss": 1.1, "accuracy": 0.6},
        {"loss": loss + 0.2, "accuracy": accuracy - 0.1},
        {"loss": loss, "accuracy": accuracy},
        {"loss": loss - 0.2, "accuracy": accuracy + 0.1},
    ]


def race(verdicts, **odd):
    others = {"a": turns(), "b": turns(loss=0.52), "c": turns(loss=0.48, accuracy=0.76)}
    return verdicts.objections({"odd": turns(**odd), **others})


def test_who_learns_like_the_others_has_a_figure(verdicts):
    assert race(verdicts, loss=0.55, accuracy=0.7) == {"a": "", "b": "", "c": "", "odd": ""}


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ({"start": 2.31}, "started at a loss of 2.3100, the others at 2.3000"),
        ({"loss": 0.9}, "loss 0.900, the others 0.510"),
        ({"loss": 0.3}, "loss 0.300, the others 0.490"),
        ({"accuracy": 0.55}, "accuracy 0.550, the others 0.750"),
        ({"accuracy": 0.95}, "accuracy 0.950, the others 0.755"),
        ({"loss": float("nan")}, "loss nan"),
        ({"accuracy": float("nan")}, "accuracy nan"),
    ],
    ids=["start", "too little", "too much", "worse", "better", "nan loss", "nan accuracy"],
)
def test_who_does_something_else_has_none_and_the_others_keep_theirs(verdicts, odd, says):
    found = race(verdicts, **odd)
    assert found["odd"].startswith(says)
    assert not any(found[name] for name in "abc")


def test_if_all_fail_nobody_has_a_figure(verdicts):
    failed = {name: turns(loss=float("nan")) for name in "abc"}
    assert all(verdicts.objections(failed).values())


def test_what_is_no_number_does_not_move_the_median(verdicts):
    failed = {name: turns(loss=float("nan")) for name in "xy"}
    found = verdicts.objections({"a": turns(), **failed})
    assert not found["a"]
    assert found["x"]


def test_the_last_turns_are_judged_together(verdicts):
    late, swinging = turns(), turns()
    late[1] = {"loss": 5.0, "accuracy": 0.1}
    swinging[-2:] = [{"loss": 0.2, "accuracy": 0.95}, {"loss": 0.6, "accuracy": 0.65}]
    others = {"a": turns(), "b": turns(), "c": turns()}
    assert not any(verdicts.objections({**others, "late": late, "swinging": swinging}).values())


def test_turns_are_compared_in_pairs(verdicts):
    """A busy minute slows both sides of a pair: 2/1, 9/3 and 8/2, not the best against the best."""
    found = verdicts.ratios([2.0, 9.0, 8.0], [1.0, 3.0, 2.0])
    assert found == {"median": 3.0, "lowest": 2.0, "highest": 4.0}


def test_every_pair_has_two_sides(verdicts):
    with pytest.raises(ValueError, match="longer"):
        verdicts.ratios([1.0], [1.0, 2.0])
