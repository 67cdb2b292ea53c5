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

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.dropout import _DropoutNd

from duotone.federation.backends import ClientJob, ClientResult, ClientTask
from duotone.federation.backends.serial import Serial, one_thread
from duotone.federation.jobs import TrainJob, client_randomness, member_state
from duotone.federation.local_training import descend, loss_of, make_optimizer, passes
from duotone.federation.method import Method
from duotone.federation.optimizers import Optimizer
from duotone.types import ClientData, DataInfo, Params

SIDE_BY_SIDE = 32
"""Clients in a stack. More save few calls, and their networks leave the processor's cache."""


Runs: TypeAlias = list[tuple[int, int]]
"""How many networks that follow one another are given how many samples each."""


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
            except Exception:  # one of them is to blame, and must not stop the others
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
            means = _stepped(stack, optimizer, *samples.batch(step, working))
            for own, mean in zip(told, means, strict=False):
                own.append(mean)
        return [course.last_mean(own) for course, own in zip(courses, told, strict=True)]


def _stepped(
    stack: Stack, optimizer: Optimizer, x: Tensor, y: Tensor, counts: Sequence[int]
) -> list[float]:
    """Take one step with every client; return the mean loss of each.

    Args:
        stack: The networks.
        optimizer: Moves them.
        x: The clients' batches, one after the other.
        y: Their labels.
        counts: How many samples each batch has.
    """
    shares = 1 / torch.tensor(counts, dtype=torch.float32)
    stack.runs[:] = [(len(list(same)), count) for count, same in groupby(counts)]
    losses = loss_of(stack.model(x), y, reduction="none")
    weighed = losses * shares.repeat_interleave(torch.tensor(counts))
    descend(optimizer, weighed.sum())  # each loss depends on the parameters of one client alone
    return [float(own.sum()) for own in weighed.detach().split(list(counts))]


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

    def batch(self, step: int, clients: int) -> tuple[Tensor, Tensor, list[int]]:
        """Return inputs and labels of the first clients' batches, and how many each has."""
        rows = [course.steps[step] for course in self.courses[:clients]]
        counts = [len(own) for own in rows]
        places = torch.cat(rows) + self.begins[:clients].repeat_interleave(torch.tensor(counts))
        return self.x[places], self.y[places], counts


class Stack:
    """Several networks as one that is given the samples of all, network after network.

    Args:
        model: The network.
        count: How many there are.

    Attributes:
        model: The stack: a copy of the network whose linear layers are stacks.
        runs: How the next batch is divided among the networks.
    """

    def __init__(self, model: nn.Module, count: int) -> None:
        self.runs: Runs = []
        layers = (layer for layer in model.modules() if isinstance(layer, nn.Linear))
        stacks = {id(layer): StackedLinear(layer, count, self.runs) for layer in layers}
        # Wherever the network keeps a linear layer, its copy keeps the stack.
        self.model = copy.deepcopy(model, stacks)


class StackedLinear(nn.Module):
    """One linear layer of several networks.

    Args:
        like: The layer.
        count: How many networks there are.
        runs: As for :class:`Stack`.
    """

    def __init__(self, like: nn.Linear, count: int, runs: Runs) -> None:
        super().__init__()
        self.runs = runs
        for name in ("weight", "bias"):
            own = getattr(like, name)
            if own is not None:
                own = nn.Parameter(torch.stack([own.detach()] * count), own.requires_grad)
            self.register_parameter(name, own)
        self.weight: nn.Parameter
        self.bias: nn.Parameter | None

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, sample by sample."""
        runs = list(self.runs)  # those of this batch
        answers: Tensor = _Products.apply(x, self.weight, self.bias, runs)  # type: ignore[no-untyped-call]
        return answers


class _Products(torch.autograd.Function):
    """Linear layers side by side, by the very products that torch takes for a single one.

    Torch's own gradient of a stack multiplies the other way round: the same sums in another order,
    so other last bits. For the same reason shorter batches are not filled up to the longest.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, runs: Runs) -> Tensor:
        """Return x Wᵀ + b of every network."""
        ctx.save_for_backward(x, weight)
        ctx.runs = runs
        sizes = [networks for networks, _ in runs]
        biases = [None] * len(runs) if bias is None else bias.split(sizes)
        parts = zip(_by_run(x, runs), weight.split(sizes), biases, strict=True)
        return torch.cat([_answers(*part).flatten(0, 1) for part in parts])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of what :meth:`forward` was given."""
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        grads = _by_run(grad, ctx.runs)
        of_x = of_weight = of_bias = None
        if needs_x:
            layers = weight.split([networks for networks, _ in ctx.runs])
            parts = zip(grads, layers, strict=True)
            of_x = torch.cat([torch.bmm(own, layer).flatten(0, 1) for own, layer in parts])
        if needs_weight:
            parts = zip(grads, _by_run(x, ctx.runs), strict=True)
            of_weight = torch.cat([torch.bmm(own.transpose(1, 2), given) for own, given in parts])
        if needs_bias:
            of_bias = torch.cat([own.sum(dim=1) for own in grads])
        return of_x, of_weight, of_bias, None


def _by_run(rows: Tensor, runs: Runs) -> list[Tensor]:
    """Return the rows of each run as (networks, samples, features)."""
    parts = rows.split([networks * samples for networks, samples in runs])
    return [part.view(*run, -1) for part, run in zip(parts, runs, strict=True)]


def _answers(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if weight.shape[1] == 1:  # a single layer with one output is no matrix product to torch
        biases = [None] * len(x) if bias is None else bias.unbind()
        return torch.stack([functional.linear(*o) for o in zip(x, weight, biases, strict=True)])
    if bias is None:
        return torch.bmm(x, weight.transpose(1, 2))
    return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))


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


@torch.no_grad()
def is_by_sample(model: nn.Module, data: DataInfo) -> bool:
    """Try whether two different networks give in a stack what they give alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.rand(6, *data.shape)
        alone = [copy.deepcopy(model).train() for _ in range(2)]
        for parameter in alone[1].parameters():
            parameter.add_(torch.rand_like(parameter))
        both = Stack(model, 2)
        both.runs[:] = [(2, 3)]
        for name, tensor in both.model.named_parameters():
            tensor.copy_(torch.stack([network.get_parameter(name) for network in alone]))
        try:
            answers = [network(own) for network, own in zip(alone, x.split(3), strict=True)]
            return torch.allclose(both.model.train()(x), torch.cat(answers), rtol=1e-4, atol=1e-5)
        except Exception:  # whatever somebody's network does with weights that are stacks
            return False


def one_by_one_line(reason: str) -> str:
    """Say why clients are trained one after the other, and what to do."""
    return (
        f"Training clients one after the other: backend = 'batched' cannot, for {reason}. "
        "Set backend = 'auto' to use all cores."
    )
