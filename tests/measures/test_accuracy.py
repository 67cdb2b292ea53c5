from __future__ import annotations

import polars as pl
import pytest

from duotone.measures.accuracy import selected_round, summarise


def table(rows):
    return pl.DataFrame(
        [(r, c, "g", k, "both", m, v) for r, c, k, m, v in rows],
        schema=["round", "client", "group", "kind", "part", "metric", "value"],
        orient="row",
    )


ROWS = [
    (5, "a", "member", "accuracy", 0.9),
    (5, "b", "member", "accuracy", 0.7),
    (5, "n", "newcomer", "accuracy", 0.5),
    (5, "a", "member", "val_accuracy", 0.8),
    (5, "b", "member", "val_accuracy", 0.8),
    (10, "a", "member", "accuracy", 1.0),
    (10, "b", "member", "accuracy", 0.4),
    (10, "n", "newcomer", "accuracy", 0.6),
    (10, "a", "member", "val_accuracy", 0.9),
    (10, "b", "member", "val_accuracy", 0.5),
    (10, "n", "newcomer", "val_accuracy", 1.0),
    (10, "a", "member", "train_loss", 0.1),
]


def test_the_last_round_is_reported_and_the_selected_one_beside_it():
    scores = summarise(table(ROWS))
    assert scores["member.accuracy"].value == pytest.approx(0.7)
    assert scores["member.accuracy"].std == pytest.approx(0.3)
    assert scores["member.accuracy"].n == 2
    assert scores["member.accuracy.selected"].value == pytest.approx(0.8)
    assert scores["newcomer.accuracy"].value == 0.6
    assert scores["newcomer.accuracy.selected"].value == 0.5
    assert scores["member.worst"].value == 0.4
    assert "member.train_loss" not in scores


@pytest.mark.parametrize(("metric", "good", "bad"), [("accuracy", 0.8, 0.7), ("mse", 0.7, 0.8)])
def test_the_round_is_selected_by_the_members_validation_data_alone(metric, good, bad):
    # Everything else is in favour of round 10: members' test scores, newcomers', another metric.
    rows = [
        *[(5, client, "member", f"val_{metric}", good) for client in "ab"],
        *[(10, client, "member", f"val_{metric}", bad) for client in "ab"],
        *[(5, client, "member", metric, bad) for client in "ab"],
        *[(10, client, "member", metric, good) for client in "ab"],
        *[(5, client, "newcomer", f"val_{metric}", 3 * bad - 2 * good) for client in "nmo"],
        *[(10, client, "newcomer", f"val_{metric}", 3 * good - 2 * bad) for client in "nmo"],
        *[(5, client, "member", "val_auc", 0.1) for client in "ab"],
        *[(10, client, "member", "val_auc", 0.9) for client in "ab"],
    ]
    assert selected_round(table(rows)) == 5


def test_the_earliest_of_equal_rounds_is_selected():
    rows = [(r, "a", "member", m, 0.5) for r in (5, 10) for m in ("accuracy", "val_accuracy")]
    assert selected_round(table(rows)) == 5


def test_without_validation_data_nothing_is_selected():
    rows = [row for row in ROWS if not row[3].startswith("val_")]
    assert selected_round(table(rows)) is None
    assert "member.accuracy.selected" not in summarise(table(rows))


def test_worst_decile_is_the_mean_of_the_worst_tenth():
    rows = [(1, str(i), "member", "accuracy", i / 100) for i in range(25)]
    assert summarise(table(rows))["member.worst_decile"].value == pytest.approx(0.005)


def test_for_errors_the_worst_client_is_the_one_with_the_largest():
    rows = [(1, str(i), "member", "mse", float(i)) for i in range(4)]
    scores = summarise(table(rows))
    assert scores["member.worst"].value == 3.0
    assert scores["member.mse"].direction == "lower"


def test_an_empty_table_has_no_scores():
    assert summarise(table([(1, "a", "member", "train_loss", 0.1)])) == {}
