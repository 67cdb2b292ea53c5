"""Looking at a run never harms it, and never keeps it from starting."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import duotone

TINY = [
    *("--data", "mini-digits", "--partition", "iid", "--clients", "6", "--sampled", "3"),
    *("--set", "partition.newcomers=1", "--set", "latents=3", "--set", "backend=serial", "-q"),
    *("--set", "measure=fast"),
]
METHODS = {
    "fedbn": ["--rounds", "12", "--set", "evaluate_every=2"],
    "ditto": ["--rounds", "25", "--set", "evaluate_every=5", "--set", "model=mlp"],
    "feddva": ["--rounds", "8", "--set", "evaluate_every=2"],
    "padpaf": ["--rounds", "6", "--set", "evaluate_every=2"],
}


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "duotone", *arguments], cwd=folder)


def files(run: Path) -> dict[str, bytes]:
    names = ["metrics.csv", "summary.json", "latents.npz"]
    paths = [run / name for name in names] + sorted(run.glob("checkpoints/**/*.*"))
    return {str(path.relative_to(run)): path.read_bytes() for path in paths}


def read(path: Path, how: int) -> None:
    """Look at a run in one of several ways; what is seen must be whole."""
    run = duotone.load_run(path)
    assert run.status in ("prepared", "running", "finished")
    if how == 0:
        committed = run.folder.manifest().last.round
        rows = duotone.load_run(path).metrics
        assert rows.is_empty() or rows["round"].max() >= committed
        assert set(rows.group_by("round").len()["len"]) or rows.is_empty()
    elif run.folder.manifest().last.round:
        which = "last" if how == 1 else "selected"
        if which == "selected" and run.folder.manifest().selected is None:
            return
        with run.folder.reading(which) as kept:
            time.sleep(random.uniform(0, 0.05))
            assert kept.server().shared
            for client in kept.states:
                assert kept.get(client) is not None


def assert_reads_leave_no_trace(folder: Path, method: str, reads: int) -> None:
    arguments = ["run", method, *TINY, *METHODS[method], "--out"]
    assert start(folder, *arguments, "quiet").wait() == 0
    done = 0
    for attempt in itertools.count():  # one run may be over before all reads are made
        path = folder / f"watched{attempt}"
        with start(folder, *arguments, path.name) as process:
            while process.poll() is None:
                if (path / "run.json").exists():
                    read(path, done % 3)
                    done += 1
                time.sleep(random.uniform(0, 0.01))
        assert process.returncode == 0
        assert files(path) == files(folder / "quiet")
        if done >= reads:
            return


def test_reads_at_random_instants_leave_no_trace(tmp_path):
    assert_reads_leave_no_trace(tmp_path, "fedbn", reads=40)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_two_hundred_reads_at_random_instants_leave_no_trace(tmp_path, method):
    assert_reads_leave_no_trace(tmp_path, method, reads=200)


def test_starting_and_resuming_under_constant_looks_never_fails(tmp_path):
    path = tmp_path / "run"
    is_over = threading.Event()
    looks: list[str] = []

    def look() -> None:
        while not is_over.is_set():
            if (path / "run.json").exists():
                looks.append(duotone.load_run(path).status)
            time.sleep(0.002)

    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        settings = [*TINY, "--rounds", "8", "--set", "model=mlp"]
        arguments = ["run", "local", *settings, "--out", "run"]
        for kill in range(2):
            with start(tmp_path, *arguments) as process:
                manifest = path / "checkpoints" / "manifest.json"
                while not manifest.exists() or json.loads(manifest.read_text())["round"] <= kill:
                    assert process.poll() is None, "it could not start"
                    time.sleep(0.01)
                process.send_signal(signal.SIGKILL)
            arguments = ["resume", "run", "-q"]
        assert start(tmp_path, *arguments).wait() == 0
    finally:
        is_over.set()
        for watcher in watchers:
            watcher.join()
    assert {"running", "killed"} <= set(looks)
    assert start(tmp_path, "run", "local", *settings, "--out", "quiet").wait() == 0
    assert files(path) == files(tmp_path / "quiet")


def test_show_says_that_a_run_is_running_and_how_far_it_is(cli, folder):
    arguments = ["run", "local", *TINY, "--rounds", "500", "--set", "model=mlp", "--out", "a"]
    with start(folder, *arguments) as process:
        manifest = folder / "a" / "checkpoints" / "manifest.json"
        while not manifest.exists() or json.loads(manifest.read_text())["round"] < 6:
            time.sleep(0.01)
        said = cli("show", "a").stdout
        listed = cli("runs", ".").stdout
        facts = json.loads(cli("show", "a", "--json").stdout)
        process.send_signal(signal.SIGKILL)
    assert "running" in said
    assert "of 500 rounds are committed" in said
    assert "It is running now." in said
    assert "member.accuracy" in said
    assert "running" in listed
    assert facts["status"] == "running"
    assert facts["rounds"] >= 6
    said = cli("show", "a").stdout
    assert "killed" in said
    assert "duotone resume a" in said


@pytest.mark.parametrize(
    "content", [None, "{", json.dumps({"format": 2, "files": {}, "round": "x"})]
)
def test_a_lost_or_damaged_manifest_is_one_line_and_deletes_nothing(cli, folder, content):
    cli("run", "local", *TINY, "--rounds", "2", "--set", "model=mlp", "--out", "a")
    facts = json.loads((folder / "a" / "run.json").read_text())
    (folder / "a" / "run.json").write_text(json.dumps({**facts, "status": "interrupted"}))
    manifest = folder / "a" / "checkpoints" / "manifest.json"
    manifest.unlink() if content is None else manifest.write_text(content)
    before = sorted((folder / "a").rglob("*.safetensors"))
    for command in ("show", "resume"):
        said = cli(command, "a", code=1).stderr
        assert "manifest.json" in said
        assert "nothing was changed" in said
        assert "Traceback" not in said
    assert sorted((folder / "a").rglob("*.safetensors")) == before
