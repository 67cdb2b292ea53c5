"""Verdicts, and where our numbers come from, on numbers made by hand."""

from __future__ import annotations

import pytest

from duotone.reproduction.beside import ours_text, verdict_text
from duotone.reproduction.committed import result_verdict, row_verdict, value_of, with_fresh
from duotone.reproduction.rows import Earlier, Printed, Result, Row, Table
from duotone.reproduction.verdicts import Value, verdict


def value(low, high):
    return Value((low + high) / 2, low, high, 3, "file.json")


@pytest.mark.parametrize(
    ("ours", "published", "direction", "nothing", "expected"),
    [
        (value(90, 92), 91.0, "higher", None, "reached"),
        (value(92, 94), 91.0, "higher", None, "exceeded"),
        (value(88, 90), 91.0, "higher", None, "not reached"),
        (value(8, 9), 10.0, "lower", None, "exceeded"),
        (value(11, 12), 10.0, "lower", None, "not reached"),
        (value(-2, -1), 0.5, "higher", 0.0, "contradicted"),
        (value(1, 2), -5.0, "lower", 0.0, "contradicted"),
        (value(-1, 2), 0.5, "higher", 0.0, "reached"),
        (value(-2, 1), 0.5, "higher", 0.0, "not reached"),  # on the other side of nothing
        (value(1, 2), None, "higher", 0.0, "reached"),
        (value(-1, 3), None, "higher", 0.0, "not reached"),  # a difference that is not shown
        (value(-3, -1), None, "higher", 0.0, "contradicted"),
        (None, 91.0, "higher", None, "not run yet"),
    ],
)
def test_a_number_is_judged_by_its_interval(ours, published, direction, nothing, expected):
    assert verdict(ours, published, direction=direction, nothing=nothing) == expected


def test_one_seed_stands_for_its_interval():
    single = Value(0.9, None, None, 1, "file.json")
    assert verdict(single, 0.8) == "exceeded"
    assert verdict(single, 0.95) == "not reached"


PRINTED = Printed(rounds=100, epochs=2)
FOUND = {
    "entries": [
        {
            "name": "A",
            "seeds": [0, 1, 2],
            "settings": {"rounds": 100, "scale": 0.5, "method.epochs": 1},
            "values": {"member.accuracy": [0.9, 0.8, 0.7], "newcomer.accuracy": [0.5, 0.5, 0.5]},
        },
        {
            "name": "B",
            "seeds": [0, 1, 2],
            "settings": {"rounds": 100, "method.epochs": 2},
            "values": {"member.accuracy": [0.8, 0.7, 0.6]},
        },
    ]
}


def row(*results, **settings):
    return Row(
        key="k",
        name="K",
        method="fedvc",
        claim="",
        study="made",
        printed=PRINTED,
        results=list(results),
        **settings,
    )


def result(**settings):
    return Result(**{"name": "", "label": "A", "score": "member.accuracy", **settings})


def test_a_difference_is_taken_seed_by_seed():
    """Seeds differ by 10 points, the two entries by exactly 10 in each: the interval is a point."""
    asked = result(minus="B", nothing=0, published=10)
    with with_fresh({"reproduced/made.json": FOUND}):
        found = value_of(row(asked), asked)
        assert (found.mean, found.low, found.high) == pytest.approx((0.1, 0.1, 0.1))
        assert found.seeds == 3


def test_two_scores_of_one_entry_are_subtracted():
    asked = result(minus_score="newcomer.accuracy", nothing=0)
    with with_fresh({"reproduced/made.json": FOUND}):
        assert value_of(row(asked), asked).mean == pytest.approx(0.3)
        assert result_verdict(row(asked), asked) == "reached"


def test_the_share_is_rounds_made_times_epochs_over_those_printed():
    asked = result(published=85)
    with with_fresh({"reproduced/made.json": FOUND}):
        found = value_of(row(asked), asked)
        assert found.share == pytest.approx(50 * 1 / 200)
        assert verdict_text(row(asked), asked) == "reached after 25 % of the training"
        own = result(label="B", published=60)
        assert verdict_text(row(own), own) == "reached"


def test_a_verdict_says_what_it_lacks():
    """A difference that the row names, and an interval."""
    own = result(label="B", published=60)
    with with_fresh({"reproduced/made.json": FOUND}):
        there = row(own, differs="Other clients.")
        assert verdict_text(there, own) == "reached apart from what differs"
    short = result(published=85)
    with with_fresh({"reproduced/made.json": shortened(FOUND)}):
        assert verdict_text(row(short), short) == "exceeded after 25 % of the training, one seed"
        assert verdict_text(row(own), own) == "exceeded with one seed"


def shortened(content):
    """The same with its first seed alone."""
    entries = [
        entry | {"seeds": [0], "values": {name: own[:1] for name, own in entry["values"].items()}}
        for entry in content["entries"]
    ]
    return content | {"entries": entries}


def test_a_score_that_the_own_study_does_not_know_is_looked_up_in_an_earlier_file():
    asked = result(score="gan.slope", nothing=0, percent=False)
    earlier = Earlier(file="gan.json", label="A", paths={"gan.slope": "seed* / slope"})
    files = {"reproduced/made.json": FOUND, "gan.json": {"seed1": {"slope": 2.0}}}
    with with_fresh(files):
        found = value_of(row(asked, earlier=[earlier]), asked)
        assert (found.mean, found.file) == (2.0, "gan.json")


def test_the_method_made_to_work_is_shown_as_far_as_it_was_trained():
    """As published a shortened study counts; of duotone's own settings a whole run does."""
    short = {"name": "duotone", "seeds": [0], "settings": {"scale": 0.01}}
    own = {"entries": [FOUND["entries"][0], {**short, "values": {"member.accuracy": [0.2]}}]}
    whole = {"name": "whole", "seeds": [0], "settings": {}, "values": {"member.accuracy": [0.9]}}
    asked = result(published=85)
    there = row(
        asked, earlier=[Earlier(file="old.json", entries={"A": "whole", "duotone": "whole"})]
    )
    with with_fresh({"reproduced/made.json": own, "old.json": {"entries": [whole]}}):
        assert value_of(there, asked, "duotone").file == "old.json"
        assert value_of(there, asked).file == "reproduced/made.json"
        assert value_of(row(asked), asked, "duotone").mean == 0.2


def test_levels_on_other_data_are_not_compared_and_differences_are():
    level, difference = result(published=85), result(minus="B", nothing=0, published=50)
    with with_fresh({"reproduced/made.json": FOUND}):
        there = row(level, difference, not_comparable="other data")
        assert row_verdict(there) == "not comparable"
        assert result_verdict(there, difference) == "reached"


def test_without_numbers_a_row_is_not_run_yet():
    assert row_verdict(row(result(published=85))) == "not run yet"


def test_a_row_s_verdict_is_that_of_its_table_first():
    table = Table(
        columns=["accuracy"],
        scores=["member.accuracy"],
        rows={"A": [70.0], "B": [80.0]},
        judged=[["B", "A"]],
    )
    with with_fresh({"reproduced/made.json": FOUND}):
        assert row_verdict(row(result(published=85), table=table)) == "contradicted"


def test_earlier_numbers_stand_in_and_say_so():
    """The committed bench has FedAvg on five groups of MNIST with three seeds."""
    earlier = Earlier(file="target-shift-five.json", entries={"A": "fedavg"})
    asked = result(published=99.9)
    there = row(asked, earlier=[earlier])
    assert value_of(there, asked).file == "target-shift-five.json"
    assert "in a run with other settings" in verdict_text(there, asked)
    with with_fresh({"reproduced/made.json": FOUND}):
        assert value_of(there, asked).file == "reproduced/made.json"


def test_files_of_other_kinds_are_read_by_paths():
    """Two seeds; what * stands for is averaged: (1 + 3) / 2 and 5."""
    content = {"seed1": {"a": {"e": 1.0}, "b": {"e": 3.0}}, "seed2": {"a": {"e": 5.0}}}
    earlier = Earlier(file="other.json", label="A", paths={"error": "seed* / * / e"})
    asked = result(score="error", published=3, percent=False)
    with with_fresh({"other.json": content}):
        found = value_of(row(asked, earlier=[earlier]), asked)
        assert (found.mean, found.seeds) == (3.5, 2)
        assert value_of(row(asked, earlier=[earlier]), asked, "B") is None


def test_numbers_of_two_files_are_subtracted_if_their_settings_are_the_same():
    def file(name, rounds):
        settings = {"rounds": rounds, "data": "mnist"}
        entry = {"name": name, "seeds": [0], "values": {"member.accuracy": [0.5]}}
        return {"entries": [{**entry, "settings": settings}]}

    sources = [
        Earlier(file="a.json", entries={"A": "a"}),
        Earlier(file="b.json", entries={"B": "b"}),
    ]
    asked = result(minus="B", nothing=0)
    with with_fresh({"a.json": file("a", 5), "b.json": file("b", 5)}):
        assert value_of(row(asked, earlier=sources), asked).mean == 0
    with with_fresh({"a.json": file("a", 5), "b.json": file("b", 9)}):
        assert value_of(row(asked, earlier=sources), asked) is None


def test_numbers_with_different_settings_are_not_subtracted():
    """The study has no entry C, so A minus C is that of the earlier file, both of it."""
    entries = {"A": "fedavg", "C": "local"}
    earlier = Earlier(file="target-shift-five.json", entries=entries)
    asked = result(minus="C", nothing=0)
    with with_fresh({"reproduced/made.json": FOUND}):
        assert value_of(row(asked, earlier=[earlier]), asked).file == "target-shift-five.json"
        assert value_of(row(asked), asked) is None


def test_everybody_is_members_and_newcomers_by_their_number():
    earlier = Earlier(file="target-shift-five.json", entries={"A": "fedavg"})
    parts = [result(score=f"{role}.accuracy", published=1) for role in ("member", "newcomer")]
    member, newcomer = (value_of(row(part, earlier=[earlier]), part).mean for part in parts)
    everybody = result(score="all.accuracy", published=1)
    found = value_of(row(everybody, earlier=[earlier]), everybody).mean
    assert found == pytest.approx((30 * member + 20 * newcomer) / 50)


def test_ours_is_written_with_interval_and_seeds():
    assert ours_text(value(0.9, 0.92), percent=True) == "91.00 (90.00 to 92.00; 3 seeds)"
    assert ours_text(Value(0.004, None, None, 1, ""), percent=False) == "0.004 (1 seed)"
    assert ours_text(None, percent=True) == "–"
