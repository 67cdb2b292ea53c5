"""Ask every client about the same samples: what each says of the federation's background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.serving import Serving
from duotone.measures.decomposition import FloatArray
from duotone.networks.reading import in_batches
from duotone.partition.partition import Population
from duotone.seeding import stream
from duotone.types import DataInfo

BACKGROUND = 240
"""About how many samples of the federation stand for anything that may be asked."""
MOST_CLIENTS = 60
"""Members and newcomers each that are asked; beyond it a draw of them."""


def witnesses_among(members: Sequence[str], seed: int) -> list[str]:
    """Return the members that stand for everybody: all, or a fixed draw of many."""
    if len(members) <= MOST_CLIENTS:
        return list(members)
    chosen = stream(seed, "witnesses").choice(len(members), MOST_CLIENTS, replace=False)
    return [members[place] for place in sorted(chosen)]


def background(population: Population, members: Sequence[str]) -> tuple[Tensor, list[str]]:
    """Return test samples of members, the same number of each, and whose each of them is."""
    each = -(-BACKGROUND // len(members))
    found = [(name, population.data(name, "test").x[:each]) for name in members]
    return torch.cat([x for _, x in found]), [name for name, x in found for _ in x]


def background_labels(population: Population, members: Sequence[str]) -> list[int]:
    """Return the true classes of the same samples."""
    each = -(-BACKGROUND // len(members))
    found = [population.data(name, "test").labels[:each] for name in members]
    return [int(label) for own in found for label in own]


def as_answers(scores: Tensor, info: DataInfo) -> FloatArray:
    """Return scores as what is explained: probabilities of classes, or numbers."""
    scores = scores.double()
    probabilities = scores.softmax(dim=1) if info.task == "classes" else scores
    return np.asarray(probabilities.cpu().numpy(), np.float64)


@travels
@dataclass(frozen=True, slots=True)
class AskJob:
    """Ask a client about the background."""

    level: ClassVar[Level] = "simulation"
    sends: ClassVar[str] = "answers to all members' samples"

    serving: Serving
    members: tuple[str, ...]

    def __call__(self, method: Method, population: Population, task: ClientTask) -> FloatArray:
        """Return its answers, ``(samples, outputs)``."""
        model = self.serving.model(method, population, task)
        x, _ = background(population, self.members)
        with torch.inference_mode():
            scores = in_batches(lambda part: method.predict(model, part.to(method.device)), x)
        return as_answers(scores, population.info)
