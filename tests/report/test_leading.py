from __future__ import annotations

from typing import Any

import pytest

from duotone.report.leading import headline, leads_of


def entry(name: str, *seeds: float, role: str = "member", metric: str = "accuracy") -> dict:
    """An entry whose two clients lie a tenth below and above its mean in each seed."""
    values = {
        str(seed): {"clients": ["a", "b"], metric: [mean - 0.1, mean + 0.1]}
        for seed, mean in enumerate(seeds)
    }
    scores = {f"{role}.{metric}": {"mean": sum(seeds) / len(seeds)}}
    return {"name": name, "seeds": [*range(len(seeds))], "scores": scores, "values": {role: values}}


def results(*entries: dict, metric: str = "accuracy") -> dict[str, Any]:
    return {"headline": metric, "entries": list(entries)}


def test_a_leader_whom_noise_could_overtake_is_level_with_the_next():
    # Differences of the seeds: +2, −1, +3 and +2 points; 95 % interval from −1.2 to 4.2.
    close = results(
        entry("x", 0.62, 0.59, 0.63, 0.62),
        entry("y", 0.60, 0.60, 0.60, 0.60),
        entry("z", *[0.3] * 4),
    )
    (lead,) = leads_of(close)
    assert lead.sentence == "For members x (61.5 %) and y (60.0 %) are level, then z (30.0 %)."
    assert (lead.tile.label, lead.tile.value) == ("highest for members", "61.5 %")
    assert lead.tile.note == "x, level with y"
    assert "no more than noise is between them" in headline(close, "")


def test_a_leader_by_the_same_in_every_seed_stands_alone_however_little_it_is():
    # The seeds themselves lie far apart, but x is ahead of y in each by 1 to 1.4 points.
    clear = results(entry("y", 0.2, 0.5, 0.8), entry("x", 0.21, 0.512, 0.814))
    (lead,) = leads_of(clear)
    assert lead.sentence == "For members x is highest (51.2 %), then y (50.0 %)."
    assert lead.tile.note == "x"
    assert headline(clear, "").endswith("which differences are more than noise.")


def test_one_seed_shows_no_lead_within_the_printed_digit():
    (lead,) = leads_of(results(entry("x", 0.61234), entry("y", 0.61229), entry("z", 0.611)))
    assert lead.sentence == "For members x (61.2 %) and y (61.2 %) are level, then z (61.1 %)."
    said = headline(results(entry("x", 0.7), entry("y", 0.6)), "")
    assert said == (
        "For members x is highest (70.0 %), then y (60.0 %). "
        "One seed each, so another may rank them differently."
    )


def test_an_error_is_better_when_it_is_lower():
    (lead,) = leads_of(
        results(entry("x", 0.5, metric="mse"), entry("y", 0.4, metric="mse"), metric="mse")
    )
    assert lead.sentence == "For members y is lowest (0.4000), then x (0.5000)."


def test_of_many_that_are_level_three_are_named():
    (lead,) = leads_of(results(*(entry(name, 0.5) for name in "vwxyz")))
    assert lead.sentence == ("For members v (50.0 %), w (50.0 %), x (50.0 %) and 2 more are level.")
    assert lead.tile.note == "v, level with 4 others"


@pytest.mark.parametrize("difference", ["", "data digits against mnist"])
def test_nobody_leads_where_nothing_was_scored_or_is_comparable(difference):
    entries = [entry(name, 0.5, role="other") for name in "xy"]
    said = headline(results(*entries), difference)
    assert "highest" not in said
    assert said.startswith("2 entries beside each other")
