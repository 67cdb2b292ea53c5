from __future__ import annotations

import json

import polars as pl
import pytest

import duotone
from duotone.federation.system import System, SystemSettings
from duotone.measures.waiting import by_round, class_table, total_times

TIME = {"a": 1.0, "b": 1.0, "c": 4.0}
SPEED = {"a": 1.0, "b": 1.0, "c": 4.0}
FASTEST = {"a": 1.0, "b": 1.0, "c": 1.0}


def system(**settings):
    return System(SystemSettings(**settings), 0, SPEED, TIME, FASTEST)


METRICS = pl.DataFrame(
    [
        (1, "a", "bytes_up"),
        (1, "a", "train_loss"),
        (1, "b", "dropped_out"),
        (1, "c", "bytes_up"),
        (2, "a", "bytes_up"),
        (2, "b", "refused"),
        (2, "c", "late"),
    ],
    schema=["round", "client", "metric"],
    orient="row",
)


def test_who_was_drawn_is_read_off_the_tidy_table():
    assert by_round(METRICS) == {
        1: {"a": "answered", "b": "dropped_out", "c": "answered"},
        2: {"a": "answered", "b": "answered", "c": "late"},
    }


def test_speed_classes_by_hand():
    fast, slow = class_table(system(speeds=(1, 4)), by_round(METRICS))
    assert fast == {
        "speed": 1.0, "members": 2, "drawn": 4, "answered": 3, "dropped_out": 1, "late": 0,
        "time": 3.0,
    }  # fmt: skip
    assert slow == {
        "speed": 4.0, "members": 1, "drawn": 2, "answered": 1, "dropped_out": 0, "late": 1,
        "time": 4.0,
    }  # fmt: skip


def test_times_by_hand():
    # The slow member is waited for in round 1, and dropped out of round 2.
    assert total_times(system(speeds=(1, 4)), by_round(METRICS)) == (5.0, 2.0)
    assert total_times(system(speeds=(1, 4), deadline=3), by_round(METRICS)) == (6.0, 2.0)


def test_a_run_says_who_was_absent_and_what_it_cost(tmp_path):
    settings = {
        "data": "mini-digits",
        "rounds": 3,
        "model": "linear",
        "backend": "serial",
        "latents": 0,
        "curve": [],
        "partition": {"scheme": "iid", "clients": 6, "newcomers": 1},
        "method": "fedavg",
    }
    system = {"dropout": 0.3, "speeds": [1, 4], "shares": [0.6, 0.4]}
    run = duotone.run({**settings, "system": system}, out=tmp_path / "run")
    table = json.loads((tmp_path / "run" / "waiting.json").read_text(encoding="utf-8"))
    assert [row["members"] for row in table["classes"]] == [3, 2]
    absent = sum(row["dropped_out"] for row in table["classes"])
    assert absent == sum(map(len, table["absent"].values()))
    assert absent > 0
    scores = run.summary["scores"]
    assert scores["waiting.lost"]["value"] == pytest.approx(absent / 15)
    assert scores["waiting.slowdown"]["value"] == pytest.approx(table["time"] / table["fastest"])
    assert table["time"] > 1.5 * table["fastest"]
    page = run.report().read_text(encoding="utf-8")
    assert "Slow and absent members" in page
    assert "system" in (tmp_path / "run" / "config.toml").read_text(encoding="utf-8")
    duotone.run(settings, out=tmp_path / "plain")
    assert not (tmp_path / "plain" / "waiting.json").exists()
    assert "system" not in (tmp_path / "plain" / "config.toml").read_text(encoding="utf-8")
