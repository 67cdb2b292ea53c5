from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

STUDY = """
title = "Two methods"
seeds = [0, 1]
methods = ["local", "fedavg"]

[settings]
data = "mini-digits"
model = "mlp"
rounds = 2
sampled = 2
backend = "serial"
latents = 0

[settings.partition]
scheme = "iid"
clients = 4
newcomers = 1
max_train = 40

[settings.method]
epochs = 1
"""


@pytest.fixture
def file(folder):
    (folder / "two.toml").write_text(STUDY)
    return folder / "two.toml"


def test_a_study_shows_tables_and_writes_them(cli, folder, file):
    done = cli("study", "two.toml")
    for word in ("members accuracy %", "Against fedavg", "exploratory", "study.md"):
        assert word in done.stdout
    assert "AUC" not in done.stdout, "a terminal has no room for it"
    assert "members AUC %" in (folder / "runs/two/study.md").read_text(encoding="utf-8")
    assert "[1/4] local seed 0: members" in done.stderr
    assert "study: about" in done.stderr
    assert "[4/4] fedavg seed 1" in done.stderr
    again = cli("study", "two.toml", "--json")
    assert "(finished before)" in again.stderr
    results = json.loads(again.stdout)
    assert results == json.loads((folder / "runs/two/study.json").read_text(encoding="utf-8"))
    assert results["entries"][0]["scores"]["member.accuracy"]["n"] == 2
    assert cli("study", "two.toml", "-q").stderr == ""


def test_compare_pools_the_seeds_of_a_study(cli, file):
    cli("study", "two.toml", "--out", "s", "-q")
    shown = cli("compare", "s").stdout
    assert "Against fedavg" in shown
    assert "0, 1" in shown
    results = json.loads(cli("compare", "s", "--reference", "fedavg", "--json").stdout)
    assert [entry["seeds"] for entry in results["entries"]] == [[0, 1], [0, 1]]
    assert results["comparisons"][0]["entry"] == "local"
    single = cli("compare", "s/local/seed0", "s/fedavg/seed0").stdout
    assert "local seed 0 (s/local/seed0)" in single
    rows = json.loads(cli("compare", "s/local/seed0", "s/fedavg/seed0", "--json").stdout)
    assert [row["method"] for row in rows] == ["local", "fedavg"]
    mixed = cli("compare", "s/local/seed0", "s/fedavg/seed1").stdout
    assert "fedavg seed 1" in mixed, "no entry has two seeds, so nothing is pooled"
    said = cli("compare", "s", "--reference", "fedagv", code=2)
    assert "Did you mean 'fedavg'" in said.stderr


def test_compare_leaves_out_what_lost_the_search(cli, folder, file):
    file.write_text(STUDY + "[search]\nlr = [1e-6, 0.3]\n")
    results = json.loads(cli("study", "two.toml", "--out", "s", "-q", "--json").stdout)
    compared = json.loads(cli("compare", "s", "--json").stdout)
    assert compared["entries"][1]["scores"] == results["entries"][1]["scores"]
    assert len(compared["entries"]) == 2
    assert len(list(folder.glob("s/*/*/seed*/run.json"))) == 8


def test_a_dry_run_lists_the_runs_and_trains_nothing(cli, folder, file):
    rows = json.loads(cli("study", "two.toml", "--dry-run", "--json").stdout)
    assert [(row["entry"], row["seed"], row["status"]) for row in rows] == [
        ("local", 0, "to do"),
        ("fedavg", 0, "to do"),
        ("local", 1, "to do"),
        ("fedavg", 1, "to do"),
    ]
    assert not (folder / "runs").exists()
    cli("study", "two.toml", "-q")
    assert "4 runs, 4 of them finished." in cli("study", "two.toml", "--dry-run").stdout


def test_a_changed_setting_is_refused(cli, file):
    cli("study", "two.toml", "-q")
    file.write_text(STUDY.replace("epochs = 1", "epochs = 2"))
    said = cli("study", "two.toml", code=1)
    assert (
        "was made with method.epochs = 1, but the study now says method.epochs = 2" in said.stderr
    )


def test_all_mistakes_are_reported_at_once(cli, folder, file):
    file.write_text(
        STUDY + '[entries.a]\nmethod = "fedagv"\n[entries.b.method]\nname = "local"\nlrr = 1'
    )
    said = cli("study", "two.toml", code=2)
    assert "2 settings are wrong" in said.stderr
    assert "a: Unknown method 'fedagv'. Did you mean 'fedavg'?" in said.stderr
    assert "b: The method 'local' has no setting method.lrr. Did you mean 'lr'?" in said.stderr
    assert not (folder / "runs").exists()
    assert "no configuration file none.toml" in cli("study", "none.toml", code=2).stderr


def test_a_failing_run_is_named_and_the_others_are_shown(cli, file):
    file.write_text(STUDY + '[entries.wild.method]\nname = "fedavg"\nlr = 1e30\n')
    said = cli("study", "two.toml", code=1)
    assert "2 of 6 runs failed (wild, seed 0: Round 1" in said.stderr
    assert "Against fedavg" in said.stdout


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_study_continues(cli, folder, file, stop):
    file.write_text(STUDY.replace("rounds = 2", "rounds = 30").replace("[0, 1]", "[0]"))
    manifest = folder / "runs/two/fedavg/seed0/checkpoints/manifest.json"
    with subprocess.Popen(
        [sys.executable, "-m", "duotone", "study", "two.toml", "-q"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not manifest.exists() or json.loads(manifest.read_text())["round"] < 1:
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(stop)
        said = process.stderr.read()
    if stop == signal.SIGINT:
        assert process.returncode == 130
        assert "Continue with: duotone study two.toml" in said
    stopped = json.loads(manifest.read_text())["round"]
    assert 1 <= stopped < 30
    again = cli("study", "two.toml")
    assert f"fedavg on mini-digits: 3 members, 1 newcomer, 30 rounds, from round {stopped}" in (
        again.stderr
    )
    assert "local seed 0" in again.stderr
    assert "(finished before)" in again.stderr


def test_the_commands_import_no_torch_before_they_need_it():
    script = (
        "import sys, duotone.cli;"
        "sys.exit(any(m in sys.modules for m in ('torch', 'scipy', 'polars', 'pydantic')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize(("named", "meant"), [("", "fedavg"), ('reference = "local"', "local")])
def test_study_compare_and_report_have_one_reference(cli, file, folder, named, meant):
    file.write_text(named + STUDY.replace("rounds = 2", "rounds = 1"))
    assert json.loads(cli("study", "two.toml", "--json", "-q").stdout)["reference"] == meant
    assert json.loads(cli("compare", "runs/two", "--json").stdout)["reference"] == meant
    cli("report", "runs/two")
    assert f"Against {meant}" in (folder / "runs" / "two" / "report.html").read_text()
    asked = cli("compare", "runs/two", "--reference", "local", "--json").stdout
    assert json.loads(asked)["reference"] == "local"
    loose = ["runs/two/local", "runs/two/fedavg"]
    assert json.loads(cli("compare", *loose, "--json").stdout)["reference"] == "fedavg"
