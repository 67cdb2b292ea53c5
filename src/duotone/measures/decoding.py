"""Clients as holders of a model that decodes, with codes of some of their samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.params import stored
from duotone.federation.protocols import Decodes
from duotone.federation.serving import Serving
from duotone.measures.agreement import FloatArray
from duotone.measures.codes import EncodeJob
from duotone.measures.judges import Judges
from duotone.measures.judging import judges_of_made
from duotone.measures.measure import Scene
from duotone.networks.reading import BATCH
from duotone.partition.partition import Partition, Population
from duotone.seeding import stream
from duotone.types import Latents, Params, Role

Codes: TypeAlias = NDArray[np.float32]

_MEMBERS, _NEWCOMERS = 8, 4
SAMPLES = 64
"""Test samples of each client whose codes are taken."""


@travels
@dataclass(frozen=True, slots=True)
class ServeJob:
    """Encode a client's first test samples, and hand over the model that did it.

    The model is needed again to decode codes of others, and to get a newcomer's may take training.
    """

    level: ClassVar[Level] = "simulation"
    sends: ClassVar[str] = "model and codes"

    serving: Serving
    samples: int

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> tuple[Params, Codes, Codes]:
        """Return parameters, shared codes and local codes."""
        encode = EncodeJob(self.serving, self.samples, splits=("test",))
        codes = encode(method, population, task)
        used = method.module(self.serving.info.data).state_dict()
        params = {name: stored(tensor) for name, tensor in used.items()}
        return params, codes["shared/test"], codes["local/test"]


@dataclass(frozen=True, slots=True)
class Holder:
    """A client with its model, its codes, and what is true of the samples behind them."""

    client: str
    role: Role
    style: str
    params: Params
    shared: Codes
    local: Codes
    truth: dict[str, FloatArray]


def choose_holders(
    partition: Partition, style_of: Mapping[str, str], seed: int, members: int = _MEMBERS
) -> list[str]:
    """Return some members and newcomers that have test samples, of as many styles as possible."""
    chosen: list[str] = []
    most: dict[Role, int] = {"member": members, "newcomer": _NEWCOMERS}
    for role, limit in most.items():
        clients = [client for client in partition.of_role(role) if partition.size(client, "test")]
        order = stream(seed, "swap", "clients", role).permutation(len(clients)).tolist()
        # A second client of a style only after the first of every style.
        turns: Counter[str] = Counter()
        turn_of: dict[int, int] = {}
        for position in order:
            style = style_of[clients[position]]
            turn_of[position] = turns[style]
            turns[style] += 1
        taken = sorted(order, key=turn_of.__getitem__)[:limit]
        chosen += [clients[position] for position in sorted(taken)]
    return chosen


def encode_holders(scene: Scene, chosen: Sequence[str], known: Judges) -> list[Holder]:
    """Get the models and codes of some clients, with what the judges hold to be true of them."""
    population = scene.population
    found: list[Holder] = []
    for client, served in scene.ask(ServeJob(scene.serving, SAMPLES), chosen).items():
        holding = population.partition[client]
        truth = known.truth(population, client, holding.test[:SAMPLES])
        params, shared, local = served
        style = known.style_of[client]
        found.append(Holder(client, holding.role, style, params, shared, local, truth))
    return found


def holders(scene: Scene) -> list[Holder]:
    """Return some members and newcomers of a scene, with their models and codes."""
    known = scene.once(judges_of_made)
    chosen = choose_holders(scene.population.partition, known.style_of, scene.seed)
    return encode_holders(scene, chosen, known)


@torch.inference_mode()
def decode_codes(method: Decodes, model: nn.Module, shared: Codes, local: Codes) -> Tensor:
    """Return the samples that pairs of codes stand for."""
    parts = [torch.from_numpy(codes).to(method.device) for codes in (shared, local)]
    batches = zip(*(torch.split(codes, BATCH) for codes in parts), strict=True)
    return torch.cat([method.decode(model, Latents(*batch)).cpu() for batch in batches])
