from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from made_scores import probe

from duotone.report.holdings import lines_of_latents
from duotone.report.representations import (
    disentanglement_table,
    generation_table,
    group_table,
    probe_numbers,
    restyle_table,
    swaps_table,
)
from duotone.report.tables import (
    last_values,
    learning_curves,
    ledger,
    newcomer_points,
    probe_table,
    traffic,
)


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


def test_the_newcomer_curve_keeps_its_order(metrics):
    assert newcomer_points(metrics, "accuracy")["point"].to_list() == ["5", "all"]


def test_probes_are_read_from_their_names_and_measured_by_r2_where_chance_is_zero():
    scores = {
        **probe("phase_from_local", 0.4, 0.0, 0.1, "R²"),
        **probe("label_from_shared", 0.9, 0.1, 0.5),
        "member.accuracy": {"value": 1.0, "n": 3},
    }
    table = probe_table(scores)
    assert table["question"].unique(maintain_order=True).to_list() == ["label", "phase"]
    assert table["probe"].to_list()[:3] == ["mlp", "linear", "chance"]
    assert set(table.filter(pl.col("question") == "phase")["measure"]) == {"R²"}
    assert set(table.filter(pl.col("question") == "label")["measure"]) == {"accuracy"}
    numbers = probe_numbers(table)
    assert numbers.rows[0][:3] == ("label from shared", "accuracy", "90.0 % [88.0, 92.0]")
    assert numbers.rows[1][:3] == ("phase from local", "R²", "0.40 [0.38, 0.42]")


def test_scores_that_a_run_does_not_have_make_no_table():
    assert disentanglement_table({}) is None
    assert group_table({}) is None
    assert probe_table({}).is_empty()


def test_group_scores_stand_beside_plain_fedavg():
    scores = {
        "groups.nmi": {"value": 0.9},
        "groups.nmi.fedavg": {"value": 0.8},
        "groups.ari": {"value": 0.7, "low": 0.6, "high": 0.8},
    }
    table = group_table(scores)
    assert table is not None
    assert table.columns == ("score", ">local code", ">plain FedAvg")
    assert table.rows[:2] == (("NMI", "0.90", "0.80"), ("ARI", "0.70 [0.60, 0.80]", "–"))


def test_disentanglement_shows_only_what_was_measured():
    table = disentanglement_table({"dims.mig": {"value": 0.25}, "parts.hsic": {"value": 0.1}})
    assert table is not None
    assert (table.columns, table.rows) == (("score", ">dimensions"), (("MIG", "0.25"),))
    assert "HSIC 0.10" in table.note


def latents(label: list) -> dict[str, np.ndarray]:
    return {
        "client": np.array(["a", "a", "b", "b", "a", "b", "n"]),
        "group": np.array(["g"] * 7),
        "kind": np.array(["member"] * 6 + ["newcomer"]),
        "split": np.array(["train"] * 4 + ["test"] * 2 + ["train"]),
        "label": np.array(label),
    }


def test_saved_codes_still_know_who_holds_which_labels():
    lines, heading = lines_of_latents(latents([0, 1, 1, 1, 0, 0, 0]))
    assert heading == "label"
    assert [(line.name, line.role) for line in lines] == [
        ("a", "member"),
        ("b", "member"),
        ("n", "newcomer"),
    ]
    np.testing.assert_allclose(lines[0].shares, [0.5, 0.5])
    np.testing.assert_allclose(lines[1].shares, [0, 1])
    assert lines[0].sizes.tolist() == [2]


def test_generated_samples_stand_beside_real_ones_and_chance():
    assert generation_table({"swap.label": {"value": 1}}) is None
    scores = {
        "generate.fd": {"value": 30.0},
        "generate.fd.floor": {"value": 2.0},
        "generate.own_style": {"value": 0.9, "low": 0.88, "high": 0.92},
        "generate.own_style.chance": {"value": 0.25},
        "generate.own_style.newcomers": {"value": 0.8},
    }
    table = generation_table(scores)
    assert table is not None
    assert table.rows == (
        ("Fréchet distance", "30.00", "2.00", "–", "–"),
        ("own style", "0.90 [0.88, 0.92]", "–", "0.25", "0.80"),
    )


def test_re_styled_samples_stand_beside_originals_and_chance():
    assert restyle_table({"swap.label": {"value": 1}}) is None
    scores = {
        "restyle.attacker": {"value": 0.1},
        "restyle.attacker.judge": {"value": 0.9},
        "restyle.attacker.chance": {"value": 0.2},
        "restyle.attacker_informed": {"value": 0.7, "low": 0.65, "high": 0.75},
        "restyle.attacker_informed.newcomers": {"value": 0.8},
    }
    table = restyle_table(scores)
    assert [row[1:] for row in table.rows] == [
        ("0.10", "0.90", "0.20", "–"),
        ("0.70 [0.65, 0.75]", "–", "–", "0.80"),
    ]
    assert table.note.endswith("Label and style are those of the swaps.")
    kept = {**scores, "restyle.label_kept": {"value": 0.8}}
    assert "swaps" not in restyle_table(kept).note


def test_a_share_stays_a_share_where_chance_is_nothing():
    """22.5 % accuracy of a probe whose blind guess is never right is no R² of 0.225."""
    table = probe_table(probe("client_from_shared", 0.225, 0.0, 0.1))
    assert set(table["measure"]) == {"accuracy"}
    assert probe_numbers(table).rows[0][1:3] == ("accuracy", "22.5 % [20.5, 24.5]")


def test_an_old_run_that_does_not_say_what_a_probe_measured_is_shown_as_a_plain_score():
    scores = probe("phase_from_local", 0.4, 0.0, 0.1)
    for score in scores.values():
        del score["unit"]
    table = probe_table(scores)
    assert set(table["measure"]) == {"score"}
    assert probe_numbers(table).rows[0][1:3] == ("score", "0.40 [0.38, 0.42]")


def test_swaps_say_what_each_of_them_is_measured_by():
    value = {"value": 0.5, "std": 0.0, "direction": "higher", "n": 9}
    units = {"phase": "cosine", "shade": "R²", "label": "share"}
    scores = {f"swap.{name}": {**value, "unit": unit} for name, unit in units.items()}
    table = swaps_table(scores)
    assert [row[:3] for row in table.rows] == [
        ("label", "accuracy", "0.50"),
        ("phase", "cosine", "0.50"),
        ("shade", "R²", "0.50"),
    ]
