"""Let clients' models draw samples; all of them get the same draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.protocols import Generates
from duotone.federation.serving import Serving
from duotone.networks.reading import BATCH
from duotone.partition.partition import Population
from duotone.seeding import derive, stream
from duotone.types import NO_LABEL, Draws, Role

Samples: TypeAlias = NDArray[np.float32]

OWN, SWAPPED = 500, 300
"""Samples of each client: drawn as its own, and drawn to compare one change with another."""
ROW, GRID = 10, 8
"""Samples in a client's row of the sheet of all, and in each direction of its own sheet."""


class ClientFindings(TypedDict, total=False):
    """What was found of one client; what could not be told is left out."""

    client: str
    kind: Role
    style: str
    fd: float
    floor: float
    own_style: float
    labels: float
    same_content: float
    same_style: float
    seen_label: float
    unseen_label: float
    unseen_style: float


class PairFindings(TypedDict):
    """How often the same draws show the same label at two members, beside chance."""

    first: str
    second: str
    same_label: float
    chance: float


@travels
@dataclass(frozen=True, slots=True)
class GenerateJob:
    """Generate with one client's model; all clients get the same draws."""

    level: ClassVar[Level] = "simulation"
    sends: ClassVar[str] = "generated samples"

    serving: Serving

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> dict[str, Samples]:
        """Return samples by name.

        ``own`` are like the client's, with labels as it has them where labels can be asked for.
        ``base`` have labels of all classes alike; ``new_style`` are the same with other draws of
        style, ``new_content`` with other draws of content. ``row`` and ``grid`` are for sheets.
        """
        assert isinstance(method, Generates)
        info, seed = self.serving.info.data, self.serving.info.seed
        model = self.serving.model(method, population, task)
        first, other = (
            method.draw(model, count, torch.Generator().manual_seed(derive(seed, "generate", name)))
            for name, count in (("first", OWN), ("other", SWAPPED))
        )
        base = Draws(first.content[:SWAPPED], first.style[:SWAPPED])
        across = torch.arange(GRID).repeat(GRID)
        down = torch.arange(GRID).repeat_interleave(GRID)
        wanted: dict[str, tuple[Draws, Tensor | None]] = {
            "own": (first, None),
            "base": (base, None),
            "new_style": (Draws(base.content, other.style), None),
            "new_content": (Draws(other.content, base.style), None),
            "row": (Draws(base.content[:ROW], base.style[:ROW]), None),
            "grid": (Draws(base.content[down], base.style[across]), None),
        }
        if asks_labels(method, population):
            asked = {
                "own": own_labels(population, task.client, OWN, seed),
                "base": asked_labels(info.outputs, SWAPPED),
                "new_style": asked_labels(info.outputs, SWAPPED),
                "new_content": asked_labels(info.outputs, SWAPPED, first=1),
                "row": asked_labels(info.outputs, ROW),
                "grid": down % info.outputs,
            }
            wanted = {name: (draws, asked[name]) for name, (draws, _) in wanted.items()}
        return {
            name: generated(method, model, draws, label).numpy()
            for name, (draws, label) in wanted.items()
        }


@travels
@dataclass(frozen=True, slots=True)
class SampleJob:
    """Generate a few samples with one client's model; all clients get the same draws and labels."""

    level: ClassVar[Level] = "simulation"
    sends: ClassVar[str] = "generated samples"

    serving: Serving

    def __call__(self, method: Method, population: Population, task: ClientTask) -> Samples:
        """Return one row of samples."""
        assert isinstance(method, Generates)
        model = self.serving.model(method, population, task)
        generator = torch.Generator().manual_seed(derive(self.serving.info.seed, "generate", "row"))
        label = None
        if asks_labels(method, population):
            label = asked_labels(population.info.outputs, ROW)
        return generated(method, model, method.draw(model, ROW, generator), label).numpy()


def asks_labels(method: Generates, population: Population) -> bool:
    """Say whether samples of a label can be asked for."""
    return method.draws_labels and population.info.task == "classes"


def known_labels(population: Population, client: str) -> NDArray[np.int64]:
    """Return the labels of a client's training samples, as far as they are known."""
    labels = population.data(client).labels.numpy()
    known: NDArray[np.int64] = labels[labels != NO_LABEL]
    return known


def own_labels(population: Population, client: str, count: int, seed: int) -> Tensor:
    """Draw labels as often as a client has them."""
    rng = stream(seed, "generate", "labels", client)
    return torch.from_numpy(rng.choice(known_labels(population, client), count))


def asked_labels(classes: int, count: int, first: int = 0) -> Tensor:
    """Return one label after the other, over and over."""
    return (first + torch.arange(count)) % classes


@torch.inference_mode()
def generated(
    method: Generates, model: nn.Module, draws: Draws, label: Tensor | None = None
) -> Tensor:
    """Return a sample for each draw."""
    count = len(draws.content)
    parts: list[Tensor] = []
    for start in range(0, count, BATCH):
        rows = slice(start, start + BATCH)
        some = Draws(draws.content[rows], draws.style[rows])
        asked = None if label is None else label[rows]
        parts.append(method.generate(model, some, asked).float().cpu())
    return torch.cat(parts)
