"""What all contenders of the race share: samples, network, settings, and the clock.

Imported by scripts whose environments lack duotone: this file needs torch and numpy, nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

CLIENTS = 100
SAMPLED = 10
BATCH = 32
EVALUATION_BATCH = 100
EPOCHS = 2
LR = 0.05
CLASSES = 10
WORKERS = 2
CHECKED = 2000
"""Test samples on which every contender's model is scored after each turn, off the clock."""
TRAIN, EVALUATE = "train", "evaluate"
"""What a turn may be: a round; a round after which all clients are scored."""
LAYOUTS = {"first": torch.contiguous_format, "last": torch.channels_last}


class CNN(nn.Module):
    """The network of duotone's ``cnn`` for images of 28×28, tensor by tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * 7 * 7, 128)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        x = functional.relu(functional.max_pool2d(self.conv1(x * 2 - 1), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        scores: Tensor = self.head(functional.relu(self.fc1(x.flatten(1))))
        return scores


@dataclass(frozen=True)
class Course:
    """The samples of all clients, and the weights to start from.

    Attributes:
        x_train: Client, sample, channel, height, width; from 0 to 1.
        y_train: Client, sample.
        x_test: As ``x_train``.
        y_test: As ``y_train``.
        weights: The tensors of a :class:`CNN`.
    """

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    weights: dict[str, Tensor]

    def network(self, layout: str = "first") -> CNN:
        """Return the network before the first round."""
        model = CNN()
        model.load_state_dict(self.weights)
        model.to(memory_format=LAYOUTS[layout])
        return model


@cache
def read(path: str) -> Course:
    """Read the file that the race has written; once per process."""
    with np.load(path) as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    images = {name: arrays.pop(name).unsqueeze(2).float() / 255 for name in ("x_train", "x_test")}
    labels = {name: arrays.pop(name) for name in ("y_train", "y_test")}
    return Course(**images, **labels, weights=arrays)


def train(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Train on one client's samples: for frameworks that leave this to their users."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    model.train()
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()


@torch.inference_mode()
def score(model: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Return mean loss and accuracy."""
    model.eval()
    batches = zip(x.split(EVALUATION_BATCH), y.split(EVALUATION_BATCH), strict=True)
    loss = correct = 0.0
    for images, labels in batches:
        scores = model(images)
        loss += float(functional.cross_entropy(scores, labels, reduction="sum"))
        correct += float((scores.argmax(1) == labels).sum())
    return loss / len(y), correct / len(y)


class Clock:
    """Takes turns: one line of JSON goes out after each, one line comes in before the next.

    Whatever else the process prints goes to where its errors go.

    Args:
        course: Whose test samples the models are checked on.
        packages: Whose versions are reported before the first turn.

    Attributes:
        evaluates: Whether all clients are to be scored in the coming round.
    """

    def __init__(self, course: Course, *packages: str) -> None:
        self._lines = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._x = course.x_test.flatten(0, 1)[:CHECKED]
        self._y = course.y_test.flatten()[:CHECKED]
        self._versions = {name: version(name) for name in ("torch", *packages)}
        self._began: float | None = None
        self.evaluates = False

    def lap(self, weights: Mapping[str, Tensor]) -> None:
        """Say how long the round took and how good the model is; wait for the next turn.

        Called once before the first round, and after each.
        """
        seconds = None if self._began is None else perf_counter() - self._began
        worked = process_time()
        model = CNN()
        model.load_state_dict({name: tensor.detach() for name, tensor in weights.items()})
        loss, accuracy = score(model, self._x, self._y)
        said: dict[str, object] = {"loss": loss, "accuracy": accuracy}
        said["checking"] = process_time() - worked
        said |= {"versions": self._versions} if seconds is None else {"seconds": seconds}
        print(json.dumps(said), file=self._lines, flush=True)
        order = sys.stdin.readline().strip()
        if not order:
            os._exit(1)  # the race was given up
        self.evaluates = order == EVALUATE
        self._began = perf_counter()


def options() -> argparse.Namespace:
    """Return what the race asks of a contender."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--course", required=True, help="file with samples and weights")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--layout", choices=LAYOUTS, default="first", help="of channels in memory")
    parser.add_argument("--workers", type=int, default=1, help="processes that train")
    given = parser.parse_args()
    given.course = str(Path(given.course).resolve())
    return given
