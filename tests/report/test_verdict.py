from __future__ import annotations

import polars as pl
import pytest
from made_scores import probe
from scenes import made_score, record_of

from duotone.measures.accuracy import Accuracy, worst_client
from duotone.measures.measure import Record
from duotone.measures.probe_words import leak_words
from duotone.measures.probes import Probes
from duotone.measures.score import Key
from duotone.report import compared
from duotone.report.sections import verdict

CLIENT = Key("probe", "client", part="shared")
SCORES = {
    Key("accuracy", "accuracy"): made_score(0.8, std=0.05, n=2),
    Key("accuracy", "accuracy", role="newcomer"): made_score(0.5, n=1),
    **probe("client", "shared", 0.8, 0.5, 0.6),
    **probe("client", "local", 0.9, 0.5, 0.6),
    **probe("label", "local", 0.51, 0.5, 0.6),
}
LAST = {
    "10": ("red", "member", 0.8),
    "9": ("red", "member", 0.8),
    "n": ("blue", "newcomer", 0.5),
}


def said_of(record: Record):
    return verdict([Accuracy().section(record), Probes().section(record)])


def made(scores=SCORES, **changes) -> Record:
    return record_of(scores, **{"last": LAST, "means": [0.7], **changes})


def text(sentences, topic: str) -> str:
    return next(found.text for found in sentences if found.topic == topic)


def test_the_verdict_has_three_to_five_sentences_with_the_parts_in_their_inks():
    found = said_of(made())
    topics = ["Members", "Newcomers", "Shared part", "Local part", "Caveats"]
    assert [s.topic for s in found] == topics
    assert [s.part for s in found] == ["", "", "shared", "local", ""]


def last_round(values) -> pl.DataFrame:
    rows = [(c, g, r, v) for (c, (g, r, _)), v in zip(LAST.items(), values, strict=True)]
    return pl.DataFrame(rows, schema=["client", "group", "kind", "value"], orient="row")


def test_the_worst_client_is_named_and_of_equals_the_first():
    assert worst_client(last_round([0.8, 0.8, 0.5]), "member", "accuracy") == ("9", "red", 0.8)
    assert "the worst is client 9 of group red with 80.0 %" in text(said_of(made()), "Members")


def test_the_worst_of_an_error_is_the_largest():
    assert worst_client(last_round([3.0, 1.0, 2.0]), "member", "mse")[0] == "10"


def test_a_single_newcomer_is_not_called_a_mean():
    said = text(said_of(made()), "Newcomers")
    assert said.startswith("The only newcomer, n of group blue, giving nothing, reaches 50.0 %")
    assert "mean" not in said


def test_what_the_shared_part_reveals_stands_beside_all_its_references():
    also = {CLIENT.beside("label"): made_score(0.55), CLIENT.beside("samples"): made_score(0.65)}
    said = text(said_of(made({**SCORES, **also})), "Shared part")
    assert "from codes as they are drawn with 65.0 %" in said
    for number in ("80.0 % [78.0, 82.0]", "linear one with 70.0 %", "chance 50.0 %"):
        assert number in said
    for number in (
        "label alone 55.0 %",
        "answers dealt at random 50.0 %",
        "untrained network 60.0 %",
    ):
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
    assert said in leak_words(probe("client", "shared", mlp, 0.5, untrained), CLIENT)


def test_a_leak_that_the_label_explains_is_said_to_be_that():
    scores = probe("client", "shared", 0.8, 0.5, 0.6)
    for value, is_said in ((0.79, True), (0.7, False)):
        found = leak_words({**scores, CLIENT.beside("label"): made_score(value)}, CLIENT)
        assert ("the label of a sample alone" in found) == is_said


def test_what_only_the_linear_probe_reads_counts_as_a_leak():
    scores = probe("client", "shared", 0.5, 0.5, 0.5)
    scores[CLIENT.beside("linear")] = made_score(0.9, low=0.88, high=0.92)
    assert "training added to it" in leak_words(scores, CLIENT)


def test_a_reading_below_its_bar_is_no_leak():
    scores = probe("client", "shared", 0.8, 0.5, 0.6)
    for bar, is_leak in ((0.79, True), (0.8, False)):
        bars = {CLIENT.beside(name): made_score(bar) for name in ("bar", "linear.bar")}
        found = leak_words({**scores, **bars}, CLIENT)
        assert ("no more than guessing" not in found) == is_leak


def test_a_run_of_an_earlier_version_is_judged_by_its_single_control():
    scores = probe("client", "shared", 0.55, 0.5, 0.5)
    old = {key: score for key, score in scores.items() if "bar" not in key.variant}
    assert "no more than guessing" not in leak_words(old, CLIENT)
    old[CLIENT.beside("control")] = made_score(0.54, low=0.5, high=0.58)
    assert "no more than guessing" in leak_words(old, CLIENT)


def test_a_group_that_any_grouping_of_clients_equals_is_not_said_to_be_read():
    scores = probe("client", "local", 0.9, 0.25, 0.3) | probe("group", "local", 0.95, 0.5, 0.6)
    key = Key("probe", "group", part="local")
    for word in ("control", "control95", "bar", "linear.bar"):
        scores[key.beside(word)] = made_score(0.96)
    (_, local) = Probes().section(record_of(scores)).sentences
    assert "reads client with 90.0 %" in local.text
    assert "group only as far as any grouping of these clients" in local.text


def test_nothing_is_above_something_it_overlaps():
    low, high = made_score(0.5, low=0.4, high=0.6), made_score(0.62, low=0.55, high=0.7)
    assert not high.is_above(low)
    assert made_score(0.62, low=0.61, high=0.63).is_above(low)
    assert made_score(0.7).is_above(made_score(0.6))


def test_the_local_part_is_said_to_carry_what_is_read_from_it_and_no_more():
    said = text(said_of(made()), "Local part")
    assert "client with 90.0 % (chance 50.0 %, untrained network 60.0 %)" in said
    assert "nothing was found about label" in said


def test_of_many_things_the_local_part_carries_the_rest_is_counted():
    more = {k: v for name in "vwxyz" for k, v in probe(name, "local", 0.9, 0.5, 0.6).items()}
    said = text(said_of(made({**SCORES, **more})), "Local part")
    assert "x with 90.0 %" in said
    assert "and 2 more; nothing was found about label" in said


def test_a_local_part_that_is_absent_dead_or_silent_is_called_so():
    absent = text(said_of(made(local=(1234, 0))), "Local part")
    assert "no local code; 1,234 parameters stay" in absent
    assert "The local code is dead" in text(said_of(made(is_dead=True)), "Local part")
    silent = {**SCORES, **probe("client", "local", 0.5, 0.5, 0.6)}
    assert "it looks dead" in text(said_of(made(silent)), "Local part")


def test_a_run_without_probes_says_that_nothing_was_measured():
    found = said_of(made({k: v for k, v in SCORES.items() if k.measure != "probe"}))
    assert "not measured" in text(found, "Shared part")
    assert "not measured" in text(found, "Local part")


def test_caveats_name_few_clients_unfinished_learning_and_what_a_linear_probe_misses():
    found = text(said_of(made()), "Caveats")
    for words in ("One seed", "only 2 members and 1 newcomer", "still improving", "linear probe"):
        assert words in found
    assert "still improving" not in text(said_of(made(means=[0.8])), "Caveats")


def comparison(name: str, verdict: str, low: float | None) -> dict:
    return {
        "entry": name,
        "reference": "fedavg",
        "score": "member.accuracy",
        "role": "member",
        "difference": {"mean": 0.031, "low": low, "high": None if low is None else 0.05, "n": 3},
        "corrected_p": 0.01,
        "effect": 1.0,
        "won": 1.0,
        "tied": 0.0,
        "pairs": 4,
        "verdict": verdict,
    }


def results(*comparisons: dict) -> dict:
    empty = {"headline": "accuracy", "entries": [], "mean_ranks": {}, "reference": "fedavg"}
    return {**empty, "seeds": [0], "comparisons": list(comparisons)}


def members_text(*comparisons: dict) -> str:
    return compared.score_section(results(*comparisons), "").sentences[0].text


class FakeEntry:
    """An entry with two seeds, as far as the caveats look at it."""

    runs = (type("Run", (), {"summary": {"newcomer_rule": "zero-shot"}}),) * 2


def test_better_is_said_only_where_the_test_says_it():
    assert "x is better than fedavg (+3.1 points" in members_text(comparison("x", "better", 0.01))
    unclear = members_text(comparison("x", "not shown", -0.01))
    assert "no difference is shown" in unclear
    assert "better" not in unclear
    assert "nothing is called better" in members_text(comparison("x", "one seed", None))
    undeclared = {**comparison("x", "exploratory", 0.01), "corrected_p": None}
    assert members_text(undeclared).endswith("not declared before the runs, so no verdict.")


def test_many_entries_are_sorted_by_what_was_shown():
    names = [comparison(name, "better", 0.01) for name in "xyz"]
    said = members_text(*names, comparison("w", "not shown", -0.01))
    assert said == (
        "Against fedavg, better: x (+3.1 points), y (+3.1 points), z (+3.1 points); "
        "no difference shown: w (+3.1 points)."
    )


def test_runs_on_different_data_are_said_to_be_unranked():
    (found,) = verdict([], compared.caveats([FakeEntry()], "data digits against mnist"))
    assert "data digits against mnist), so nothing here ranks them" in found.text


def test_a_method_that_splits_its_parameters_is_not_said_to_share_nothing():
    fedbn = made(shared=(421_642, 0), local=(448, 4))
    said = text(said_of(fedbn), "Shared part")
    assert "421,642 parameters are shared" in said
    assert "no shared code" not in said
    assert "Nothing is shared" in text(said_of(made(shared=(0, 0))), "Shared part")
