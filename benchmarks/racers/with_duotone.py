"""duotone: FedAvg, serially or in worker processes; each round is saved, as in any run."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import course
from course import BATCH, CLASSES, EPOCHS, LR, SAMPLED, Clock, options
from duotone.data.dataset import Dataset
from duotone.federation.backends import Backend
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import federate
from duotone.federation.local_training import task_loss
from duotone.federation.serving import Serving
from duotone.federation.settings import MethodSettings
from duotone.federation.store import FolderStore
from duotone.measures.evaluation import evaluate
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import cnn
from duotone.partition.partition import Holding, Partition, Population
from workloads import Workload


def population_of(x: dict[str, np.ndarray], y: dict[str, np.ndarray]) -> Population:
    """Return clients of the arrays by split, whose axes are client, sample and the rest."""
    clients, train = y["train"].shape
    rows = np.arange(y["train"].size + y["test"].size)
    own = {"train": rows[: y["train"].size].reshape(clients, train)}
    own["test"] = rows[y["train"].size :].reshape(clients, -1)
    holdings = [
        Holding(f"c{n}", "all", "member", own["train"][n], rows[:0], own["test"][n])
        for n in range(clients)
    ]
    images = np.concatenate([x[split].reshape(-1, 28, 28) for split in ("train", "test")])
    labels = np.concatenate([y[split].ravel() for split in ("train", "test")])
    is_test = rows >= y["train"].size
    dataset = Dataset("race", images, labels, is_test, CLASSES)
    return Population(dataset, Partition.from_holdings(holdings))


def read_population(path: str) -> Population:
    """Return the clients of the file that the race has written."""
    with np.load(path) as file:
        x = {split: file[f"x_{split}"] for split in ("train", "test")}
        y = {split: file[f"y_{split}"] for split in ("train", "test")}
    return population_of(x, y)


def work_of(samples: int) -> Workload:
    """Return what is trained: the same for duotone and for the loop."""
    settings = MethodSettings(batch_size=BATCH, epochs=EPOCHS, lr=LR, lr_decay=1.0)
    return Workload("race", (28, 28), SAMPLED, samples, FedAvg(settings, cnn), task_loss)


def main() -> None:
    """Take turns."""
    given = options()
    samples = course.read(given.course)
    population = read_population(given.course)
    method = work_of(samples.y_train.shape[1]).method
    clock = Clock(samples)
    backend: Backend = Serial(method, population)
    if given.workers > 1:
        backend = Processes(method, population, given.workers)
        backend.is_ready(patience=None)
    with tempfile.TemporaryDirectory() as folder, backend:
        store = FolderStore(Path(folder))
        clock.lap(samples.weights)
        for result in federate(
            method,
            population,
            rounds=given.rounds,
            sampled=SAMPLED,
            backend=backend,
            states=store,
        ):
            if clock.evaluates:
                serving = Serving(result.server, result.info, "zero-shot")
                evaluate(serving, population.partition.clients, population, store, backend)
            store.commit(result.info.round, result.server, {})
            clock.lap(result.server.shared)


if __name__ == "__main__":
    main()
