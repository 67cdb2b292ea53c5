from __future__ import annotations

import json
import shutil
import signal
import threading
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from old_manifests import listing
from PIL import Image
from torch import nn

import duotone
from duotone.errors import ConfigError, DataError, PartitionError, RunError, UnknownNameError
from duotone.methods import METHODS
from duotone.networks.classifiers import cnn_bn
from duotone.runs import Interrupted, prepare
from duotone.runs.parts import part_sizes
from duotone.runs.plan import model_name, plan_run
from duotone.runs.pooled import identity
from duotone.runs.stopping import stop_requests
from duotone.runs.study_plan import plan_study
from duotone.types import DataInfo

pytestmark = pytest.mark.usefixtures("brief_measures_throughout")

SMALL = {
    "data": "mini-digits",
    "partition": {"scheme": "iid", "clients": 4, "newcomers": 1},
    "model": "mlp",
    "rounds": 4,
    "sampled": 2,
    "evaluate_every": 2,
    "latents": 5,
    "backend": "serial",
}


def small(method="local", **changes):
    return {**SMALL, "method": {"name": method, "epochs": 1}, **changes}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return duotone.run(small(), out=tmp_path_factory.mktemp("runs") / "local")


def test_a_run_folder_holds_what_it_promises(finished):
    names = {path.name for path in finished.path.iterdir()}
    assert names >= {
        "config.toml",
        "run.json",
        "metrics.csv",
        "summary.json",
        "latents.npz",
        "checkpoints",
        "log.txt",
    }
    assert finished.status == "finished"
    header = (finished.path / "metrics.csv").read_text().splitlines()[0]
    assert header == "round,client,group,kind,part,metric,value"
    score = finished.summary["scores"]["member.accuracy"]
    facts = {"measure", "question", "part", "variant", "role"}
    assert set(score) == {"value", "std", "direction", "n", "unit", *facts}
    assert (score["n"], score["direction"], score["unit"]) == (3, "higher", "share")


def test_scores_agree_with_the_table(finished):
    last = finished.metrics.filter(
        (pl.col("round") == 4) & (pl.col("metric") == "accuracy") & (pl.col("kind") == "member")
    )
    scores = finished.summary["scores"]
    assert scores["member.accuracy"]["value"] == pytest.approx(last["value"].mean())
    assert scores["member.accuracy"]["std"] == pytest.approx(last["value"].std(ddof=0))
    assert scores["member.worst"]["value"] == last["value"].min()


def test_the_resolved_configuration_repeats_the_run(finished, tmp_path):
    again = duotone.run(finished.path / "config.toml", out=tmp_path / "again")
    assert again.metrics.equals(finished.metrics)
    assert again.summary == finished.summary
    for name, values in finished.latents.items():
        assert np.array_equal(values, again.latents[name], equal_nan=values.dtype.kind == "f")


def test_the_ledger_says_what_left_each_client(tmp_path):
    run = duotone.run(small("fedavg", rounds=1), out=tmp_path / "r")
    ledger = run.metrics.filter(pl.col("metric") == "bytes_up")
    parameters = 64 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10
    assert ledger["value"].to_list() == [4.0 * parameters] * 2
    alone = duotone.run(small("local", rounds=1), out=tmp_path / "l")
    assert set(alone.metrics.filter(pl.col("metric") == "bytes_up")["value"]) == {0.0}


def test_a_moved_run_folder_is_still_the_same_run(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path / "elsewhere")
    moved = duotone.load_run(tmp_path / "elsewhere")
    assert moved.summary == finished.summary
    assert str(finished.path) not in (tmp_path / "elsewhere" / "run.json").read_text()


def test_a_run_never_overwrites(finished):
    with pytest.raises(RunError, match="never overwrites"):
        duotone.run(small(), out=finished.path)


def test_resuming_a_finished_run_returns_it_unchanged(finished):
    before = (finished.path / "run.json").read_bytes()
    assert duotone.resume(finished.path).summary == finished.summary
    assert (finished.path / "run.json").read_bytes() == before


class StopAfter:
    """Presses Ctrl-C once a round is committed."""

    def __init__(self, round):
        self.round = round

    def run_started(self, folder, plan, round):
        pass

    def round_committed(self, progress):
        if progress.round == self.round:
            signal.raise_signal(signal.SIGINT)

    def message(self, line):
        pass


def test_ctrl_c_finishes_the_round_and_resume_ends_bit_identically(finished, tmp_path):
    path = tmp_path / "stopped"
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted):
        duotone.run(small(), out=path, observers=[StopAfter(1)])
    assert signal.getsignal(signal.SIGINT) is handler
    stopped = duotone.load_run(path)
    assert stopped.status == "interrupted"
    # one more round was under way when the request came, or none: a whole number in any case
    assert stopped.folder.manifest().last.round in (1, 2)
    resumed = duotone.resume(path)
    assert resumed.status == "finished"
    assert_same_run(finished.path, path)


def assert_same_run(first, second):
    assert (first / "metrics.csv").read_bytes() == (second / "metrics.csv").read_bytes()
    assert (first / "summary.json").read_bytes() == (second / "summary.json").read_bytes()
    states = [sorted((p / "checkpoints").rglob("*.safetensors")) for p in (first, second)]
    assert [p.name for p in states[0]] == [p.name for p in states[1]]
    assert states[0]
    for a, b in zip(*states, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name


def test_metrics_of_an_uncommitted_round_are_cut_off(tmp_path):
    path = tmp_path / "r"
    with pytest.raises(Interrupted):
        duotone.run(small(), out=path, observers=[StopAfter(1)])
    with (path / "metrics.csv").open("a") as file:
        file.write("3,0,all,member,both,accuracy,0.5\n3,1,al")
    duotone.resume(path)
    rows = duotone.load_run(path).metrics
    assert rows.filter((pl.col("metric") == "accuracy") & (pl.col("round") == 3)).is_empty()


def test_a_run_without_a_committed_round_starts_over(finished, tmp_path):
    plan = plan_run(small())
    folder = prepare(plan, tmp_path / "r")
    with folder.writing():  # where a kill leaves a run whose first round is under way
        (folder.path / "metrics.csv").write_text("rubbish")
        (folder.path / "checkpoints" / "clients" / "0-00001.safetensors").write_text("half")
        (folder.path / ".scratch").mkdir()
        (folder.path / ".scratch" / "0.safetensors").write_text("left behind")
    duotone.resume(folder.path)
    assert_same_run(finished.path, folder.path)
    assert not (folder.path / ".scratch").exists()


def stopped(path, **changes):
    """Return a run that was stopped after its first evaluated round."""
    with pytest.raises(Interrupted):
        duotone.run(small(**changes), out=path, observers=[StopAfter(2)])
    return duotone.load_run(path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("lr = 0.1", "lr = 0.2"), r"method.lr was 0.1 and is 0.2"),
        (lambda text: text.replace("rounds = 4", "rounds = 9"), r"rounds was 4 and is 9"),
        (lambda text: text + "momentum = 0.5\n", r"method.momentum was 0.0 and is 0.5"),
    ],
)
def test_an_edited_configuration_is_noticed_on_resume(finished, tmp_path, change, said):
    run = stopped(tmp_path / "r")
    config = run.path / "config.toml"
    right = config.read_text()
    edited = change(right.replace("momentum = 0.0\n", "") if "momentum" in said else right)
    assert edited != right
    config.write_text(edited)
    with pytest.raises(RunError, match=said):
        duotone.resume(run.path)
    config.write_text(right)
    assert_same_run(finished.path, duotone.resume(run.path).path)


def test_where_a_run_is_computed_may_be_changed(tmp_path):
    whole = duotone.run(small(latents=0), out=tmp_path / "whole")
    run = stopped(tmp_path / "r", latents=0)
    config = run.path / "config.toml"
    config.write_text(config.read_text().replace('backend = "serial"', 'backend = "auto"'))
    assert_same_run(whole.path, duotone.resume(run.path).path)


def test_edited_cut_or_missing_metrics_are_noticed_on_resume(finished, tmp_path):
    run = stopped(tmp_path / "r")
    path = run.path / "metrics.csv"
    right = path.read_bytes()
    place = right.index(b"accuracy,0.") + len("accuracy,0.")
    digit = b"1" if right[place : place + 1] != b"1" else b"2"
    path.write_bytes(right[:place] + digit + right[place + 1 :])
    with pytest.raises(RunError, match=r"metrics.csv is not what was committed.*edited"):
        duotone.resume(run.path)
    path.write_bytes(right[:-40])
    with pytest.raises(RunError, match=r"bytes instead of"):
        duotone.resume(run.path)
    path.unlink()
    with pytest.raises(RunError, match="it is missing"):
        duotone.resume(run.path)
    path.write_bytes(right)
    assert_same_run(finished.path, duotone.resume(run.path).path)


def test_a_run_of_an_older_version_is_resumed_and_stopped_and_resumed_again(finished, tmp_path):
    run = stopped(tmp_path / "r")
    path = run.path / "checkpoints" / "manifest.json"
    content = listing(path.parent, format=1)
    content["notes"] = {key: content["notes"][key] for key in ("metrics_bytes", "scores")}
    path.write_text(json.dumps(content))
    with pytest.raises(Interrupted):
        duotone.resume(run.path, observers=[StopAfter(3)])
    assert run.folder.manifest().selected is None, "the states of its best round are gone"
    again = duotone.resume(run.path)
    assert (again.path / "metrics.csv").read_bytes() == (finished.path / "metrics.csv").read_bytes()
    assert again.summary == finished.summary


def test_a_lost_manifest_is_said_and_nothing_is_removed(tmp_path):
    run = stopped(tmp_path / "r")
    (run.path / "checkpoints" / "manifest.json").unlink()
    states = sorted((run.path / "checkpoints").rglob("*.safetensors"))
    assert states
    for read in (lambda: run.folder.manifest(), lambda: duotone.load_run(run.path).metrics):
        with pytest.raises(RunError, match=r"manifest.json is missing"):
            read()
    with pytest.raises(RunError, match=r"manifest.json"):
        duotone.resume(run.path)
    shutil.rmtree(run.path / "checkpoints")
    with pytest.raises(RunError, match=r"holds results, but.*manifest.json"):
        duotone.resume(run.path)
    assert (run.path / "metrics.csv").stat().st_size


def test_of_an_unfinished_run_only_what_is_committed_is_read(tmp_path):
    run = stopped(tmp_path / "r")
    with (run.path / "metrics.csv").open("a") as file:
        file.write("3,0,all,member,both,accuracy,0.5\n3,1,al")
    assert run.metrics["round"].max() == run.folder.manifest().last.round


def test_a_symbolic_link_inside_a_run_is_refused(tmp_path):
    run = stopped(tmp_path / "r")
    (run.path / "metrics.csv").rename(tmp_path / "elsewhere.csv")
    (run.path / "metrics.csv").symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(RunError, match=r"metrics.csv is a symbolic link"):
        duotone.load_run(run.path)
    (tmp_path / "latest").symlink_to(run.path)  # a link to the run itself is the user's affair
    (run.path / "metrics.csv").unlink()
    assert duotone.load_run(tmp_path / "latest").status == "interrupted"


@pytest.mark.parametrize("name", ["ledger.csv", "report.html", "swap.json.part", "anything"])
def test_no_link_in_a_run_leads_what_is_written_elsewhere(tmp_path, name):
    run = stopped(tmp_path / "r")
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).symlink_to(tmp_path / "made outside")
    with pytest.raises(RunError, match=f"{name} is a symbolic link"):
        duotone.resume(run.path)
    assert not (tmp_path / "made outside").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"round,who\n1,a\n",
        b"\xff\xfe",
        b"{head}\nmany,a,update,scores,7,\n",
        b"{head}\n1,a,u,s,b,\n",
    ],
)
def test_a_damaged_ledger_is_one_line(tmp_path, content):
    run = stopped(tmp_path / "r")
    head = b"round,client,what,level,bytes,names"
    (run.path / "ledger.csv").write_bytes(content.replace(b"{head}", head))
    with pytest.raises(RunError, match=r"ledger\.csv is damaged"):
        duotone.resume(run.path)


@pytest.mark.parametrize("size", [-1, "many", True, 1.5])
def test_a_manifest_with_a_strange_size_is_one_line(tmp_path, size):
    run = stopped(tmp_path / "r")
    path = run.path / "checkpoints" / "manifest.json"
    content = json.loads(path.read_text())
    content["notes"]["metrics_bytes"] = size
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="metrics_bytes"):
        duotone.resume(run.path)


class Recorder(StopAfter):
    """Writes down the states after every round."""

    def __init__(self):
        self.rounds = {}

    def run_started(self, folder, plan, round):
        self.folder = folder

    def round_committed(self, progress):
        self.rounds[progress.round] = states(self.folder, "last")


def states(folder, which):
    with folder.reading(which) as kept:
        clients = {client: kept.get(client) for client in "0123"}
        server = kept.server()
    tensors = {f"server/{name}": tensor for name, tensor in server.shared.items()}
    for client, state in clients.items():
        own = state.local if state else {}
        tensors |= {f"{client}/{name}": tensor for name, tensor in own.items()}
    return tensors


def test_the_selected_round_is_kept_as_it_was_local_parts_too(tmp_path):
    recorder = Recorder()
    settings = small("fedbn", model="mlp-bn", rounds=8, evaluate_every=1)
    run = duotone.run(settings, out=tmp_path / "r", observers=[recorder])
    chosen = run.summary["selected_round"]
    assert 1 < chosen < 8, "choose other settings: the last round would be kept anyway"
    kept = states(run.folder, "selected")
    then = recorder.rounds[chosen]
    assert kept.keys() == then.keys()
    assert any(name.startswith("0/") for name in kept)
    assert all(torch.equal(tensor, then[name]) for name, tensor in kept.items())
    last = recorder.rounds[8]
    assert not all(torch.equal(tensor, last[name]) for name, tensor in kept.items())
    files = list((run.path / "checkpoints").rglob("*.safetensors"))
    assert len(files) <= 2 * (1 + 3)


class Watching(StopAfter):
    """Writes down what is said."""

    def __init__(self):
        self.lines = []

    def round_committed(self, progress):
        pass

    def message(self, line):
        self.lines.append(line)


@pytest.mark.parametrize("name", ["fedbn", "ditto", "feddva", "fedvc"])
def test_a_client_whose_model_answers_nan_has_no_score_and_the_run_goes_on(
    tmp_path, monkeypatch, name
):
    kind = METHODS.load(name)
    served = kind.personal

    def personal(self, server, client):
        params = dict(served(self, server, client))
        if "sick" in client.extra:
            params = {n: t * torch.nan if t.is_floating_point() else t for n, t in params.items()}
        return params

    ready = kind.before_use

    def before_use(self, server, client, data, info):
        state = ready(self, server, client, data, info)
        if data.client == "1":
            return replace(state, extra={**state.extra, "sick": torch.ones(1)})
        return state

    monkeypatch.setattr(kind, "personal", personal)
    monkeypatch.setattr(kind, "before_use", before_use)
    watching = Watching()
    settings = small(name, model=None, rounds=2)
    run = duotone.run(settings, out=tmp_path / "r", observers=[watching])
    assert run.status == "finished"
    assert any("Client '1' is left out" in line and "NaN" in line for line in watching.lines)
    assert run.summary["scores"]["member.accuracy"]["n"] == 2
    assert any("'1' has no score" in line for line in run.summary["warnings"])
    scored = run.metrics.filter(pl.col("metric") == "accuracy")
    assert set(scored["client"]) == {"0", "2", "3"}
    assert "1" not in run.latents["client"]
    assert np.isfinite(run.latents["shared"]).all()


def test_what_a_client_calls_its_accuracy_is_not_its_score(finished, tmp_path, monkeypatch):
    kind = METHODS.load("local")
    honest = kind.client_update

    def boasting(self, server, client, data, info):
        update, state = honest(self, server, client, data, info)
        boast = {"accuracy": 1.0, "val_accuracy": 1.0, "auc@5": 1.0, "mine": 0.5}
        return replace(update, metrics={**update.metrics, **boast}), state

    told = ("train_loss", "accuracy", "val_accuracy", "auc@5", "mine")
    monkeypatch.setattr(kind, "told", told)
    monkeypatch.setattr(kind, "client_update", boasting)
    run = duotone.run(small(), out=tmp_path / "r")
    assert run.summary == finished.summary
    assert "mine" in set(run.metrics["metric"])
    assert "auc@5" not in set(run.metrics["metric"])


def test_two_processes_cannot_work_on_one_run(finished):
    with finished.folder.locked():
        found = []

        def other():
            found.append(finished.folder.is_busy)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == [True]
    assert not finished.folder.is_busy


def test_a_run_whose_process_is_gone_is_called_killed(tmp_path):
    plan = plan_run(small())
    folder = prepare(plan, tmp_path / "r")
    folder.update_facts(status="running")
    assert duotone.load_run(folder.path).status == "killed"


def test_foreign_and_damaged_run_folders_are_clear_errors(finished, tmp_path):
    with pytest.raises(RunError, match="no run folder"):
        duotone.load_run(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="not the folder of a run"):
        duotone.load_run(tmp_path / "empty")

    def damaged(change):
        path = tmp_path / change.__name__
        shutil.copytree(finished.path, path)
        change(path)
        return path

    def foreign(path):
        facts = json.loads((path / "run.json").read_text())
        (path / "run.json").write_text(json.dumps({**facts, "format": 99, "duotone": "9.9"}))

    def broken_json(path):
        (path / "run.json").write_text('{"format": 1, "sta')

    def broken_config(path):
        (path / "config.toml").write_text("rounds = ")

    def broken_latents(path):
        content = (path / "latents.npz").read_bytes()
        (path / "latents.npz").write_bytes(content[: len(content) // 2])

    with pytest.raises(RunError, match=r"another version of duotone \(9.9\)"):
        duotone.load_run(damaged(foreign))
    with pytest.raises(RunError, match=r"run\.json is damaged"):
        duotone.load_run(damaged(broken_json))
    with pytest.raises(RunError, match=r"config\.toml is damaged"):
        _ = duotone.load_run(damaged(broken_config)).config
    with pytest.raises(RunError, match=r"latents\.npz is damaged"):
        _ = duotone.load_run(damaged(broken_latents)).latents


def test_a_run_whose_data_changed_is_not_resumed(tmp_path):
    rng = np.random.default_rng(0)

    def arrays(shift):
        return {
            "x_train": rng.normal(size=(60, 3)).astype(np.float32) + shift,
            "y_train": np.arange(60) % 2,
            "x_test": np.ones((20, 3), np.float32),
            "y_test": np.arange(20) % 2,
        }

    settings = {k: v for k, v in small("fedavg").items() if k != "data"}
    settings["partition"] = {"scheme": "iid", "clients": 2}
    with pytest.raises(Interrupted):
        duotone.run(settings, data=arrays(0), out=tmp_path / "r", observers=[StopAfter(1)])
    with pytest.raises(RunError, match="made in Python"):
        duotone.resume(tmp_path / "r")
    with pytest.raises(RunError, match="no longer what the run began with"):
        duotone.resume(tmp_path / "r", data=arrays(1))


def test_all_wrong_settings_are_reported_at_once():
    wrong = {
        "rounds": 0,
        "style": "mark",
        "model": "cnnbn",
        "partition": {"scheme": "groups", "alpha": -1, "grups": 3},
        "method": {"name": "fedavg-ft", "lr": "fast", "finetune": 3},
        "newcomers": "few",
    }
    with pytest.raises(ConfigError) as caught:
        plan_run(wrong)
    text = str(caught.value)
    words = ("rounds = 0", "style 'mark'", "model 'cnnbn'", "alpha = -1", "grups", "lr = 'fast'")
    for word in (*words, "finetune", "newcomers = 'few'"):
        assert word in text, text
    assert text.startswith("8 settings are wrong")


def test_a_style_that_samples_cannot_have_hides_no_other_problem():
    wrong = {"style": "marks", "data": "planted-table", "sampled": 9, "model": "linear"}
    with pytest.raises(ConfigError) as caught:
        plan_run(small(**wrong))
    style, sampled = caught.value.args
    assert "'marks' is for images" in style
    assert "only 3 members" in sampled


def test_a_check_of_two_settings_is_left_out_if_one_of_them_was_not_taken():
    wrong = {"scheme": "iid", "min_train": "few", "max_train": 3, "max_test": 0}
    with pytest.raises(ConfigError) as caught:
        plan_run(small(partition=wrong))
    assert len(caught.value.args) == 2, caught.value
    both = {"scheme": "iid", "validation": 2, "max_train": 3}
    with pytest.raises(ConfigError, match=r"max_train = 3 is below partition.min_train = 10"):
        plan_run(small(partition=both))


def test_data_given_by_path_is_found_from_anywhere(tmp_path, monkeypatch):
    x, y = np.zeros((40, 3), np.float32), np.arange(40) % 2
    (tmp_path / "here").mkdir()
    np.savez(tmp_path / "here" / "mine.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    for client, label in (("a", "0"), ("a", "1"), ("b", "0"), ("b", "1")):
        place = tmp_path / "here" / "pictures" / client / label
        place.mkdir(parents=True)
        for number in range(15):
            Image.new("L", (8, 8)).save(place / f"{number}.png")
    monkeypatch.chdir(tmp_path / "here")
    both = {"mine.npz": {"scheme": "iid", "clients": 2}, "./pictures": {"scheme": "natural"}}
    for name, partition in both.items():
        settings = small("fedavg", data=name, partition=partition, rounds=1, latents=0)
        run = duotone.run(settings, out=tmp_path / f"run-{partition['scheme']}")
        assert run.config.data == str((tmp_path / "here" / name).resolve())
        monkeypatch.chdir(tmp_path)
        again = duotone.run(run.path / "config.toml", out=tmp_path / f"again-{run.path.name}")
        assert again.config == run.config
        run.report()
        monkeypatch.chdir(tmp_path / "here")
    entry = {"methods": ["fedavg"], "seeds": [0], "settings": settings}
    del entry["settings"]["method"]
    study = plan_study(entry, tmp_path / "study")
    assert study.entries[0].choices[0].config.data == run.config.data
    old = run.config.model_copy(update={"data": "./pictures"})
    assert identity(old) == identity(run.config), "runs that hold the path as it was given"
    assert plan_run(small("fedavg")).config.data == "mini-digits"


@pytest.mark.parametrize(
    ("changes", "error", "word"),
    [
        ({"method": "fedagv"}, UnknownNameError, "Did you mean 'fedavg'"),
        ({"method": {}}, ConfigError, "No method"),
        ({"data": "mnits"}, UnknownNameError, "Did you mean 'mnist'"),
        ({"data": "no/such.npz"}, DataError, "no file or folder"),
        ({"model": "resnet"}, UnknownNameError, "Known: cnn"),
        ({"model": "cnn", "data": "planted-table"}, ConfigError, "--set model=mlp"),
        ({"sampled": 9}, ConfigError, "only 3 members"),
        ({"partition": {"scheme": "iid", "clients": 10**6}}, PartitionError, "clients"),
        ({"newcomers": "zero-shot"}, ConfigError, "cannot serve newcomers zero-shot"),
        ({"device": "cuda"}, ConfigError, "no GPU"),
        ({"style": "marks", "data": "planted-table"}, DataError, "image"),
    ],
)
def test_bad_settings_are_clear_errors_before_training(changes, error, word):
    if changes.get("device") and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(error) as caught:
        plan_run(small(**changes))
    assert word in str(caught.value)
    assert "\n" not in str(caught.value)


class WrongOutput(nn.Module):
    def forward(self, x):
        return x.flatten(1)[:, :3]


class WrongInput(nn.Linear):
    def __init__(self):
        super().__init__(5, 10)


def test_what_only_the_end_of_a_run_needs_is_checked_at_its_beginning():
    with pytest.raises(ConfigError, match="no layer called 'zzz'"):
        plan_run(small(method="fedavg") | {"method": {"name": "fedavg", "head": "zzz"}})


def test_an_import_path_that_is_no_method_is_refused():
    with pytest.raises(ConfigError, match="not a method"):
        plan_run(small(method="os:getcwd"))


def test_data_of_another_kind_is_refused():
    with pytest.raises(ConfigError, match="Got a tuple"):
        duotone.run(small(), data=(np.zeros(3), np.zeros(3)))
    arrays = dict.fromkeys(("x_train", "y_train", "x_test", "y_test", "client_tets"))
    with pytest.raises(
        DataError, match=r"Unknown array 'client_tets'\. Did you mean 'client_test'"
    ):
        duotone.run(small(), data=arrays)


def test_clients_without_test_samples_have_no_score(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    y, who = np.arange(60) % 2, np.array(["a"] * 30 + ["b"] * 30)
    data = {"x_train": x, "y_train": y, "client_train": who}
    data |= {"x_test": x[:20], "y_test": y[:20], "client_test": who[:20]}
    partition = {"scheme": "iid", "clients": 40, "min_test": 0, "min_train": 1, "validation": 0}
    run = duotone.run(
        small("fedavg", partition=partition, latents=0, sampled=None), data=data, out=tmp_path / "r"
    )
    assert run.summary["scores"]["member.accuracy"]["n"] == 20


class InMain(nn.Linear):
    """Pretends to be defined in a script."""

    def __init__(self):
        super().__init__(64, 10)

    def forward(self, x):
        return super().forward(x.flatten(1))


def test_python_users_are_told_when_workers_cannot_be_used(tmp_path, monkeypatch):
    monkeypatch.setattr(InMain, "__module__", "__main__")
    settings = small("fedavg", backend="processes", rounds=1, latents=0, model=None)
    with pytest.warns(UserWarning, match="one process"):
        duotone.run(settings, model=InMain, out=tmp_path / "r")


def test_a_model_that_does_not_fit_the_data_is_noticed_at_once():
    with pytest.raises(ConfigError, match=r"outputs of shape \(2, 3\).*needs \(2, 10\)"):
        plan_run(small(model=None), model=WrongOutput)
    with pytest.raises(ConfigError, match=r"cannot process samples of shape \(1, 8, 8\)"):
        plan_run(small(model=None), model=WrongInput)
    with pytest.raises(ConfigError, match="cannot process samples"):
        plan_run(small(model=None, personalise="auto"), model=WrongInput)


def test_models_from_python_are_named_so_that_they_can_be_imported_again():
    assert model_name(nn.Linear) == "torch.nn.modules.linear:Linear"
    assert model_name(nn.Linear(1, 1)) == "object:Linear"
    assert model_name(lambda: None).startswith("object:")


def test_own_regression_data_gives_errors_instead_of_accuracies(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    y = x @ np.array([1.0, -2.0, 0.5], np.float32)
    data = {"x_train": x[:160], "y_train": y[:160], "x_test": x[160:], "y_test": y[160:]}
    run = duotone.run(
        method="fedavg",
        lr=0.05,
        rounds=20,
        data=data,
        partition={"scheme": "iid", "clients": 3},
        backend="serial",
        out=tmp_path / "r",
    )
    scores = run.summary["scores"]
    assert run.summary["headline"] == "mse"
    assert scores["member.mse"]["direction"] == "lower"
    assert scores["member.r2"]["value"] > 0.9


def test_styles_give_clients_groups_and_factors(tmp_path):
    run = duotone.run(
        small(
            "fedavg",
            data="digits",
            style="marks",
            rounds=1,
            partition={
                "scheme": "iid",
                "clients": 6,
                "newcomers": 1,
                "max_train": 20,
                "max_test": 10,
            },
        ),
        out=tmp_path / "r",
    )
    groups = dict(run.metrics.select("client", "group").unique().iter_rows())
    assert groups["0"] == groups["4"] == "none"
    assert groups["1"] == "sine-columns"
    assert groups["5"] == "sine-columns", "the first newcomer does not get the plain style"
    latents = run.latents
    assert np.isnan(latents["factor_phase"][latents["group"] == "none"]).all()
    assert np.isfinite(latents["factor_phase"][latents["group"] != "none"]).all()


def test_comparing_refuses_runs_on_other_data_or_partitions(finished, tmp_path):
    other = duotone.run(small(partition={"scheme": "iid", "clients": 5}), out=tmp_path / "other")
    same = duotone.run(small("fedavg"), out=tmp_path / "same")
    table = duotone.compare([finished, same])
    assert table["method"].to_list() == ["local", "fedavg"]
    assert table["member.accuracy"][0] == finished.summary["scores"]["member.accuracy"]["value"]
    with pytest.raises(RunError, match="cannot be compared"):
        duotone.compare([finished, other])
    assert len(duotone.compare([finished, other], anyway=True)) == 2


def test_a_request_to_stop_reaches_the_study_around_a_run():
    with stop_requests() as outer:
        with stop_requests() as inner:
            assert not inner()
            signal.raise_signal(signal.SIGINT)
            assert inner()
        assert outer()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("name", "shared", "local"),
    [
        # cnn-bn on 28×28: conv1 320, conv2 18,496, fc1 401,536, head 1,290; BatchNorm 448.
        ("fedavg", 422_090, 0),
        ("local", 0, 422_090),
        ("fedbn", 421_642, 448),
        ("fedrep", 420_800, 1_290),
        ("ditto", 422_090, 422_090),
        ("ifca", 4 * 422_090, 0),
    ],
)
def test_parts_are_counted_by_what_is_sent_and_what_stays(name, shared, local):
    kind = METHODS.load(name)
    sizes = part_sizes(kind(kind.Config(), cnn_bn), DataInfo((1, 28, 28), "classes", 10))
    assert sizes["shared"].parameters == shared
    assert sizes["local"].parameters == local


def test_pictures_of_several_measures_are_all_kept(tmp_path):
    settings = small("fedvc", rounds=1, model=None, latents=20, style="padpaf4")
    run = duotone.run(settings, out=tmp_path / "r")
    told = json.loads((run.path / "figures" / "figures.json").read_text())
    assert {picture["section"] for picture in told} == {"examples", "concepts"}
    assert all((run.path / "figures" / picture["file"]).exists() for picture in told)
