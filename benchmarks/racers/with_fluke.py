"""fluke: one process, its own data loader, observers."""

from __future__ import annotations

from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import DataSplitter, DummyDataContainer, FastDataLoader
from fluke.evaluation import ClassificationEval
from fluke.utils import FederationObserver
from torch import Tensor
from torchmetrics import Accuracy

import course
from course import BATCH, CLASSES, CLIENTS, EPOCHS, EVALUATION_BATCH, LR, SAMPLED, Clock, options


class Laps(FederationObserver):
    """Stops the clock after each round."""

    def __init__(self, federation: FedAVG, clock: Clock) -> None:
        self.federation, self.clock = federation, clock
        self.end_round(0)

    def end_round(self, round: int) -> None:
        """End a round."""
        self.clock.lap(self.federation.server.model.state_dict())
        # fluke's server scores its model on each loader of a list apart: on each client's samples.
        FlukeENV().set_eval_cfg(server=self.clock.evaluates)


def loaders(x: Tensor, y: Tensor, size: int, shuffle: bool) -> list[FastDataLoader]:
    """Return each client's samples, as fluke asks for them."""
    return [
        FastDataLoader(*own, num_labels=CLASSES, batch_size=size, shuffle=shuffle)
        for own in zip(x, y, strict=True)
    ]


if __name__ == "__main__":
    given = options()
    samples = course.read(given.course)
    clock = Clock(samples, "fluke-fl")
    environment = FlukeENV()
    environment.set_seed(0)
    accuracy = Accuracy(task="multiclass", num_classes=CLASSES)
    environment.set_evaluator(ClassificationEval(1, CLASSES, accuracy=accuracy))
    test = loaders(samples.x_test, samples.y_test, EVALUATION_BATCH, shuffle=False)
    data = DummyDataContainer(
        loaders(samples.x_train, samples.y_train, BATCH, shuffle=True), test, test, CLASSES
    )
    settings = DDict(
        client=DDict(
            batch_size=BATCH,
            local_epochs=EPOCHS,
            loss="CrossEntropyLoss",
            optimizer=DDict(name="SGD", lr=LR),
            scheduler=DDict(name="StepLR", step_size=1, gamma=1.0),
        ),
        server=DDict(weighted=True),
        model=samples.network(given.layout),
    )
    federation = FedAVG(CLIENTS, DataSplitter(data), settings)
    federation.set_callbacks(Laps(federation, clock))
    federation.run(given.rounds, SAMPLED / CLIENTS)
