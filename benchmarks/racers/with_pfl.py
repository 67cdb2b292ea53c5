"""Apple's pfl-research: simulated backend, in one process or in two that torchrun starts."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from torch import Tensor
from torch.nn import functional

import course
from course import BATCH, CLIENTS, CNN, EPOCHS, EVALUATION_BATCH, LR, SAMPLED, Clock, options


class Network(CNN):
    """The network with the two questions that pfl asks of one."""

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return what is minimised."""
        self.train()
        return functional.cross_entropy(self(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Weighted]:
        """Return loss and accuracy, summed."""
        self.eval()
        scores = self(x)
        loss = float(functional.cross_entropy(scores, y, reduction="sum"))
        correct = int((scores.argmax(1) == y).sum())
        return {"loss": Weighted(loss, len(y)), "accuracy": Weighted(correct, len(y))}


class Laps(TrainingProcessCallback):
    """Stops the clock after each round; the second process waits with the first."""

    def __init__(self, clock: Clock | None, workers: int) -> None:
        self.clock, self.workers = clock, workers
        self.evaluates = torch.zeros(())

    def _lap(self, model: PyTorchModel) -> Metrics:
        if self.clock:
            self.clock.lap(model.pytorch_model.state_dict())
            self.evaluates.fill_(self.clock.evaluates)
        if self.workers > 1:
            torch.distributed.broadcast(self.evaluates, src=0)
        return Metrics()

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        """Get ready."""
        return self._lap(model)

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """End a round."""
        return False, self._lap(model)


class TrainOrEvaluate(FederatedAveraging):
    """FedAvg that scores clients when the race says so, and does not score those that train too.

    Args:
        laps: Knows what the race says.
    """

    def __init__(self, laps: Laps) -> None:
        super().__init__()
        self.laps = laps

    def get_next_central_contexts(self, *args: Any, **kwargs: Any) -> Any:
        """Return what to do next."""
        contexts, model, metrics = super().get_next_central_contexts(*args, **kwargs)
        if contexts is None:
            return None, model, metrics
        train, evaluate = contexts
        lean = replace(train, do_evaluation=False)
        return ((lean, evaluate) if self.laps.evaluates else (lean,)), model, metrics


def federation(x: Tensor, y: Tensor) -> FederatedDataset:
    """Return clients that are drawn in turn, none of them twice in a round."""
    return FederatedDataset(
        lambda user: PyTorchTensorDataset((x[user], y[user]), user_id=str(user)),
        get_user_sampler("minimize_reuse", list(range(CLIENTS))),
    )


if __name__ == "__main__":
    given = options()
    asyncio.set_event_loop(asyncio.new_event_loop())
    np.random.seed(0)  # noqa: NPY002  pfl draws from it, alike in both processes
    samples = course.read(given.course)
    if given.workers > 1:
        torch.set_num_threads(1)
    model = Network()
    model.load_state_dict(samples.weights)
    model.to(memory_format=course.LAYOUTS[given.layout])
    is_first = int(os.environ.get("RANK", 0)) == 0
    train = NNTrainHyperParams(
        local_batch_size=BATCH, local_num_epochs=EPOCHS, local_learning_rate=LR
    )
    laps = Laps(Clock(samples, "pfl") if is_first else None, given.workers)
    TrainOrEvaluate(laps).run(
        NNAlgorithmParams(
            central_num_iterations=given.rounds,
            evaluation_frequency=1,
            train_cohort_size=SAMPLED,
            val_cohort_size=CLIENTS,
        ),
        SimulatedBackend(
            federation(samples.x_train, samples.y_train),
            federation(samples.x_test, samples.y_test),
        ),
        # A central step of length one along the mean update is the mean of the models.
        PyTorchModel(model, torch.optim.SGD, torch.optim.SGD(model.parameters(), lr=1.0)),
        train,
        NNEvalHyperParams(local_batch_size=EVALUATION_BATCH),
        [laps],
        send_metrics_to_platform=False,
    )
