"""Evaluate clients: each with the model it would really use, on its own samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from duotone.errors import ClientError
from duotone.evaluation.metrics import classification_metrics, regression_metrics
from duotone.federation.answers import AnswerLog, answers
from duotone.federation.backends import Backend, ClientJob, ClientTask
from duotone.federation.engine import ClientStates, client_randomness, largest_first, member_state
from duotone.federation.method import Method
from duotone.federation.personalise import Personalisation, personalised
from duotone.federation.protocols import Decodes, FindsConcepts
from duotone.federation.store import Shelf
from duotone.partition.partition import Partition, Population
from duotone.seeding import stream
from duotone.types import (
    ClientData,
    ClientState,
    Kind,
    NewcomerRule,
    Params,
    RoundInfo,
    ServerState,
    Split,
)

BATCH = 100  # fastest on a CPU: larger batches leave the cache


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tidy table that everything downstream reads."""

    round: int
    client: str
    group: str
    kind: Kind
    part: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Serving:
    """How a client gets the model it uses after a round.

    Attributes:
        server: The server's state.
        info: The round.
        rule: What newcomers start from.
        shots: Samples a newcomer has, if not all of its training samples.
        chosen: How clients adjust their models to their inputs, if they do.
        shelf: Where adapted states are kept for the next question about the same clients.
    """

    server: ServerState
    info: RoundInfo
    rule: NewcomerRule
    shots: int | None = None
    chosen: Personalisation | None = None
    shelf: Shelf | None = None

    def model(self, method: Method, population: Population, task: ClientTask) -> nn.Module:
        """Return the client's model, in evaluation mode."""
        return method.load(self.personal(method, population, task), self.info.data).eval()

    def personal(self, method: Method, population: Population, task: ClientTask) -> Params:
        """Return the parameters a client uses.

        A member takes its last local step on its training data. A newcomer starts from what the
        rule allows; it has never been seen, so nothing else is known of it.

        Raises:
            ClientError: They are not numbers.
        """
        server = self.server.copied()  # what a client does to it is its own affair
        data = population.data(task.client).to(method.device)
        is_member = population.partition[task.client].kind == "member"
        allowed = data if is_member else self._allowed(data)
        state = None if self.shelf is None else self.shelf.get(task.client)
        if state is None:
            with client_randomness(self.info, task.client):
                if is_member:
                    stored = member_state(method, server, task, self.info)
                    state = method.before_use(server, stored, data, self.info)
                else:
                    state = self._newcomer(method, server, allowed)
            if self.shelf is not None:
                self.shelf.put(task.client, state)
        params = method.personal(server, state)
        if self.chosen is not None and allowed is not None:
            params = personalised(method, params, allowed.x, self.info, self.chosen)
        # Infinite values may be meant: networks keep masks of them.
        broken = [name for name, tensor in params.items() if bool(torch.isnan(tensor).any())]
        if broken:
            raise ClientError(f"its model answers NaN: {broken[0]} holds it")
        return params

    def _newcomer(
        self, method: Method, server: ServerState, allowed: ClientData | None
    ) -> ClientState:
        """Return a newcomer's state; some methods have no rule for inputs without labels."""
        is_unused = self.rule == "label-free" and "label-free" not in method.rules(method.config)
        if allowed is None or is_unused:
            return method.first_state(server, self.info)
        return method.join(server, allowed, self.info)

    def _allowed(self, data: ClientData) -> ClientData | None:
        """Return what a newcomer may show of its training data."""
        if self.rule == "zero-shot":
            return None
        given = data if self.shots is None else data.first(self.shots)
        return given.without_labels() if self.rule == "label-free" else given


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
    outputs = [method.predict(model, x.to(method.device)) for x in torch.split(data.x, BATCH)]
    output = torch.cat(outputs).cpu().double()
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
    for kind in ("member", "newcomer"):
        clients = tuple(c for c in partition.of_kind(kind) if partition.size(c, "test"))
        if limit is not None and len(clients) > limit:
            rng = stream(seed, "evaluate", kind)
            picked = sorted(rng.choice(len(clients), size=limit, replace=False))
            clients = tuple(clients[position] for position in picked)
        chosen.extend(clients)
    return chosen


def by_client(
    job: ClientJob,
    clients: Sequence[str],
    population: Population,
    states: ClientStates,
    backend: Backend,
) -> dict[str, Any]:
    """Do a job for some clients; return what each gave, in the order of ``clients``.

    A client that fails or does not answer is left out, and the user told so.

    Raises:
        DuotoneError: Nobody answered, and all for the same reason.
    """
    # States are fetched one by one, so that memory does not grow with the number of clients.
    order = largest_first(clients, population)
    tasks = (ClientTask(client, states.get(client)) for client in order)
    log = AnswerLog()
    found = dict(answers(backend, job, tasks, clients, log))
    if not found:
        log.raise_common()
    for client, reason in sorted(log.refused.items()):
        backend.say(f"Client {client!r} is left out: {reason}.")
    return {client: found[client] for client in clients if client in found}


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
            Row(serving.info.round, client, holding.group, holding.kind, "both", metric, value)
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
