from __future__ import annotations

import polars as pl
import pytest
from made_scores import probe
from scenes import made_score, record_of

from duotone.measures.accuracy import last_values, learning_curves
from duotone.measures.curve import Curve
from duotone.measures.factors import Factors
from duotone.measures.generation import Generation
from duotone.measures.groups import Groups
from duotone.measures.panels import Grid, PlainTable
from duotone.measures.probes import probe_numbers, probe_table
from duotone.measures.restyling import Restyling
from duotone.measures.score import Key
from duotone.measures.swaps import Swaps
from duotone.measures.traffic import ledger, traffic


def table_of(measure, scores, **tables) -> PlainTable:
    """Return the first table that a measure shows."""
    section = measure.section(record_of(scores, tables=tables))
    return next(block.table for block in section.blocks if isinstance(block, Grid))


@pytest.fixture
def metrics() -> pl.DataFrame:
    rows = [
        (1, "a", "g", "member", "both", "accuracy", 0.4),
        (1, "b", "h", "member", "both", "accuracy", 0.8),
        (1, "n", "g", "newcomer", "both", "accuracy", 0.1),
        (1, "n", "g", "newcomer", "both", "accuracy@5", 0.3),
        (1, "n", "g", "newcomer", "both", "accuracy@all", 0.5),
        (1, "a", "g", "member", "shared", "bytes_up", 10.0),
        (1, "a", "g", "member", "shared", "bytes_down", 20.0),
        (2, "a", "g", "member", "shared", "bytes_up", 10.0),
        (2, "b", "h", "member", "shared", "bytes_up", 30.0),
        (1, "", "", "member", "shared", "probe.client_from_shared", 0.9),
    ]
    columns = ["round", "client", "group", "kind", "part", "metric", "value"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_curves_are_means_over_clients_with_their_spread(metrics):
    members = learning_curves(metrics, "accuracy").filter(pl.col("kind") == "member")
    row = members.row(0, named=True)
    assert row["mean"] == pytest.approx(0.6)
    assert row["std"] == pytest.approx(0.2)
    assert row["clients"] == 2
    assert learning_curves(metrics, "accuracy", ("kind", "group")).height == 3


def test_the_last_round_has_clients_only(metrics):
    assert last_values(metrics, "accuracy", 1)["client"].to_list() == ["a", "b", "n"]


def test_the_ledger_adds_up_per_round_and_per_client(metrics):
    assert traffic(metrics).rows() == [(1, 1, 10, 20), (2, 2, 40, 0)]
    assert ledger(metrics).rows() == [("a", 2, 20, 20), ("b", 1, 30, 0)]


def test_the_newcomer_curve_keeps_its_order():
    points = {Key("curve", "accuracy", variant=p, role="newcomer"): made_score(0.5) for p in "5a"}
    panel = Curve().section(record_of(points)).blocks[0]
    assert panel.data["point"].to_list() == ["5", "a"]


def test_probes_are_measured_by_r2_where_they_read_numbers():
    scores = {
        **probe("phase", "local", 0.4, 0.0, 0.1, "R²"),
        **probe("label", "shared", 0.9, 0.1, 0.5),
        Key("accuracy", "accuracy"): made_score(1.0),
    }
    table = probe_table(scores)
    assert table["question"].unique(maintain_order=True).to_list() == ["label", "phase"]
    assert table["probe"].to_list()[:3] == ["mlp", "linear", "chance"]
    assert set(table.filter(pl.col("question") == "phase")["measure"]) == {"R²"}
    assert set(table.filter(pl.col("question") == "label")["measure"]) == {"accuracy"}
    numbers = probe_numbers(table)
    assert numbers.rows[0][:3] == ("label from shared", "accuracy", "90.0 % [88.0, 92.0]")
    assert numbers.rows[1][:3] == ("phase from local", "R²", "0.40 [0.38, 0.42]")


def test_scores_that_a_run_does_not_have_make_no_section():
    nothing = record_of({})
    for measure in (Curve(), Factors(), Groups(), Swaps(), Generation(), Restyling()):
        assert measure.section(nothing) is None
    assert probe_table({}).is_empty()


def test_group_scores_stand_beside_plain_fedavg():
    scores = {
        Key("groups", "nmi"): made_score(0.9),
        Key("groups", "nmi", variant="fedavg"): made_score(0.8),
        Key("groups", "ari"): made_score(0.7, low=0.6, high=0.8),
    }
    table = table_of(Groups(), scores)
    assert table.columns == ("score", ">local code", ">plain FedAvg")
    assert table.rows[:2] == (("NMI", "0.90", "0.80"), ("ARI", "0.70 [0.60, 0.80]", "–"))


def test_disentanglement_shows_only_what_was_measured():
    scores = {Key("dims", "mig"): made_score(0.25), Key("parts", "hsic"): made_score(0.1)}
    table = table_of(Factors(), scores)
    assert (table.columns, table.rows) == (("score", ">dimensions"), (("MIG", "0.25"),))
    assert "HSIC 0.10" in table.note


def test_generated_samples_stand_beside_real_ones_and_chance():
    scores = {
        Key("generate", "fd"): made_score(30.0),
        Key("generate", "fd", variant="floor"): made_score(2.0),
        Key("generate", "own_style"): made_score(0.9, low=0.88, high=0.92),
        Key("generate", "own_style", variant="chance"): made_score(0.25),
        Key("generate", "own_style", role="newcomer"): made_score(0.8),
    }
    table = table_of(Generation(), scores, generate={"clients": []})
    assert table.rows == (
        ("Fréchet distance", "30.00", "2.00", "–", "–"),
        ("own style", "0.90 [0.88, 0.92]", "–", "0.25", "0.80"),
    )


def test_re_styled_samples_stand_beside_originals_and_chance():
    scores = {
        Key("restyle", "attacker"): made_score(0.1),
        Key("restyle", "attacker", variant="judge"): made_score(0.9),
        Key("restyle", "attacker", variant="chance"): made_score(0.2),
        Key("restyle", "attacker_informed"): made_score(0.7, low=0.65, high=0.75),
        Key("restyle", "attacker_informed", role="newcomer"): made_score(0.8),
    }
    table = table_of(Restyling(), scores, restyle={"pairs": []})
    assert [row[1:] for row in table.rows] == [
        ("0.10", "0.90", "0.20", "–"),
        ("0.70 [0.65, 0.75]", "–", "–", "0.80"),
    ]
    assert table.note.endswith("Label and style are those of the swaps.")
    kept = {**scores, Key("restyle", "label_kept"): made_score(0.8)}
    assert "swaps" not in table_of(Restyling(), kept, restyle={"pairs": []}).note


def test_a_share_stays_a_share_where_chance_is_nothing():
    """22.5 % accuracy of a probe whose blind guess is never right is no R² of 0.225."""
    table = probe_table(probe("client", "shared", 0.225, 0.0, 0.1))
    assert set(table["measure"]) == {"accuracy"}
    assert probe_numbers(table).rows[0][1:3] == ("accuracy", "22.5 % [20.5, 24.5]")


def test_swaps_say_what_each_of_them_is_measured_by():
    units = {"phase": "cosine", "shade": "R²", "label": "share"}
    scores = {Key("swap", name): made_score(0.5, unit=unit) for name, unit in units.items()}
    pair = {"content_client": "a", "style_client": "b", "label": 0.5, "style": None}
    table = table_of(Swaps(), scores, swap={"matrix": [pair]})
    assert [row[:3] for row in table.rows] == [
        ("label", "accuracy", "0.50"),
        ("phase", "cosine", "0.50"),
        ("shade", "R²", "0.50"),
    ]
