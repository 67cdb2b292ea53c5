"""FedLab's standalone pipeline: one process, a DataLoader per client."""

from __future__ import annotations

import sys
from types import ModuleType

import torch
from torch.utils.data import DataLoader, TensorDataset

import course
from course import BATCH, CLIENTS, EPOCHS, EVALUATION_BATCH, LR, SAMPLED, Clock, Course, options

# FedLab imports torchvision for data sets that nobody loads here, and torchvision has no build for
# the torch of the race: empty modules of that name let the import pass.
for name in ("torchvision", "torchvision.transforms"):
    sys.modules[name] = ModuleType(name)

from fedlab.contrib.algorithm.fedavg import (  # noqa: E402
    FedAvgSerialClientTrainer,
    FedAvgServerHandler,
)
from fedlab.contrib.dataset.basic_dataset import FedDataset  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402
from fedlab.utils.functional import evaluate  # noqa: E402


class Samples(FedDataset):
    """Each client's samples, as FedLab asks for them."""

    def __init__(self, samples: Course) -> None:
        super().__init__()
        self.train = list(map(TensorDataset, samples.x_train, samples.y_train))
        self.test = list(map(TensorDataset, samples.x_test, samples.y_test))

    def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> DataLoader:
        """Return the batches of one client."""
        if type == "train":
            return DataLoader(self.train[id], batch_size=batch_size, shuffle=True)
        return DataLoader(self.test[id], batch_size=batch_size)


class Pipeline(StandalonePipeline):
    """FedLab calls ``evaluate`` after each round; what it does there is up to its users."""

    def __init__(
        self, handler: FedAvgServerHandler, trainer: FedAvgSerialClientTrainer, clock: Clock
    ) -> None:
        super().__init__(handler, trainer)
        self.clock = clock

    def evaluate(self) -> None:
        """Score all clients if that was asked for, and stop the clock."""
        model = self.handler.model
        for id in range(CLIENTS if self.clock.evaluates else 0):
            loader = self.trainer.dataset.get_dataloader(id, EVALUATION_BATCH, "test")
            evaluate(model, torch.nn.CrossEntropyLoss(), loader)
        self.clock.lap(model.state_dict())


if __name__ == "__main__":
    given = options()
    samples = course.read(given.course)
    clock = Clock(samples, "fedlab")
    model = samples.network(given.layout)
    handler = FedAvgServerHandler(model, given.rounds, SAMPLED / CLIENTS)
    trainer = FedAvgSerialClientTrainer(model, CLIENTS)
    trainer.setup_dataset(Samples(samples))
    trainer.setup_optim(EPOCHS, BATCH, LR)
    clock.lap(model.state_dict())
    Pipeline(handler, trainer, clock).main()
