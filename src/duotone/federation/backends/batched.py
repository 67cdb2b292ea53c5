"""Clients trained side by side, in this process and on one thread, as one stack of networks.

With a small network on a table, what takes time is not arithmetic but the calls around it. Many
clients that take the same step need these calls once. The sums inside a matrix product come in
another order than for one client alone, so results are those of the other backends to rounding,
and not bit for bit.

Only networks of linear layers and functions of single samples can be stacked, and only methods
that train their clients in the usual way. Whatever is not such training is computed as
:class:`~duotone.federation.backends.serial.Serial` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from duotone.federation.backends import ClientJob, ClientResult, ClientTask
from duotone.federation.backends.serial import Serial, one_thread
from duotone.federation.jobs import TrainJob, client_randomness, member_state
from duotone.federation.local_training import descend, loss_of, make_optimizer, passes
from duotone.federation.method import Method
from duotone.federation.optimizers import Optimizer
from duotone.networks.stacked import Stack, is_by_sample
from duotone.types import ClientData, DataInfo, Params

SIDE_BY_SIDE = 32
"""Clients in a stack: what is in memory at once."""


class Batched(Serial):
    """Trains clients side by side, and computes everything else one by one."""

    def map_clients(self, job: ClientJob, tasks: Iterable[ClientTask]) -> Iterator[ClientResult]:
        """Yield results; those of a stack come together."""
        if not isinstance(job, TrainJob):
            yield from super().map_clients(job, tasks)
            return
        hostile = job.attack.hostile if job.attack is not None else ()
        queue = iter(tasks)
        while stack := list(islice(queue, SIDE_BY_SIDE)):
            alone = [task for task in stack if task.client in hostile]
            together = [task for task in stack if task.client not in hostile]
            try:
                with one_thread():
                    results = self._trained(job, together)
            except Exception as error:  # one is to blame, and must not stop the others
                self.say(f"Training {len(together)} clients one after the other: {error}")
                results, alone = [], stack
            yield from results
            yield from super().map_clients(job, alone)

    def _trained(self, job: TrainJob, tasks: Sequence[ClientTask]) -> list[ClientResult]:
        courses = [self._course(job, task) for task in tasks]
        if not courses:
            return []
        # Who is done sooner comes later, so that those still at work are always the first ones.
        courses.sort(key=lambda course: len(course.data), reverse=True)
        stack = Stack(self.method.module(job.info.data), len(courses))
        for name, tensor in stack.model.named_parameters():
            tensor.data = torch.stack([course.start[name] for course in courses])
        # Of those who are done, only these know where they ended.
        ends = {name: tensor.data for name, tensor in stack.model.named_parameters()}
        losses = self._train(stack, courses, job)
        results = []
        for number, (course, loss) in enumerate(zip(courses, losses, strict=True)):
            end = {name: tensor[number] for name, tensor in ends.items()}
            trained = self.method.load(end, job.info.data)
            value = self.method.trained(trained, course.data, loss)
            results.append(ClientResult(course.data.client, value))
        return results

    def _course(self, job: TrainJob, task: ClientTask) -> _Course:
        """Prepare a client as a :class:`TrainJob` and the method's ``client_update`` do."""
        data = self.population.data(task.client).to(self.method.device)
        server = job.server.copied()
        with client_randomness(job.info, task.client):
            state = member_state(self.method, server, task, job.info)
            start = self.method.personal(server, state)
        epochs = [list(epoch) for epoch in passes(data, self.method.config, job.info)]
        return _Course(data, start, [rows for epoch in epochs for rows in epoch], len(epochs[-1]))

    def _train(self, stack: Stack, courses: Sequence[_Course], job: TrainJob) -> list[float]:
        """Train a stack in place; return each client's mean loss in the last epoch."""
        settings = self.method.config
        chosen = [p for p in stack.model.parameters() if p.requires_grad]
        optimizer = make_optimizer(chosen, settings, settings.lr_at(job.info.round))
        optimizer.stacks = True
        samples = _Samples(courses)
        stack.model.train()
        told: list[list[float]] = [[] for _ in courses]
        working = len(courses)
        for step in range(len(courses[0].steps)):
            still = sum(len(course.steps) > step for course in courses[:working])
            if still < working:
                optimizer.keep_first(still)
                working = still
            means = _stepped(stack, optimizer, samples.batch(step, working))
            for own, mean in zip(told, means, strict=False):
                own.append(mean)
        return [course.last_mean(own) for course, own in zip(courses, told, strict=True)]


def _stepped(stack: Stack, optimizer: Optimizer, batch: _Batch) -> list[float]:
    """Take one step with every client; return the mean loss of each."""
    stack.runs[:] = [(len(list(same)), count) for count, same in groupby(batch.counts)]
    losses = loss_of(stack.model(batch.x), batch.y, reduction="none")
    shares = 1 / torch.tensor(batch.counts, dtype=torch.float32)
    weighed = losses * shares[batch.owner]
    descend(optimizer, weighed.sum())  # each loss depends on the parameters of one client alone
    means: list[float] = shares.zero_().index_add_(0, batch.owner, weighed.detach()).tolist()
    return means


@dataclass(frozen=True, slots=True)
class _Course:
    """A client's way through a round.

    Attributes:
        data: Its samples.
        start: The parameters it starts from.
        steps: The rows of every batch, in order.
        last: How many of the steps are the last epoch's.
    """

    data: ClientData
    start: Params
    steps: list[Tensor]
    last: int

    def last_mean(self, losses: Sequence[float]) -> float:
        """Return the last epoch's mean loss over samples from the mean loss of every step."""
        last = zip(losses[-self.last :], self.steps[-self.last :], strict=True)
        return sum(mean * len(rows) for mean, rows in last) / len(self.data)


class _Samples:
    """The samples of several clients, in one place.

    Args:
        courses: The clients; those with more steps first.
    """

    def __init__(self, courses: Sequence[_Course]) -> None:
        self.courses = courses
        self.x = torch.cat([course.data.x for course in courses])
        self.y = torch.cat([course.data.labels for course in courses])
        sizes = torch.tensor([0, *(len(course.data) for course in courses)])
        self.begins = sizes.cumsum(0)[:-1]

    def batch(self, step: int, clients: int) -> _Batch:
        """Return the batches that the first clients have at a step."""
        rows = [course.steps[step] for course in self.courses[:clients]]
        counts = [len(own) for own in rows]
        owner = torch.arange(clients).repeat_interleave(torch.tensor(counts))
        places = torch.cat(rows) + self.begins[owner]
        return _Batch(self.x[places], self.y[places], owner, counts)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Batches of several clients, one after the other.

    Attributes:
        x: The inputs.
        y: The labels.
        owner: The number of the client that each sample is of.
        counts: How many samples each client has.
    """

    x: Tensor
    y: Tensor
    owner: Tensor
    counts: list[int]


def why_not(method: Method, data: DataInfo) -> str | None:
    """Say in one line why a method's clients cannot be trained side by side, if they cannot."""
    kind = type(method)
    if kind.client_update is not Method.client_update or kind.trained is not Method.trained:
        return f"{method.name} trains its clients in a way of its own"
    if method.device != "cpu":
        return "that is for the CPU"
    model = method.module(data)
    for layer in model.modules():
        own = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
        if isinstance(layer, _DropoutNd) or (own and type(layer) is not nn.Linear):
            return f"the network has a layer of type {type(layer).__name__}"
    if not any(p.requires_grad for p in model.parameters()):
        return "the network has nothing to train"
    return None if is_by_sample(model, data) else "the network does not treat each sample by itself"


def one_by_one_line(reason: str) -> str:
    """Say why clients are trained one after the other, and what to do."""
    return (
        f"Training clients one after the other: backend = 'batched' cannot, for {reason}. "
        "Set backend = 'auto' to use all cores."
    )
