"""Several networks of one form as a single one, with the bits that each would give alone."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from duotone.types import DataInfo

Runs: TypeAlias = list[tuple[int, int]]
"""How many networks that follow one another are given how many samples each."""


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
        biases = [None] * len(runs) if bias is None else _parts(bias, sizes)
        parts = zip(_by_run(x, runs), _parts(weight, sizes), biases, strict=True)
        return _joined([_answers(*part).flatten(0, 1) for part in parts])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of what :meth:`forward` was given."""
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        grads = _by_run(grad, ctx.runs)
        of_x = of_weight = of_bias = None
        if needs_x:
            layers = _parts(weight, [networks for networks, _ in ctx.runs])
            pairs = zip(grads, layers, strict=True)
            of_x = _joined([torch.bmm(own, layer).flatten(0, 1) for own, layer in pairs])
        if needs_weight:
            pairs = zip(grads, _by_run(x, ctx.runs), strict=True)
            of_weight = _joined([torch.bmm(own.transpose(1, 2), given) for own, given in pairs])
        if needs_bias:
            of_bias = _joined([own.sum(dim=1) for own in grads])
        return of_x, of_weight, of_bias, None


def _parts(tensor: Tensor, sizes: list[int]) -> Sequence[Tensor]:
    return [tensor] if len(sizes) == 1 else tensor.split_with_sizes(sizes)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _by_run(rows: Tensor, runs: Runs) -> list[Tensor]:
    """Return the rows of each run as (networks, samples, features)."""
    parts = _parts(rows, [networks * samples for networks, samples in runs])
    return [part.view(*run, -1) for part, run in zip(parts, runs, strict=True)]


def _answers(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if weight.shape[1] == 1:  # a single layer with one output is no matrix product to torch
        biases = [None] * len(x) if bias is None else bias.unbind()
        return torch.stack([functional.linear(*o) for o in zip(x, weight, biases, strict=True)])
    if bias is None:
        return torch.bmm(x, weight.transpose(1, 2))
    return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))


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
            answers = [network(own) for network, own in zip(alone, (x[:3], x[3:]), strict=True)]
            return torch.allclose(both.model.train()(x), torch.cat(answers), rtol=1e-4, atol=1e-5)
        except Exception:  # whatever somebody's network does with weights that are stacks
            return False
