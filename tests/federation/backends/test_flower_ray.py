"""Flower's simulation engine on Ray: where the same bits come from many processes."""

from __future__ import annotations

import gc
import os
import signal
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from federations import make_population

pytest.importorskip("flwr")
pytest.importorskip("ray")

import ray

from duotone.errors import TrainingError
from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.backends.flower_ray import RayFlower
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import mlp
from duotone.networks.reading import as_network

pytestmark = [
    pytest.mark.slow,
    # Sockets and files that Ray opens are closed when it shuts down, or by nobody.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _collected():
    """Let what Ray leaves open be found here, where its warnings are ignored."""
    yield
    gc.collect()


@travels
@dataclass(frozen=True)
class EndOnce:
    """Ends the actor in the middle of the first client, and of every hopeless one."""

    level: ClassVar = "scores"
    mark: str

    def __call__(self, method, population, task):
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            if task.client != "c1":
                return [os.getpid(), torch.get_num_threads(), len(population.data(task.client).x)]
        os._exit(7)


@pytest.fixture
def federation():
    method, population = FedAvg(FedAvg.Config(), as_network(mlp)), make_population()
    before = dict(os.environ), signal.getsignal(signal.SIGTERM)
    with RayFlower(method, population, workers=2) as backend:
        assert (dict(os.environ), signal.getsignal(signal.SIGTERM)) == before
        yield backend
    assert not ray.is_initialized()


def test_an_actor_that_dies_is_replaced_and_a_client_that_kills_two_has_failed(
    federation, tmp_path
):
    tasks = [ClientTask(client, None) for client in ("c0", "c1", "c2")]
    job = EndOnce(str(tmp_path / "mark"))
    for _ in range(2):  # the actors are as good afterwards as before
        found = {result.client: result for result in federation.map_clients(job, tasks)}
        assert found.keys() == {"c0", "c1", "c2"}
        assert "its node failed: " in found["c1"].failure.reason
        for client in ("c0", "c2"):
            pid, threads, samples = found[client].value
            assert pid != os.getpid()
            assert threads == 1
            assert samples == len(federation_data(client))


def federation_data(client):
    return make_population().data(client).x


def test_a_ray_that_does_not_start_is_said_in_one_line(monkeypatch):
    def init(**settings):
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", init)
    method, population = FedAvg(FedAvg.Config(), as_network(mlp)), make_population()
    with pytest.raises(TrainingError, match="Ray did not start: The current node timed out"):
        RayFlower(method, population, workers=2)


def test_a_ray_that_was_running_before_is_left_running(monkeypatch):
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # it warns otherwise
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        method, population = FedAvg(FedAvg.Config(), as_network(mlp)), make_population()
        with RayFlower(method, population, workers=2) as backend:
            assert backend.at_once == 2
        assert ray.is_initialized()
    finally:
        ray.shutdown()
