"""Observers that pass scores on: what each tool is told, and when."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

import pytest

from duotone.config import RunConfig
from duotone.errors import MissingExtraError
from duotone.runs.execute import Progress
from duotone.runs.notebook import NotebookProgress, notebook_observers
from duotone.runs.track import Logging, MLflow, TensorBoard, WandB, flat_settings

CONFIG = RunConfig(rounds=2, method={"name": "fedavg", "lr": 0.1}, partition={"scheme": "iid"})
ROUNDS = (Progress(1, 2, {}, False), Progress(2, 2, {"member.accuracy": 0.75}, True))


def watched(observer, place) -> None:
    folder = SimpleNamespace(path=place / "first")
    plan = SimpleNamespace(method=SimpleNamespace(name="fedavg"), config=CONFIG)
    observer.run_started(folder, plan, 0)
    for progress in ROUNDS:
        observer.round_committed(progress)
    observer.message("careful")


class Recorder:
    """Stands for a tool: remembers every call."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append((name, arguments, options))
            return self if name == "init" else None

        return call


def test_settings_become_pairs_with_a_dot():
    found = flat_settings(CONFIG)
    assert found["method.lr"] == "0.1"
    assert found["partition.scheme"] == "iid"
    assert found["rounds"] == "2"
    assert "sampled" not in found  # it has no value


def test_logging_has_a_line_for_each_round(caplog, tmp_path):
    with caplog.at_level(logging.INFO, logger="duotone"):
        watched(Logging(), tmp_path)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == f"fedavg starts after round 0 in {tmp_path / 'first'}"
    assert lines[1:] == ["round 1 of 2 ", "round 2 of 2 member.accuracy=0.7500", "careful"]
    assert caplog.records[-1].levelname == "WARNING"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_back_what_was_written(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    watched(TensorBoard(tmp_path / "logs"), tmp_path)
    events = EventAccumulator(str(tmp_path / "logs" / "first"))
    events.Reload()
    (scalar,) = events.Scalars("member.accuracy")
    assert (scalar.step, scalar.value) == (2, 0.75)


def test_mlflow_is_told_settings_and_scores_and_its_run_is_ended(monkeypatch, tmp_path):
    tool = Recorder()
    monkeypatch.setitem(sys.modules, "mlflow", tool)
    watched(MLflow(), tmp_path)
    assert [name for name, *_ in tool.calls] == [
        "active_run",
        "start_run",
        "log_params",
        "log_metrics",
        "end_run",
    ]
    assert tool.calls[3] == ("log_metrics", ({"member.accuracy": 0.75},), {"step": 2})


def test_wandb_is_told_settings_and_scores_and_its_run_is_ended(monkeypatch, tmp_path):
    tool = Recorder()
    monkeypatch.setitem(sys.modules, "wandb", tool)
    watched(WandB("mine"), tmp_path)
    assert [name for name, *_ in tool.calls] == ["init", "log", "finish"]
    assert tool.calls[0][2]["project"] == "mine"
    assert tool.calls[1] == ("log", ({"member.accuracy": 0.75},), {"step": 2})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_mlflow_reads_back_what_was_written(kind, monkeypatch, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    if kind == "sqlite":
        pytest.importorskip("alembic")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    place = {"file": f"file:{tmp_path}/mlruns", "sqlite": f"sqlite:///{tmp_path}/mlflow.db"}[kind]
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(place)
    try:
        watched(MLflow(), tmp_path)
        client = mlflow.MlflowClient()
        (run,) = client.search_runs([e.experiment_id for e in client.search_experiments()])
        (score,) = client.get_metric_history(run.info.run_id, "member.accuracy")
    finally:
        mlflow.set_tracking_uri(before)
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    assert run.data.params["method.lr"] == "0.1"
    assert (score.step, score.value) == (2, 0.75)


def records_in(content: bytes):
    """Yield the records of W&B's file: blocks of 32 kB, each piece with its length and place."""
    place, whole = 7, b""
    while place + 7 <= len(content):
        room = 2**15 - place % 2**15
        if room < 7:
            place += room
            continue
        size = int.from_bytes(content[place + 4 : place + 6], "little")
        kind = content[place + 6]  # 1 whole, 2 first, 3 middle, 4 last
        whole += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):
            yield whole
            whole = b""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wandb_reads_back_what_was_written_offline(monkeypatch, tmp_path):
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    watched(WandB("mine"), tmp_path)
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    records = [Record.FromString(data) for data in records_in(file.read_bytes())]
    (begun,) = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    assert (begun.project, begun.display_name) == ("mine", "first")
    config = {item.key: item.value_json for item in begun.config.update}
    assert config["method.lr"] == '"0.1"'
    scores = {
        item.key or "/".join(item.nested_key): item.value_json
        for record in records
        if record.WhichOneof("record_type") == "history"
        for item in record.history.item
    }
    assert float(scores["member.accuracy"]) == 0.75
    assert scores["_step"] == "2"


def test_a_tool_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'duotone\[wandb\]'"):
        WandB()


def test_a_notebook_shows_one_line_that_moves(monkeypatch, tmp_path):
    shown: list[str] = []
    place = SimpleNamespace(update=shown.append)

    def display(text, display_id=False):
        shown.append(text)
        return place if display_id else None

    tools = SimpleNamespace(HTML=str, display=display)
    kernel = SimpleNamespace(kernel=object())
    shell = SimpleNamespace(display=tools, get_ipython=lambda: kernel)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    (observer,) = notebook_observers()
    assert isinstance(observer, NotebookProgress)
    watched(observer, tmp_path)
    assert [text.partition(" <")[0] for text in shown[:3]] == [
        "<p>fedavg round 0 of 2",
        "<p>fedavg round 1 of 2",
        "<p>fedavg round 2 of 2",
    ]
    assert "member.accuracy 0.750" in shown[2]
    assert shown[3] == "<p>careful</p>"


def test_outside_a_notebook_nothing_is_shown(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert notebook_observers() == []
    monkeypatch.delitem(sys.modules, "IPython")
    assert notebook_observers() == []
