"""The worker of a node, and the small process that hands it messages."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, RecordDict

from duotone import messenger
from duotone.errors import RunError
from duotone.federation.backends.codec import packed
from duotone.launcher import LOADED
from duotone.runs import flower_worker
from duotone.runs.flower_client import NodeSettings, answer
from duotone.runs.flower_folder import Federation
from duotone.runs.flower_jobs import EnrolJob, RunWords
from duotone.runs.flower_worker import Worker, socket_for_worker


@pytest.fixture
def settings(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 255, (40, 8, 8), dtype=np.uint8), np.arange(40) % 3
    np.savez(tmp_path / "b.npz", x_train=x[:30], y_train=y[:30], x_test=x[30:], y_test=y[30:])
    return NodeSettings("b", str(tmp_path / "b.npz"), tmp_path / "states")


def request(**changes):
    words = RunWords("0" * 32, {"name": "fedavg"}, None, 0, None, {})
    text, _ = packed(EnrolJob())
    facts = {"client": "b", "state": 0, "token": "t", "job": text, "run": words.text()}
    return {**facts, "duotone": messenger.VERSION, **changes}


def given(settings, place):
    texts = {"client": settings.client, "data": settings.data, "states": str(settings.states)}
    return {**texts, "level": settings.level, "worker": str(place)}


@pytest.fixture
def worker(settings):
    found, wanted = Worker(settings), [True]
    with socket_for_worker() as (listening, place):
        serving = Thread(target=found.serve, args=(listening, lambda: bool(wanted)))
        serving.start()
        found.place = place
        yield found
        wanted.clear()
        serving.join()


def test_a_worker_answers_as_a_process_that_loads_everything_does(worker, settings):
    told = messenger.ask_worker(worker.place, request(), {})
    assert told == answer(given(settings, ""), request(), {})
    assert json.loads(told[0]["answer"])["tuple"][0]["map"][0] == ["train", 27]
    assert not told[0]["failure"]


def test_arrays_come_through_the_socket_as_they_are(worker, monkeypatch):
    seen = {}

    def echo(node, facts, arrays):
        seen.update(arrays)
        return {"client": "b"}, arrays

    monkeypatch.setattr("duotone.runs.flower_worker.answered", echo)
    sent = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "b": np.zeros((0, 2), np.int64),
        "c": np.array(True),
    }
    _, back = messenger.ask_worker(worker.place, {}, sent)
    for name, array in sent.items():
        assert back[name].dtype == array.dtype
        assert np.array_equal(back[name], array)
        assert np.array_equal(seen[name], array)


def test_the_node_of_a_run_is_made_once_and_another_runs_takes_its_place(worker):
    first = request()["run"]
    node = worker.node(first)
    assert worker.node(first) is node
    assert worker.node(first.replace("0" * 32, "1" * 32)) is not node


def test_without_a_worker_the_message_is_answered_all_the_same(settings, tmp_path):
    context = Context(0, 1, given(settings, tmp_path / "nobody"), RecordDict(), {})
    told, _ = messenger._answer(context, request(), {})
    assert told["client"] == "b"
    assert not told["failure"]


@pytest.mark.parametrize("words", [{"model": "mine:Net"}, {"method": {"name": "mine:Method"}}])
def test_a_server_chooses_no_code_that_a_node_runs(settings, tmp_path, monkeypatch, words):
    (tmp_path / "mine.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = RunWords.read(request()["run"])
    facts = request(run=replace(asked, **words).text())
    told, _ = answer(given(settings, tmp_path / "nobody"), facts, {})
    assert "mine:" in told["failure"]
    assert "mine" not in sys.modules


def test_a_worker_outlives_somebody_who_hangs_up(worker):
    for noise in (b"", b"\x00\x00\x00\x04nope"):
        with socket.socket(socket.AF_UNIX) as way:
            way.connect(str(worker.place))
            way.sendall(noise)
    assert not messenger.ask_worker(worker.place, request(), {})[0]["failure"]


def test_the_process_of_a_message_loads_no_torch():
    loaded = ", ".join(LOADED)
    code = f"import sys, {loaded}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


LAUNCHED = """
import multiprocessing, os, signal, socket, subprocess, sys
from flwr.supercore.constant import TaskType
from flwr.supercore.superexec.executor import ExecutionSpec
from duotone.launcher import ForkingExecutor

with socket.create_server(("127.0.0.1", 0)) as node:
    address = "127.0.0.1:%d" % node.getsockname()[1]
    about = (TaskType.CLIENT_APP, address, "secret", True, None, False, os.getpid(), False, 1)
    ForkingExecutor().launch(ExecutionSpec(*about))
    (process,) = multiprocessing.active_children()
    node.accept()  # it looks for its message
    print(process.pid, flush=True)
    subprocess.run(["ps", "-wwo", "command=", "-p", str(process.pid)], check=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_a_message_gets_a_process_that_has_everything_loaded_shows_no_token_and_is_not_left(how):
    command = [sys.executable, "-c", LAUNCHED, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        number, shown = launcher.stdout.readline(), launcher.stdout.readline()
        try:
            launcher.wait(60)
        finally:
            launcher.kill()
    assert "forkserver" in shown
    assert all(name in shown for name in LOADED)
    assert "secret" not in shown
    wait_for_end(int(number))


def test_a_node_whose_messages_get_no_processes_any_more_ends_and_says_so(settings, monkeypatch):
    @contextmanager
    def child_of(command, federation, hear):
        code = None if "flower-supernode" in command[0] else -9
        yield SimpleNamespace(poll=lambda: code)

    monkeypatch.setattr(flower_worker, "child_of", child_of)
    monkeypatch.setattr(Federation, "keys_of", lambda self, client: settings.states)
    federation = Federation(settings.states, "localhost:1", ("b",))
    with pytest.raises(RunError, match=r"ended \(code -9\), so the node was ended, too"):
        flower_worker.run_client(federation, settings, 0)


PARENT = """
import sys, time
from pathlib import Path
from duotone.runs.flower_folder import Federation
from duotone.runs.flower_processes import child_of

sleeping = [sys.executable, "-c", "import time; time.sleep(100)"]
with child_of(sleeping, Federation(Path(), "localhost:1", ()), print) as child:
    print(child.pid, flush=True)
    time.sleep(100)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own way, of Linux alone")
def test_a_node_does_not_outlive_its_worker_that_was_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    with parent.stdout:
        child = int(parent.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        parent.kill()
        parent.wait()
    wait_for_end(child)


def wait_for_end(pid):
    """Wait until a process is gone; one that nobody asked for its code counts as gone."""
    until = time.monotonic() + 20
    with suppress(OSError):
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < until
            time.sleep(0.1)
