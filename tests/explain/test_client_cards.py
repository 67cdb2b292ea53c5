"""Cards of a client and of the whole federation."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import duotone


def test_a_client_card_says_what_is_typical(ruled):
    card = ruled.card("c1")
    population = ruled.client("c1").opened.plan.population
    labels = population.data("c1").labels.numpy()
    for number, habit in enumerate(card.habits):
        assert habit.held == pytest.approx((labels == number).mean())
    assert sum(habit.own for habit in card.habits) == pytest.approx(1)
    # Clients of its group answer most like it: c1, c4, c7, c10.
    assert {name for name, _ in card.nearest} == {"c4", "c7", "c10"}
    assert not {name for name, _ in card.farthest} & {"c4", "c7", "c10"}
    assert max(card.flips[name] for name in ("c4", "c7", "c10")) < card.flips["c2"]
    for name, row in card.prototypes:
        assert labels[row] == int(name)
    assert "It answers most like" in str(card)
    json.dumps(card.as_json())
    assert "What is typical of client c1" in card.html()


def test_a_newcomer_has_a_card(ruled):
    card = ruled.card("c11")
    assert card.role == "newcomer"
    assert card.nearest


def test_the_shared_model_stands_beside_a_client_where_there_is_one(alike, ruled):
    assert alike.card("c0").unlike_shared == 0
    assert ruled.card("c0").unlike_shared is None


def test_the_federation_card_shares_out_the_variance(ruled, alike):
    card = ruled.card()
    values = np.array(list(card.shares.values()))
    assert values[:, 0].sum() == pytest.approx(1)
    assert (values[:, 1] <= values[:, 0]).all()
    assert (values[:, 0] <= values[:, 2]).all()
    assert card.shares["reading"][0] > 0.2
    flips = list(card.flips.values())
    assert flips[1] < 0.1 < 0.3 < flips[2]
    assert "all clients answer alike" in str(alike.card())
    assert alike.card().shares["sample"][0] == pytest.approx(1)


def test_unknown_clients_and_unfinished_runs_are_refused(ruled, tmp_path):
    with pytest.raises(duotone.UnknownNameError, match="no client 'zz'"):
        ruled.card("zz")
    copy = shutil.copytree(ruled.path, tmp_path / "copy")
    facts = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps({**facts, "status": "interrupted"}))
    run = duotone.load_run(copy)
    for ask in (run.card, lambda: run.card("c0"), lambda: run.client("c0").explain(sample=0)):
        with pytest.raises(duotone.RunError, match="is interrupted; finish it first: duotone res"):
            ask()


def test_names_cannot_become_part_of_the_page(ruled):
    from dataclasses import replace

    card = replace(ruled.card("c1"), client="<script>alert(1)</script>")
    assert "<script>" not in card.html()
