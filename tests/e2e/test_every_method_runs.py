"""Every method runs by name on every kind of data, and whatever happens on the way."""

from __future__ import annotations

import signal
import warnings

import pytest

import duotone
from duotone.errors import ConfigError
from duotone.methods import METHODS
from duotone.runs import Interrupted

DATA = {
    "mini-digits": {"scheme": "iid", "clients": 4, "newcomers": 1, "max_train": 60},
    "planted-table": {"scheme": "natural", "newcomers": ["c11"], "max_train": 60},
    "digits": {"scheme": "iid", "clients": 4, "newcomers": 1, "max_train": 40, "max_test": 20},
}


def run(name, data, out, *, backend="serial", observers=()):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without observers, messages are warnings
        return duotone.run(
            method={"name": name, "epochs": 1},
            data=data,
            partition=DATA[data],
            rounds=3,
            sampled=2,
            latents=2,
            evaluate_every=3,
            backend=backend,
            out=out,
            observers=observers,
        )


def files_of(finished):
    names = ("metrics.csv", "summary.json", "latents.npz")
    return {name: (finished.path / name).read_bytes() for name in names}


IMAGES_ONLY = [name for name in METHODS if METHODS.load(name).own_model]


@pytest.mark.parametrize("name", IMAGES_ONLY)
def test_a_table_is_refused_where_only_images_will_do(name, tmp_path):
    with pytest.raises(ConfigError, match="needs images"):
        run(name, "planted-table", tmp_path / "a")


@pytest.mark.usefixtures("brief_measures")
@pytest.mark.parametrize("data", ["mini-digits", "planted-table"])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_it_runs_by_name_and_serves_newcomers(name, data, tmp_path):
    if data == "planted-table" and name in IMAGES_ONLY:
        pytest.skip("needs images")
    scores = run(name, data, tmp_path / "a").summary["scores"]
    assert 0 <= scores["member.accuracy"]["value"] <= 1
    assert scores["newcomer.accuracy"]["n"] == 1
    rules = METHODS.load(name).newcomer_rules
    assert ("newcomer.accuracy@0" in scores) == ("zero-shot" in rules)
    assert ("newcomer.accuracy@unlabelled" in scores) == ("label-free" in rules)
    assert {f"newcomer.accuracy@{k}" for k in (1, 5, 20, "all")} <= scores.keys()


class StopAfterFirstRound:
    def run_started(self, folder, plan, round): ...

    def message(self, line): ...

    def round_committed(self, progress):
        if progress.round == 1:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("data", sorted(DATA))
@pytest.mark.parametrize("name", sorted(METHODS))
def test_backends_and_resuming_give_the_same_files(name, data, tmp_path):
    if data == "planted-table" and name in IMAGES_ONLY:
        pytest.skip("needs images")
    serial = files_of(run(name, data, tmp_path / "serial"))
    processes = files_of(run(name, data, tmp_path / "processes", backend="processes"))
    assert serial == processes
    with pytest.raises(Interrupted):
        run(name, data, tmp_path / "stopped", observers=[StopAfterFirstRound()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resumed = duotone.resume(tmp_path / "stopped")
    assert files_of(resumed) == serial
