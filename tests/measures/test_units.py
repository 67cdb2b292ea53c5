"""A score says what it counts in, where it is made; nobody has to guess it from its value."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from duotone.measures.judges import agreement, measured
from duotone.measures.metrics import DIRECTIONS, UNITS
from duotone.measures.probes import bootstrap_counts, score_answers
from duotone.measures.questions import question
from duotone.measures.separation import separation_scores
from duotone.measures.summary import Score, unit_of
from duotone.seeding import stream
from duotone.types import Unit


def test_every_metric_has_a_direction_and_a_unit():
    assert DIRECTIONS.keys() == UNITS.keys()


def test_every_unit_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert [unit for unit in get_args(Unit) if f"`{unit}`" not in text] == []


def test_the_unit_is_written_beside_the_value():
    score = Score.over([0.5, 1.0], "higher", "share").as_json()
    assert score == {"value": 0.75, "std": 0.25, "direction": "higher", "n": 2, "unit": "share"}


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
        "split": np.where(np.arange(rows) < 160, "train", "test"),
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


def test_old_runs_without_units_are_not_guessed_at():
    old = {"value": 0.2, "std": 0.0, "direction": "higher", "n": 4}
    names = ["member.accuracy", "member.worst.selected", "newcomer.accuracy@5", "member.loss"]
    names += ["probe.client_from_local.linear", "probe.label_from_shared", "probe.phase_from_local"]
    scores = {name: {**old, "value": 0.0} for name in [*names, "probe.phase_from_local.chance"]}
    units = [unit_of(name, scores) for name in names]
    assert units == ["share", "share", "share", "nats", "share", "share", "number"]
    regression = dict.fromkeys(["member.mse", "probe.label_from_shared"], old)
    assert unit_of("probe.label_from_shared", regression) == "number"
    assert unit_of("member.mse", {"member.mse": {**old, "unit": "share"}}) == "share"
