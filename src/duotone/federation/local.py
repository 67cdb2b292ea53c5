"""The one training loop that every method shares.

Measured, a plain loop over pre-made tensors with one thread and channels-last convolutions is as
fast as PyTorch gets on a CPU for models of this size; there is nothing clever in here on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from duotone.types import ClientData, RoundInfo

if TYPE_CHECKING:
    from duotone.federation.method import MethodSettings

Loss: TypeAlias = Callable[[nn.Module, Tensor, Tensor], Tensor]


def task_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy for classes, the squared error for regression targets."""
    output = model(x)
    if y.is_floating_point():
        return functional.mse_loss(output.squeeze(1), y)
    return functional.cross_entropy(output, y)


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the shuffled row numbers of one pass over ``count`` samples.

    A single left-over sample joins the batch before it: BatchNorm cannot train on one sample, and
    no sample should be dropped.
    """
    order = torch.randperm(count, generator=generator)
    ends = [*range(size, count, size), count]
    if len(ends) > 1 and ends[-1] - ends[-2] == 1:
        del ends[-2]
    begin = 0
    for end in ends:
        yield order[begin:end]
        begin = end


def make_optimizer(
    parameters: Iterable[nn.Parameter], settings: MethodSettings, lr: float
) -> torch.optim.Optimizer:
    """Return the optimiser the settings ask for."""
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, lr, weight_decay=settings.weight_decay)
    return torch.optim.SGD(
        parameters, lr, momentum=settings.momentum, weight_decay=settings.weight_decay
    )


def train(
    model: nn.Module,
    data: ClientData,
    settings: MethodSettings,
    info: RoundInfo,
    *,
    loss: Loss = task_loss,
    parameters: Iterable[nn.Parameter] | None = None,
    epochs: int | None = None,
    phase: str = "train",
) -> float:
    """Train ``model`` in place on one client's samples and return the last epoch's mean loss.

    Args:
        model: The network, already holding the client's parameters.
        data: The client's labelled training samples.
        settings: Learning rate and its decay, batch size, epochs, optimiser.
        info: Where in the run we are; the source of the shuffling.
        loss: What to minimise; gets the model and one batch.
        parameters: What may change; everything if not given.
        epochs: Passes over the samples, if not those of the settings.
        phase: Names the random stream, for methods that train more than once in a round.
    """
    model.train()
    chosen = list(model.parameters() if parameters is None else parameters)
    optimizer = make_optimizer(chosen, settings, settings.lr_at(info.round))
    generator = info.generator("client", data.client, phase)
    y = data.labels
    total = torch.zeros(())
    for _ in range(settings.epochs if epochs is None else epochs):
        total.zero_()
        for rows in batches(len(data), settings.batch_size, generator):
            value = loss(model, data.x[rows], y[rows])
            optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += value.detach().cpu() * len(rows)
    return float(total) / len(data)
