"""Whole runs over Flower's messages on one machine leave the same files as every other backend."""

from __future__ import annotations

import gc
from importlib.util import find_spec

import pytest

import duotone
from duotone.errors import ConfigError, MissingExtraError
from duotone.methods import METHODS

pytest.importorskip("flwr")

FAST = ("fedbn",)
EVERY = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in sorted(METHODS)
]
FILES = ("metrics.csv", "summary.json", "ledger.csv", "ledger.json")


def finished(name, place, backends):
    return [
        duotone.run(
            method=name,
            data="mini-digits",
            partition={"scheme": "iid", "clients": 4, "max_train": 30, "max_test": 12},
            rounds=3,
            sampled=2,
            latents=10,
            backend=backend,
            workers=2,
            out=place / backend,
            observers=[Silent()],
        )
        for backend in backends
    ]


def assert_same(runs):
    states = [str(f.relative_to(runs[0].path)) for f in runs[0].path.glob("**/*.safetensors")]
    assert states
    for file in (*FILES, *states):
        first, *others = ((run.path / file).read_bytes() for run in runs)
        assert all(first == other for other in others), file


@pytest.mark.parametrize("name", EVERY)
def test_a_run_leaves_the_same_files_in_one_process_in_several_and_over_flower(name, tmp_path):
    assert_same(finished(name, tmp_path, ("serial", "processes", "flower")))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra flower-ray")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["fedavg", "fedbn", "ditto", "feddva"])
def test_a_run_leaves_the_same_files_on_the_actors_of_ray(name, tmp_path):
    assert_same(finished(name, tmp_path, ("serial", "flower-ray")))
    gc.collect()  # what Ray leaves open is found here, where its warnings are ignored


@pytest.mark.parametrize(
    ("backend", "package", "needs"),
    [
        ("flower", "flwr", "Flower"),
        ("flower-ray", "flwr", "Flower with Ray"),
        ("flower-ray", "ray", "Flower with Ray"),
    ],
)
def test_a_backend_whose_extra_is_missing_says_what_to_install(
    backend, package, needs, tmp_path, monkeypatch
):
    def find(name):
        return None if name == package else name

    monkeypatch.setattr("duotone.runs.plan.find_spec", find)
    with pytest.raises(MissingExtraError) as said:
        finished("fedavg", tmp_path, [backend])
    assert str(said.value) == (
        f"backend = '{backend}' needs {needs}, which is not installed; install it: "
        f"pip install 'duotone[{backend}]'"
    )


def test_actors_of_ray_have_no_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr("duotone.runs.plan.find_spec", lambda name: name)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(ConfigError, match="'flower-ray' computes without GPUs; set device = 'cpu'"):
        finished("fedavg", tmp_path, ["flower-ray"])


class Silent:
    def run_started(self, folder, plan, round):
        return

    def round_committed(self, progress):
        return

    def message(self, line):
        return
