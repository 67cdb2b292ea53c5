from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.main import get_command

from duotone.cli.app import app

pytestmark = pytest.mark.usefixtures("brief_measures")

SMALL = [
    *("--data", "mini-digits", "--partition", "iid", "--clients", "4", "--rounds", "3"),
    *("--sampled", "2", "--set", "model=mlp", "--set", "partition.newcomers=1"),
    *("--set", "epochs=1", "--set", "backend=serial"),
]


def test_run_show_compare_and_list(cli, folder):
    done = cli("run", "fedavg", *SMALL, "--out", "a")
    assert "members accuracy" in done.stdout
    assert "Run folder: a" in done.stdout
    assert "round 3/3" in done.stderr, "without a terminal, a plain line per evaluation"
    cli("run", "local", *SMALL, "--out", "b", "-q")

    shown = cli("show", "a").stdout
    assert "finished" in shown
    assert "newcomer.accuracy" in shown
    listed = json.loads(cli("runs", ".", "--json").stdout)
    assert [row["method"] for row in listed] == ["fedavg", "local"]
    table = cli("compare", "a", "b").stdout
    assert "fedavg seed 0" in table
    assert "local seed 0" in table
    again = cli("resume", "a")
    assert "Run folder: a" in again.stdout


def test_json_is_the_only_thing_on_standard_output(cli):
    done = cli("run", "fedavg", *SMALL, "--out", "a", "--json")
    content = json.loads(done.stdout)
    assert content["run"] == "a"
    assert 0 <= content["scores"]["member.accuracy"]["value"] <= 1


def test_several_seeds_make_several_runs(cli):
    done = cli("run", "fedavg", *SMALL, "--seeds", "0-1", "--out", "s", "--json", "-q")
    content = json.loads(done.stdout)
    assert [item["run"] for item in content] == ["s/seed0", "s/seed1"]
    assert done.stderr == ""


def test_dry_run_shows_the_resolved_configuration_and_trains_nothing(cli, folder):
    done = cli("run", "fedavg", *SMALL, "--dry-run", "--set", "lr=0.05")
    assert "lr = 0.05" in done.stdout
    assert "# shared: 8,970 parameters" in done.stdout
    assert list(folder.iterdir()) == []
    (folder / "c.toml").write_text(done.stdout)
    again = cli("run", "--config", "c.toml", "--dry-run").stdout.splitlines()
    expected = [line for line in done.stdout.splitlines() if line.startswith("# about ")]
    assert expected[0].endswith("; what is measured at the end comes on top")
    assert "of memory" in expected[1]
    config = set(done.stdout.splitlines()) - set(expected)
    assert config <= set(again)


def test_a_dry_run_forecasts_time_and_memory_for_machines(cli):
    done = cli("run", "fedavg", *SMALL, "--dry-run", "--json")
    found = json.loads(done.stdout)["forecast"]
    assert found["training"] > 0
    assert found["evaluation"] > 0
    assert found["processes"] >= 1
    said = cli("run", "fedavg", *SMALL, "--dry-run", "--seeds", "0-1").stdout
    assert " for 2 runs on this machine" in said


def test_partition_previews_in_numbers_and_as_a_picture(cli, folder):
    done = cli("partition", "--data", "digits", "--partition", "dirichlet", "--clients", "10")
    assert "label shift" in done.stdout
    assert (folder / "partition.png").read_bytes().startswith(b"\x89PNG")


def test_methods_datasets_doctor_and_version_answer(cli):
    assert "fedavg-ft" in cli("methods").stdout
    assert "finetune_epochs" in cli("methods", "fedavg-ft").stdout
    about = cli("methods", "fedbn", "--data", "mini-digits").stdout
    for word in ("ICLR 2021", "norm1, norm2, norm3", "448", "label-free", "not zero-shot"):
        assert word in about
    assert "rendered-digits" in cli("datasets").stdout
    assert cli("--version").stdout.startswith("duotone ")
    checks = json.loads(cli("doctor", "--json").stdout)
    assert checks["a worker process"].startswith("starts in")


def test_help_has_examples_and_imports_no_torch(cli):
    assert "duotone run fedavg --data digits" in cli("run", "--help").stdout
    script = (
        "import sys, duotone, duotone.cli;"
        "sys.exit(any(m in sys.modules for m in ('torch', 'sklearn', 'polars', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_looking_around_and_at_runs_loads_no_torch(cli):
    told = "--data mini-digits --partition iid --clients 3 --rounds 1 --out done"
    cli("run", "fedavg", *told.split(" "))
    script = (
        "import sys\nfrom duotone.cli import main\n"
        "for words in ('methods', 'datasets', 'runs .', 'show done'):\n"
        "    sys.argv = ['duotone', *words.split()]\n"
        "    try:\n        main()\n    except SystemExit as end:\n        assert not end.code\n"
        "    loaded = {'torch', 'sklearn', 'scipy', 'plotly', 'matplotlib'} & set(sys.modules)\n"
        "    assert not loaded, (words, loaded)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert "Clients, worst first" in said.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["run", "fedagv"], 2, "Did you mean 'fedavg'"),
        (["run"], 2, "No method was named"),
        (["run", "fedavg", "--data", "mnits"], 2, "Did you mean 'mnist'"),
        (["run", "fedavg", "--set", "lrr=1"], 2, "Did you mean 'lr'"),
        (["run", "fedavg", "--set", "lr"], 2, "key=value"),
        (["run", "fedavg", "--set", "partition.alpha=-1"], 2, "partition.alpha = -1"),
        (["run", "fedavg", "--clients", "100000"], 2, "clients"),
        (["run", "fedavg", "--rounds", "0"], 2, "rounds = 0"),
        (["run", "fedavg", "--seeds", "2-0"], 2, "--seeds takes"),
        (["run", "fedavg", "--data", "broken.npz"], 2, "broken.npz"),
        (["run", "fedavg", "--data", "nan.npz"], 2, "NaN"),
        (["run", "fedavg", "--data", "rows.npz"], 2, "samples"),
        (["run", "fedavg", "--data", "labels.npz"], 2, "labels"),
        (["run", "fedavg", "--config", "missing.toml"], 2, "missing.toml"),
        (["run", "fedavg", "--roundz", "3"], 2, "--rounds"),
        (["rum"], 2, "run"),
        (["resume", "nowhere"], 1, "no run folder"),
        (["show", "."], 1, "not the folder of a run"),
    ],
)
def test_mistakes_get_one_clear_line_and_the_right_exit_code(cli, folder, arguments, code, word):
    x, y = np.zeros((40, 3), np.float32), np.arange(40) % 2
    good = {"x_train": x, "y_train": y, "x_test": x, "y_test": y}
    np.savez(folder / "good.npz", **good)
    content = (folder / "good.npz").read_bytes()
    (folder / "broken.npz").write_bytes(content[: len(content) // 2])
    np.savez(folder / "nan.npz", **{**good, "x_train": np.full_like(x, np.nan)})
    np.savez(folder / "rows.npz", **{**good, "y_train": y[:-1]})
    np.savez(folder / "labels.npz", **{**good, "y_train": y - 1})
    said = cli(*arguments, code=code)
    assert word in said.stderr
    assert said.stdout == ""
    assert not (folder / "runs").exists(), "nothing was begun"


SETTINGS_WRONG = {
    "no such file": ("--data nowhere.npz", "no file or folder 'nowhere.npz'"),
    "no such style": ("--style mark", "Did you mean 'marks'"),
    "no such model": ("--model cnnbn", "Did you mean 'cnn-bn'"),
    "a setting of the run": ("--rounds 0", "rounds = 0"),
    "a setting of the partition": ("--partition groups --set partition.alpha=-1", "alpha = -1"),
    "a setting of the method": ("--set lr=fast", "method.lr = 'fast'"),
    "a setting nobody has": ("--set epoch=3", "Did you mean 'epochs'"),
    "two settings that disagree": (
        "--set partition.max_train=3",
        "partition.max_train = 3 is below partition.min_train = 10",
    ),
    "what the method cannot do": ("--set newcomers=zero-shot", "cannot serve newcomers zero-shot"),
    "no assignment": ("--set oops", "key=value"),
    "no seeds": ("--seeds 2-0", "--seeds takes"),
}
ASKED_TOO_MUCH = {
    "too many per round": ("--sampled 9", "only 4 members"),
    "a model for other data": ("--model cnn --data planted-table", "--set model=mlp"),
    "a setting of the run": ("--set evaluate_every=0", "evaluate_every = 0"),
    "a setting of the method": ("--set lr=-1", "method.lr = -1"),
    "no GPU": ("--device cuda", "no GPU"),
}


@pytest.mark.parametrize(
    ("wrong", "rest"),
    [
        (SETTINGS_WRONG, ["local"]),
        (ASKED_TOO_MUCH, ["fedavg", "--partition", "iid", "--clients", "4"]),
    ],
    ids=["settings", "data"],
)
def test_everything_that_is_wrong_is_said_at_once(cli, folder, monkeypatch, wrong, rest):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    arguments = [word for given, _ in wrong.values() for word in given.split()]
    said = cli("run", *rest, *arguments, code=2).stderr
    assert f"{len(wrong)} settings are wrong" in said
    lines = said.splitlines()[1:]
    for what, (_, words) in wrong.items():
        assert sum(words in line for line in lines) == 1, f"{what}: {said}"
    assert list(folder.iterdir()) == []


def test_a_preview_says_everything_at_once_too(cli):
    arguments = [
        "--style",
        "mark",
        "--data",
        "nowhere.npz",
        "--set",
        "partition.alpha=-1",
        "--seed",
        "-1",
    ]
    assert "4 settings are wrong" in cli("partition", *arguments, code=2).stderr


def test_debug_shows_the_traceback(cli, shell):
    assert "Traceback" in shell("run", "fedagv", "--debug", code=1).stderr
    assert "Traceback" not in cli("run", "fedagv", code=2).stderr


def test_ctrl_c_saves_and_says_how_to_go_on(cli, folder):
    slow = [*SMALL, "--rounds", "500", "--out", "a"]
    with subprocess.Popen(
        [sys.executable, "-m", "duotone", "run", "fedavg", *slow],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        manifest = folder / "a" / "checkpoints" / "manifest.json"
        while not manifest.exists() or json.loads(manifest.read_text())["round"] < 1:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert "duotone resume a" in said
    assert json.loads(manifest.read_text())["round"] < 500
    assert json.loads(cli("show", "a", "--json").stdout)["status"] == "interrupted"


def test_ctrl_c_twice_says_what_is_saved_and_how_to_go_on(folder, cli):
    """The second one comes while a round is computed that will not end."""
    (folder / "slow.py").write_text(SLOW_NET)
    command = ["run", "fedavg", *SMALL, "--set", "model=slow:Net", "--out", "a"]
    with subprocess.Popen(
        [sys.executable, "-m", "duotone", *command], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (folder / "waiting").exists():
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None, "the first one waits for the round"
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert "Stopped at once. The run is saved up to round 1. Resume with: duotone resume a" in said
    assert "Traceback" not in said
    assert json.loads(cli("show", "a", "--json").stdout)["status"] == "interrupted"


def test_ctrl_c_in_any_command_is_answered(cli, monkeypatch):
    def stopped():
        raise KeyboardInterrupt

    monkeypatch.setattr("duotone.data.describe_datasets", stopped)
    assert "Stopped at once" in cli("datasets", code=130).stderr


def test_a_file_called_like_a_library_is_not_taken_for_it_by_workers(folder):
    """Neither is a module beside the user out of reach: the model is one."""
    (folder / "numpy.py").write_text("raise RuntimeError('this is not the library')\n")
    (folder / "nets.py").write_text(OWN_NET)
    command = ["run", "fedavg", *SMALL, "--set", "model=nets:Net", "--set", "backend=processes"]
    done = subprocess.run(
        # -P stands for the installed command, which does not look beside the user first either.
        [sys.executable, "-P", "-m", "duotone", *command, "--set", "workers=1", "--out", "a"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "one process" not in done.stderr


OWN_NET = """
from torch.nn import Linear


class Net(Linear):
    def __init__(self):
        super().__init__(64, 10)

    def forward(self, x):
        return super().forward(x.flatten(1))
"""
SLOW_NET = f"""
import time
from pathlib import Path
{OWN_NET}
    def train(self, mode=True):
        if list(Path("a/checkpoints").glob("server-*")):  # a round is committed
            Path("waiting").touch()
            time.sleep(60)
        return super().train(mode)
"""


def leaves(command, path=()):
    """Yield every command with its name."""
    for name, below in getattr(command, "commands", {}).items():
        yield from leaves(below, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path), command


def test_every_command_can_be_quiet():
    found = dict(leaves(get_command(app)))
    assert {"run", "report", "data import", "doctor"} <= found.keys()
    flower = ("init", "certs", "server", "client", "add", "join", "stop")
    brief = {"explore", *(f"flower {name}" for name in flower)}
    for name, command in found.items():
        if name in brief:  # they say one line, or what happens until they are stopped
            continue
        options = [option for parameter in command.params for option in parameter.opts]
        assert "-q" in options, name
        assert "--json" in options or name == "data import", name


def test_quiet_leaves_results_alone(cli):
    cli("run", "fedavg", *SMALL, "--out", "a", "-q")
    cli("run", "local", *SMALL, "--out", "b", "-q")
    assert cli("report", "a", "-q").stdout == "a/report.html\n"
    assert json.loads(cli("report", "a", "--json").stdout) == {"report": "a/report.html"}
    assert cli("runs", "nothing", "-q").stdout == ""
    asked = [["runs", "."], ["show", "a"], ["compare", "a", "b"], ["resume", "a"], ["methods"]]
    asked += [["datasets"], ["partition", "--data", "mini-digits"]]
    for command in asked:
        said = cli(*command, "-q")
        assert said.stderr == ""
        assert said.stdout != "", command
        for advice in ("duotone ", "Your own", "Run folder:", "Picture:"):
            assert advice not in said.stdout, command


def test_a_full_disk_fails_clearly_and_loses_nothing(cli, shell, folder):
    """A limit on the size of files stands for the full disk: the system refuses to write."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, 6_000))

    done = shell("run", "fedavg", *SMALL, "--out", "a", code=1, preexec_fn=limit)
    assert "disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    done = cli("resume", "a")
    assert "Run folder: a" in done.stdout
    cli("run", "fedavg", *SMALL, "--out", "b", "-q")
    first, second = (folder / name / "metrics.csv" for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_a_damaged_checkpoint_stops_resume_with_one_line(cli, folder):
    cli("run", "fedavg", *SMALL, "--out", "a", "-q")
    facts = json.loads((folder / "a" / "run.json").read_text())
    (folder / "a" / "run.json").write_text(json.dumps({**facts, "status": "interrupted"}))
    path = folder / "a" / "checkpoints" / "server-00003.safetensors"
    content = bytearray(path.read_bytes())
    content[100] ^= 255
    path.write_bytes(content)
    done = cli("resume", "a", code=1)
    assert "damaged" in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == content, "nothing was deleted"


def test_import_brings_official_files_into_the_cache(cli, monkeypatch, folder):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.delenv("DUOTONE_DATA", raising=False)
    done = cli("data", "import", "mnist", "nowhere", code=2)
    assert "nowhere" in done.stderr
    assert os.listdir(folder) == []
