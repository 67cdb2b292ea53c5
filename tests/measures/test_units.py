"""A score says what it counts in, where it is made; nobody has to guess it from its value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scenes import separation_scores

from duotone.errors import RunError
from duotone.measures.agreement import agreement, measured
from duotone.measures.metrics import DIRECTIONS, UNITS
from duotone.measures.questions import bootstrap_counts, question, score_answers
from duotone.measures.score import Key, Score, read_scores, scores_json
from duotone.seeding import stream
from duotone.types import Unit


def test_every_metric_has_a_direction_and_a_unit():
    assert DIRECTIONS.keys() == UNITS.keys()


def test_every_unit_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert [unit for unit in get_args(Unit) if f"`{unit}`" not in text] == []


def test_the_unit_is_written_beside_the_value():
    score = Score.over([0.5, 1.0], "higher", "share")
    written = scores_json({Key("accuracy", "accuracy"): score})["member.accuracy"]
    expected = {"value": 0.75, "std": 0.25, "direction": "higher", "n": 2, "unit": "share"}
    assert written.items() >= expected.items()
    assert "low" not in written


def test_a_probe_that_is_never_right_is_still_a_share():
    """Chance is 0 where the most frequent kind of training never occurs in the test samples."""
    kinds = question("kind", np.array(["a", "b", "b", "a"]))
    counts = bootstrap_counts(4, stream(0, "test"))
    nothing = score_answers(kinds, 1 - kinds.answers, "reference", counts)
    assert (nothing.value, nothing.unit) == (0.0, "share")
    amounts = question("amount", np.array([0.1, 0.2, 0.4, 0.7]))
    assert score_answers(amounts, amounts.answers, "higher", counts).unit == "R²"


@pytest.mark.parametrize(
    ("scale", "unit"), [("categorical", "share"), ("angle", "cosine"), ("number", "R²")]
)
def test_judges_say_what_they_measure(scale, unit):
    truth = np.array([0.0, 1.0, 2.0])
    assert measured([agreement(scale, truth, truth)], "higher", stream(0, "test")).unit == unit


def test_scores_of_codes_have_units():
    rng = np.random.default_rng(0)
    rows = 240
    client = np.array(["a", "b", "c", "d"])[np.arange(rows) % 4]
    latents = {
        "shared": rng.normal(size=(rows, 3)),
        "local": rng.normal(size=(rows, 2)) + (np.arange(rows) % 4)[:, None],
        "client": client,
        "group": np.where(np.isin(client, ["a", "b"]), "x", "y"),
        "label": np.arange(rows) // 4 % 3,
        "kind": np.full(rows, "member"),
        "split": np.where(np.arange(rows) < 40, "train", "test"),
        "factor_shade": rng.normal(size=rows),
    }
    units = {
        name: score.unit
        for name, score in separation_scores(latents, data_name=None, seed=0).items()
    }
    for name, unit in {
        "probe.client_from_shared": "share",
        "probe.client_from_shared.chance": "share",
        "probe.shade_from_local": "R²",
        "probe.shade_from_local.within": "R²",
        "parts.hsic": "index",
        "parts.total_correlation.control": "nats",
        "dims.mig": "index",
        "groups.nmi": "index",
    }.items():
        assert units[name] == unit, name


def test_a_summary_says_of_every_score_what_it_is_made_of():
    key = Key("probe", "client", part="shared", variant="control")
    scores = {key: Score(0.4, 0.1, "reference", 9, "share", 0.3, 0.5)}
    content = scores_json(scores)
    facts = {"measure": "probe", "question": "client", "part": "shared", "variant": "control"}
    assert content["probe.client_from_shared.control"].items() >= facts.items()
    (again,) = read_scores(json.loads(json.dumps(content)))
    assert (again, again.facts()) == (key, key.facts())
    assert read_scores(content)[key] == scores[key]


def test_scores_of_an_earlier_version_are_refused_with_a_clear_line():
    old = {"value": 0.2, "std": 0.0, "direction": "higher", "n": 4}
    with pytest.raises(RunError, match="earlier version"):
        read_scores({"member.accuracy": old})


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (Key("accuracy", "f1", variant="selected", role="newcomer"), "newcomer.f1.selected"),
        (Key("curve", "accuracy", variant="5", role="newcomer"), "newcomer.accuracy@5"),
        (Key("probe", "phase", part="local"), "probe.phase_from_local"),
        (Key("probe", "phase", part="local", role="newcomer"), "probe.phase_from_local.newcomers"),
        (Key("swap", "label", variant="judge", role="newcomer"), "swap.label.judge.newcomers"),
        (Key("groups", "", role="newcomer"), "groups.newcomers"),
    ],
)
def test_names_on_disk_are_made_of_keys(key, name):
    assert key == name
    assert key.beside(key.variant).facts() == key.facts()
