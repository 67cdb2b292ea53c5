"""Evaluate clients: each with the model it would really use, on its own samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from duotone.errors import ClientError
from duotone.federation.backends import Backend, ClientTask
from duotone.federation.engine import ClientStates
from duotone.federation.method import Method
from duotone.federation.protocols import Decodes, FindsConcepts
from duotone.federation.serving import Serving, by_client
from duotone.measures.metrics import classification_metrics, regression_metrics
from duotone.networks.reading import BATCH, in_batches
from duotone.partition.partition import Partition, Population
from duotone.seeding import stream
from duotone.types import (
    ClientData,
    Params,
    Role,
    Split,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tidy table that everything downstream reads."""

    round: int
    client: str
    group: str
    role: Role
    part: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class EvaluateJob:
    """Score a client's predictions on its validation and test samples."""

    serving: Serving

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> dict[str, float]:
        """Return metrics and facts by name; validation metrics start with ``val_``.

        Raises:
            ClientError: The model answers with something that is not a number.
        """
        model = self.serving.model(method, population, task)
        scores = _scores(method, model, population.data(task.client, "test"))
        if len(population.partition[task.client].val):
            validation = _scores(method, model, population.data(task.client, "val"))
            scores |= {f"val_{name}": value for name, value in validation.items()}
        return scores | (method.facts(model) if isinstance(method, FindsConcepts) else {})


@torch.inference_mode()
def _scores(method: Method, model: nn.Module, data: ClientData) -> dict[str, float]:
    output = in_batches(lambda x: method.predict(model, x.to(method.device)), data.x)
    output = output.cpu().double()
    bad = int((~torch.isfinite(output)).flatten(1).any(dim=1).sum())
    if bad:  # the largest of them would be called class 0
        raise ClientError(
            f"its model answers NaN or infinite values to {bad} of {len(output)} samples"
        )
    y = data.labels.numpy()
    if data.info.task == "regression":
        scores = regression_metrics(y.astype(np.float64), output.squeeze(1).numpy())
    else:
        scores = classification_metrics(y, output.numpy())
    if isinstance(method, Decodes):
        scores["reconstruction"] = _reconstruction_error(method, model, data)
    return scores


def _reconstruction_error(method: Decodes, model: nn.Module, data: ClientData) -> float:
    """Return the squared error of decoded codes: summed over a sample, mean over samples."""
    total = 0.0
    for batch in torch.split(data.x, BATCH):
        x = batch.to(method.device)
        total += float((method.decode(model, method.encode(model, x)) - x).square().sum())
    return total / len(data)


def choose_clients(partition: Partition, limit: int | None, seed: int) -> list[str]:
    """Return the clients to evaluate: all, or at most ``limit`` members and newcomers each.

    The choice is the same in every round of a run. Clients without test samples have no score.
    """
    chosen: list[str] = []
    for role in ("member", "newcomer"):
        clients = tuple(c for c in partition.of_role(role) if partition.size(c, "test"))
        if limit is not None and len(clients) > limit:
            rng = stream(seed, "evaluate", role)
            picked = sorted(rng.choice(len(clients), size=limit, replace=False))
            clients = tuple(clients[position] for position in picked)
        chosen.extend(clients)
    return chosen


def evaluate(
    serving: Serving,
    clients: Sequence[str],
    population: Population,
    states: ClientStates,
    backend: Backend,
) -> list[Row]:
    """Evaluate clients; return rows in the order of ``clients``, none for those that fail."""
    found = by_client(EvaluateJob(serving), clients, population, states, backend)
    rows: list[Row] = []
    for client, scores in found.items():
        holding = population.partition[client]
        rows.extend(
            Row(serving.info.round, client, holding.group, holding.role, "both", metric, value)
            for metric, value in sorted(scores.items())
        )
    return rows


@dataclass(frozen=True, slots=True)
class EncodeJob:
    """Compute a client's representations of its first samples of some splits.

    Attributes:
        serving: How the client gets its own model.
        samples: How many samples of each split.
        others: More models, the same for every client, whose codes are wanted too.
        splits: The splits.
    """

    serving: Serving
    samples: int
    others: Mapping[str, Params] = field(default_factory=dict)
    splits: tuple[Split, ...] = ("train", "test")

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> dict[str, NDArray[np.float32]]:
        """Return arrays ``part/split``: shared, local and, where there are any, their stds.

        Codes of another model have its name in front: ``untrained_shared/test``.
        """
        arrays: dict[str, NDArray[np.float32]] = {}
        data = {
            split: population.data(task.client, split).first(self.samples) for split in self.splits
        }
        for name, params in {
            "": self.serving.personal(method, population, task),
            **self.others,
        }.items():
            model = method.load(params, self.serving.info.data).eval()
            for split in self.splits:
                codes = _codes(method, model, data[split])
                for part, values in codes.items():
                    if not name or part in ("shared", "local"):  # of others the means suffice
                        arrays[f"{name}{part}/{split}"] = values
        return arrays


@torch.inference_mode()
def _codes(method: Method, model: nn.Module, data: ClientData) -> dict[str, NDArray[np.float32]]:
    latents = [method.encode(model, x.to(method.device)) for x in torch.split(data.x, BATCH)]
    arrays: dict[str, NDArray[np.float32]] = {}
    for part in ("shared", "local", "shared_std", "local_std"):
        pieces = [getattr(latent, part) for latent in latents]
        if pieces[0] is not None:
            codes = torch.cat(pieces).cpu()
            if not bool(torch.isfinite(codes).all()):
                raise ClientError(f"its {part} codes hold NaN or infinite values")
            arrays[part] = codes.numpy()
    return arrays
