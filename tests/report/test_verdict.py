from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from made_scores import probe

from duotone.report.compared_verdict import compared_verdict
from duotone.report.verdict import Evidence, caveats, is_above, leak_words, verdict, worst_client

NAME = "probe.client_from_shared"


@pytest.fixture
def evidence() -> Evidence:
    last = pl.DataFrame(
        {
            "client": ["10", "9", "n"],
            "group": ["red", "red", "blue"],
            "kind": ["member", "member", "newcomer"],
            "value": [0.8, 0.8, 0.5],
        }
    )
    return Evidence(
        scores={
            "member.accuracy": {"value": 0.8, "std": 0.05, "n": 2},
            "newcomer.accuracy": {"value": 0.5, "std": 0.0, "n": 1},
            **probe("client_from_shared", 0.8, 0.5, 0.6),
            **probe("client_from_local", 0.9, 0.5, 0.6),
            **probe("label_from_local", 0.51, 0.5, 0.6),
        },
        metric="accuracy",
        rule="zero-shot",
        last=last,
        curve=pl.DataFrame({"round": [1, 2], "mean": [0.7, 0.8]}),
        widths={"shared": 4, "local": 4},
        is_dead=False,
        shared_parameters=1000,
        local_parameters=0,
    )


def text(sentences, topic: str) -> str:
    return next(found.text for found in sentences if found.topic == topic)


def test_the_verdict_has_three_to_five_sentences_with_the_parts_in_their_inks(evidence):
    found = verdict(evidence)
    assert [s.topic for s in found] == [
        "Members",
        "Newcomers",
        "Shared part",
        "Local part",
        "Caveats",
    ]
    assert [s.part for s in found] == ["", "", "shared", "local", ""]


def test_the_worst_client_is_named_and_of_equals_the_first(evidence):
    assert worst_client(evidence.last, "member", "accuracy") == ("9", "red", 0.8)
    assert "the worst is client 9 of group red with 80.0 %" in text(verdict(evidence), "Members")


def test_the_worst_of_an_error_is_the_largest(evidence):
    last = evidence.last.with_columns(value=pl.Series([3.0, 1.0, 2.0]))
    assert worst_client(last, "member", "mse")[0] == "10"


def test_a_single_newcomer_is_not_called_a_mean(evidence):
    said = text(verdict(evidence), "Newcomers")
    assert said.startswith("The only newcomer, n of group blue, giving nothing, reaches 50.0 %")
    assert "mean" not in said


def test_what_the_shared_part_reveals_stands_beside_all_its_references(evidence):
    also = {f"{NAME}.label": {"value": 0.55}, f"{NAME}.samples": {"value": 0.65}}
    known = replace(evidence, scores={**evidence.scores, **also})
    said = text(verdict(known), "Shared part")
    assert "from codes as they are drawn with 65.0 %" in said
    for number in ("80.0 % [78.0, 82.0]", "linear one with 70.0 %", "chance 50.0 %"):
        assert number in said
    for number in ("label alone 55.0 %", "permuted labels 50.0 %", "untrained network 60.0 %"):
        assert number in said
    assert "training added to it" in said


@pytest.mark.parametrize(
    ("mlp", "untrained", "said"),
    [
        (0.51, 0.6, "no more than guessing gives"),
        (0.8, 0.6, "training added to it"),
        (0.8, 0.81, "training did not take it out"),
        (0.6, 0.8, "training hid some"),
    ],
)
def test_a_leak_is_judged_by_guessing_and_by_an_untrained_network(mlp, untrained, said):
    assert said in leak_words(probe("client_from_shared", mlp, 0.5, untrained), NAME)


def test_a_leak_that_the_label_explains_is_said_to_be_that():
    scores = probe("client_from_shared", 0.8, 0.5, 0.6)
    for value, is_said in ((0.79, True), (0.7, False)):
        found = leak_words({**scores, f"{NAME}.label": {"value": value}}, NAME)
        assert ("the label of a sample alone" in found) == is_said


def test_what_only_the_linear_probe_reads_counts_as_a_leak():
    scores = probe("client_from_shared", 0.5, 0.5, 0.5)
    scores[f"{NAME}.linear"] = {"value": 0.9, "low": 0.88, "high": 0.92}
    assert "training added to it" in leak_words(scores, NAME)


def test_nothing_is_above_something_it_overlaps():
    low, high = {"value": 0.5, "low": 0.4, "high": 0.6}, {"value": 0.62, "low": 0.55, "high": 0.7}
    assert not is_above(high, low)
    assert is_above({"value": 0.62, "low": 0.61, "high": 0.63}, low)
    assert is_above({"value": 0.7}, {"value": 0.6})


def test_the_local_part_is_said_to_carry_what_is_read_from_it_and_no_more(evidence):
    said = text(verdict(evidence), "Local part")
    assert "client with 90.0 % (chance 50.0 %, untrained network 60.0 %)" in said
    assert "nothing was found about label" in said


def test_of_many_things_the_local_part_carries_the_rest_is_counted(evidence):
    more = {k: v for name in "vwxyz" for k, v in probe(f"{name}_from_local", 0.9, 0.5, 0.6).items()}
    said = text(verdict(replace(evidence, scores={**evidence.scores, **more})), "Local part")
    assert "x with 90.0 %" in said
    assert "and 2 more; nothing was found about label" in said


def test_a_local_part_that_is_absent_dead_or_silent_is_called_so(evidence):
    absent = replace(evidence, widths={"shared": 4, "local": 0}, local_parameters=1234)
    assert "no local code; 1,234 parameters stay" in text(verdict(absent), "Local part")
    dead = replace(evidence, is_dead=True)
    assert "The local code is dead" in text(verdict(dead), "Local part")
    silent = {**evidence.scores, **probe("client_from_local", 0.5, 0.5, 0.6)}
    assert "it looks dead" in text(verdict(replace(evidence, scores=silent)), "Local part")


def test_a_run_without_probes_says_that_nothing_was_measured(evidence):
    scores = {k: v for k, v in evidence.scores.items() if not k.startswith("probe.")}
    found = verdict(replace(evidence, scores=scores))
    assert "not measured" in text(found, "Shared part")
    assert "not measured" in text(found, "Local part")


def test_caveats_name_few_clients_unfinished_learning_and_what_a_linear_probe_misses(evidence):
    found = "; ".join(caveats(evidence))
    for words in ("one seed", "only 2 members and 1 newcomer", "still improving", "linear probe"):
        assert words in found
    level = replace(evidence, curve=pl.DataFrame({"round": [1, 2], "mean": [0.8, 0.8]}))
    assert "still improving" not in "; ".join(caveats(level))


def comparison(name: str, verdict: str, low: float | None) -> dict:
    return {
        "entry": name,
        "reference": "fedavg",
        "score": "member.accuracy",
        "difference": {"mean": 0.031, "low": low, "high": None if low is None else 0.05},
        "corrected_p": 0.01,
        "verdict": verdict,
    }


def results(*comparisons: dict) -> dict:
    return {"headline": "accuracy", "comparisons": list(comparisons), "entries": []}


def members_text(*comparisons: dict) -> str:
    return compared_verdict([FakeEntry()], results(*comparisons), "")[0].text


class FakeEntry:
    """An entry with two seeds, as far as the caveats look at it."""

    runs = (type("Run", (), {"summary": {"newcomer_rule": "zero-shot"}}),) * 2


def test_better_is_said_only_where_the_test_says_it():
    assert "x is better than fedavg (+3.1 points" in members_text(comparison("x", "better", 0.01))
    unclear = members_text(comparison("x", "no difference shown", -0.01))
    assert "no difference is shown" in unclear
    assert "better" not in unclear
    assert "nothing is called better" in members_text(comparison("x", "one seed", None))


def test_many_entries_are_sorted_by_what_was_shown():
    names = [comparison(name, "better", 0.01) for name in "xyz"]
    said = members_text(*names, comparison("w", "no difference shown", -0.01))
    assert said == (
        "Against fedavg, better: x (+3.1 points), y (+3.1 points), z (+3.1 points); "
        "no difference shown: w (+3.1 points)."
    )


def test_runs_on_different_data_are_said_to_be_unranked():
    found = compared_verdict([FakeEntry()], results(), "data digits against mnist")
    assert "data digits against mnist), so nothing here ranks them" in found[-1].text


def test_a_method_that_splits_its_parameters_is_not_said_to_share_nothing(evidence):
    fedbn = replace(
        evidence,
        widths={"shared": 0, "local": 4},
        shared_parameters=421_642,
        local_parameters=448,
    )
    said = text(verdict(fedbn), "Shared part")
    assert "421,642 parameters are shared" in said
    assert "no shared code" not in said
    local = replace(fedbn, shared_parameters=0)
    assert "Nothing is shared" in text(verdict(local), "Shared part")
