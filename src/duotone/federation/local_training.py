"""Local training: the one loop that every method shares, and the few steps built on it.

Measured, a plain loop over pre-made tensors with one thread and channels-last convolutions is as
fast as PyTorch gets on a CPU for models of this size; there is nothing clever in here on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from duotone.federation.optimizers import SGD, Adam, Optimizer
from duotone.federation.settings import MethodSettings
from duotone.networks.reading import check_head, head_inputs
from duotone.types import NO_LABEL, ClientData, Params, RoundInfo

Forward: TypeAlias = Callable[[Tensor], Tensor]
Loss: TypeAlias = Callable[[nn.Module, Tensor, Tensor], Tensor]

# -- losses


def task_loss(model: Forward, x: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy for classes, the squared error for regression targets."""
    return loss_of(model(x), y)


def loss_of(output: Tensor, y: Tensor, reduction: Literal["mean", "none"] = "mean") -> Tensor:
    """Return the task's loss of what a network answered: the mean, or one number per sample."""
    if y.is_floating_point():
        return functional.mse_loss(output.squeeze(1), y, reduction=reduction)
    return functional.cross_entropy(output, y, reduction=reduction)


def proximal_term(model: nn.Module, anchor: Params) -> Tensor:
    """Return half the squared distance of a model's parameters from an anchor: ½‖w − w⁰‖².

    Buffers are not parameters: BatchNorm's statistics are not pulled.
    """
    squares = [(p - anchor[name]).square().sum() for name, p in model.named_parameters()]
    return 0.5 * torch.stack(squares).sum()


def proximal_loss(anchor: Params, strength: float, device: str) -> Loss:
    """Return the task's loss with a pull towards ``anchor`` of the given strength."""
    fixed = {name: tensor.to(device) for name, tensor in anchor.items()}

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return task_loss(model, x, y) + strength * proximal_term(model, fixed)

    return loss


@torch.inference_mode()
def mean_loss(model: nn.Module, data: ClientData) -> float:
    """Return the task's loss over all samples of a client, without training."""
    model.eval()
    total = 0.0
    for x, y in zip(torch.split(data.x, 100), torch.split(data.labels, 100), strict=True):
        total += float(task_loss(model, x, y)) * len(x)
    return total / len(data)


# -- the loop


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


def passes(
    data: ClientData,
    settings: MethodSettings,
    info: RoundInfo,
    *,
    epochs: int | None = None,
    phase: str = "train",
) -> Iterator[Iterator[Tensor]]:
    """Yield the batches of every epoch, as row numbers; use up one epoch before the next.

    The shuffles come from a stream of this client in this round, whoever computes it.
    """
    generator = info.generator("client", data.client, phase)
    for _ in range(settings.epochs if epochs is None else epochs):
        yield batches(len(data), settings.batch_size, generator)


def make_optimizer(parameters: Iterable[Tensor], settings: MethodSettings, lr: float) -> Optimizer:
    """Return the optimiser the settings ask for."""
    groups = [(parameters, lr)]
    if settings.optimizer == "adam":
        return Adam(groups, weight_decay=settings.weight_decay)
    return SGD(groups, settings.momentum, settings.weight_decay)


def descend(optimizer: Optimizer, value: Tensor) -> None:
    """Move an optimiser's parameters one step down the gradient of a value."""
    optimizer.zero_grad()
    value.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def run_epochs(
    step: Callable[[Tensor, Tensor], Tensor],
    data: ClientData,
    settings: MethodSettings,
    info: RoundInfo,
    *,
    epochs: int | None = None,
    phase: str = "train",
) -> float:
    """Call ``step`` with every batch of every epoch and return the last epoch's mean loss.

    A step learns from one batch and returns its loss; the rest is as for :func:`train`.
    """
    y = data.labels
    total = torch.zeros(())
    for epoch in passes(data, settings, info, epochs=epochs, phase=phase):
        total.zero_()
        for rows in epoch:
            total += step(data.x[rows], y[rows]).detach().cpu() * len(rows)
    return float(total) / len(data)


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
    given = model.parameters() if parameters is None else parameters
    chosen = [p for p in given if p.requires_grad]
    if not chosen:
        return mean_loss(model, data)  # the part is empty, or its owner froze it
    optimizer = make_optimizer(chosen, settings, settings.lr_at(info.round))

    def step(x: Tensor, y: Tensor) -> Tensor:
        value = loss(model, x, y)
        descend(optimizer, value)
        return value

    smallest = min(len(data), settings.batch_size)
    with training_mode(model, None if parameters is None else chosen, smallest):
        return run_epochs(step, data, settings, info, epochs=epochs, phase=phase)


@contextmanager
def training_mode(
    model: nn.Module, chosen: Sequence[nn.Parameter] | None, batch: int
) -> Iterator[None]:
    """Put a model into training mode, but leave alone what is not being trained.

    Parameters outside ``chosen`` take no gradient, and BatchNorm layers without a chosen parameter
    keep their statistics: a part that is not trained comes out as it went in. A BatchNorm without
    parameters goes with the layer before it. With batches of one sample every BatchNorm uses the
    statistics it has, for one sample has no variance.
    """
    model.train()
    trained = {id(p) for p in (model.parameters() if chosen is None else chosen)}
    is_trained = chosen is None
    for layer in model.modules():
        own = {id(p) for p in layer.parameters(recurse=False)}
        if own and chosen is not None:
            is_trained = bool(own & trained)
        if isinstance(layer, _BatchNorm):
            layer.train(batch > 1 and is_trained)
    frozen = [p for p in model.parameters() if p.requires_grad and id(p) not in trained]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)


# -- steps that several methods take


def is_labelled(labels: Tensor) -> Tensor:
    """Say of each sample whether its label is known."""
    return ~labels.isnan() if labels.is_floating_point() else labels != NO_LABEL


def labels_of(data: ClientData) -> Tensor:
    """Return a client's labels, or as many unknown ones if it has none."""
    return torch.full((len(data),), NO_LABEL) if data.y is None else data.y


def progress(info: RoundInfo) -> float:
    """Return which share of the run is over when a round begins."""
    return max(info.round - 1, 0) / info.rounds


def train_head(
    model: nn.Module,
    head: nn.Module,
    data: ClientData,
    settings: MethodSettings,
    info: RoundInfo,
    *,
    epochs: int,
    phase: str,
) -> float:
    """Train only the last layer; return the last epoch's mean loss.

    The layers below do not change, so what they make of the samples is computed once.

    Raises:
        ConfigError: The layer is not the last one.
    """
    model.eval()
    check_head(model, head, data.x[:2])
    with torch.no_grad():
        inputs = torch.cat([head_inputs(model, head, x) for x in torch.split(data.x, 100)])
    return train(head, replace(data, x=inputs), settings, info, epochs=epochs, phase=phase)


@torch.no_grad()
def refresh_statistics(model: nn.Module, x: Tensor) -> None:
    """Estimate BatchNorm's running statistics anew from some inputs; no other tensor changes.

    One sample has no variance; then the statistics stay as they are.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    if len(x) == 1 or not layers:
        return
    # In evaluation mode otherwise: dropout is off, and spectral norm keeps its vectors.
    model.eval()
    momenta = [layer.momentum for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over batches
        layer.train()
    # Chunks of nearly equal size, so that none is a single sample and all count alike.
    for chunk in torch.tensor_split(x, math.ceil(len(x) / 100)):
        model(chunk)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum


def cosine_decay(info: RoundInfo, end: float) -> float:
    """Return the factor on a learning rate that falls along a cosine, from 1 towards ``end``."""
    return end + (1 - end) * 0.5 * (1 + math.cos(math.pi * progress(info)))


def turns_so_far(info: RoundInfo) -> Iterator[RoundInfo]:
    """Yield the rounds an average member has been drawn in by now, at least one.

    A newcomer that must train a part from scratch trains as long as a member has, with the
    learning rates of those rounds.
    """
    for turn in range(1, max(1, round(info.round * info.participation)) + 1):
        # A share such as 7/10 is not exact: 21 turns at 0.7 must not end in round 31.
        drawn = math.ceil(turn / info.participation - 1e-9)
        yield replace(info, round=min(drawn, info.round))
