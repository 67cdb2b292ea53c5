"""Evaluate clients: each with the model it would really use, on its own samples."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from duotone.errors import ClientError
from duotone.federation.backends import Backend, ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.engine import ClientStates
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.protocols import Decodes, FindsConcepts
from duotone.federation.screening import Refused
from duotone.federation.serving import Serving, by_client
from duotone.measures.measure import Row
from duotone.measures.metrics import classification_metrics, is_share, regression_metrics
from duotone.networks.reading import BATCH, in_batches
from duotone.partition.partition import Partition, Population
from duotone.seeding import stream
from duotone.types import ROLES, ClientData, Role

_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_MOST_SCORES = 1_000


@travels
@dataclass(frozen=True, slots=True)
class EvaluateJob:
    """Score a client's predictions on its validation and test samples."""

    level: ClassVar[Level] = "scores"
    sends: ClassVar[str] = "scores"

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

    def screened(self, answer: Any, client: str, population: Population | None) -> dict[str, float]:
        """Return the scores, if they are finite numbers under short names, and shares are shares.

        Raises:
            Refused: They are not.
        """
        if not isinstance(answer, dict) or len(answer) > _MOST_SCORES:
            raise Refused("its scores are no named numbers")
        for name, value in answer.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise Refused("a score has a strange name")
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value):
                raise Refused(f"its score {name} is no number")
            if is_share(name.removeprefix("val_")) and not 0 <= value <= 1:
                raise Refused(f"its score {name} is {value:g}, and a share lies between 0 and 1")
        return {name: float(value) for name, value in answer.items()}


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


def choose_clients(partition: Partition, limit: int, seed: int) -> list[str]:
    """Return the clients to evaluate: at most ``limit`` members and newcomers each.

    The choice is the same in every round of a run. Clients without test samples have no score.
    """
    chosen: list[str] = []
    for role in ROLES:
        positions = _tested(partition, role)
        if len(positions) > limit:
            rng = stream(seed, "evaluate", role)
            positions = positions[np.sort(rng.choice(len(positions), size=limit, replace=False))]
        chosen.extend(partition.clients[position] for position in positions)
    return chosen


def chosen_of_all(partition: Partition, limit: int) -> str:
    """Say how many clients are evaluated; nothing if all are.

    >>> from duotone.partition.partition import SPLITS
    >>> ends = {split: np.arange(6) for split in SPLITS}
    >>> five = Partition("abcde", ["all"] * 5, ["member"] * 5, {}, ends)
    >>> chosen_of_all(five, 2)
    'Scores are those of 2 of 5 members, drawn at random once; evaluate_clients says how many.'
    >>> chosen_of_all(five, 5)
    ''
    """
    counts = {role: len(_tested(partition, role)) for role in ROLES}
    told = [f"{limit:,} of {many:,} {role}s" for role, many in counts.items() if many > limit]
    if not told:
        return ""
    return (
        f"Scores are those of {' and '.join(told)}, drawn at random once; evaluate_clients says "
        "how many."
    )


def _tested(partition: Partition, role: Role) -> NDArray[np.int64]:
    """Return the positions of the clients of a role that have test samples."""
    return np.flatnonzero(partition.roles.is_word(role) & (np.diff(partition.offsets["test"]) > 0))


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
