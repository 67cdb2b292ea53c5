"""Leakage probes: small networks that try to read a fact about a sample out of its code.

A probe is trained on one split and scored on another. The headline is a network with two hidden
layers of 64 units: what a linear probe cannot read may still be there. All questions about one
table of codes are trained at once, as independent networks side by side: they share nothing but the
order of the samples, so each learns exactly what it would learn alone, for a fraction of the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from duotone.data.dataset import Array
from duotone.federation.backends.serial import one_thread
from duotone.federation.optimizers import Adam
from duotone.measures.questions import Question
from duotone.seeding import derive

_HIDDEN = 64
_PASSES = 12
_STEPS = 400  # at least; small tables are passed over more often
_BATCH = 200
_RATE = 1e-2
# In Adam, a penalty on the squared weights soon silences inputs that do not help. It lets a probe
# find a leak in two of many dimensions, where the others drown it, but it also flattens fine
# structure in a few. Each question has a network of both sizes, and validation samples choose.
_PENALTIES = (0.0, 7e-3)
_VALIDATION = 0.1
_PATIENCE = 6  # passes, or a fifth of them, in which no network gets better


@dataclass(frozen=True, slots=True)
class Scaling:
    """Centre and scale of a table of codes."""

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of(cls, codes: Array) -> Scaling:
        """Measure a table.

        A dimension that never moves still differs in its last bits, and dividing by its own tiny
        deviation would blow rounding up to the size of a signal, or even tell clients apart by the
        order of their sums. So no dimension is enlarged to more than a hundred times what its size
        is next to the others, and what float32 cannot resolve stays as small as it is.
        """
        table = codes.astype(np.float64)
        deviation = table.std(axis=0)
        typical = float(np.sqrt(np.mean(deviation**2)))
        resolution = 1e-5 * float(np.sqrt(np.mean(table**2)))
        floor = max(1e-2 * typical, resolution, np.finfo(np.float64).tiny)
        return cls(table.mean(axis=0), np.maximum(deviation, floor))

    def apply(self, codes: Array) -> NDArray[np.float32]:
        """Return codes centred and scaled."""
        scaled: NDArray[np.float32] = ((codes - self.centre) / self.scale).astype(np.float32)
        return scaled


@dataclass(frozen=True)
class Probes:
    """One trained network for each question about a table of codes."""

    questions: Sequence[Question]
    _scaling: Scaling
    _weights: list[Tensor]
    _targets: Sequence[_Target]
    _place: Mapping[int, int]
    """Which network is the first with a question's answers, by that question's number."""
    _first: Sequence[int]
    """For each question the first one that has the same answers."""

    def __call__(self, table: Array) -> list[Array]:
        """Answer all questions: classes ``(rows,)``, numbers ``(rows, values)``."""
        outputs = self._layers(table)[1]
        return [
            _renamed(
                self._targets[self._place[like]].answers(outputs[self._place[like]]),
                self.questions,
                number,
                like,
            )
            for number, like in enumerate(self._first)
        ]

    def hidden(self, table: Array) -> list[Array]:
        """Return what the last hidden layer of each question's network says of each row."""
        hidden = self._layers(table)[0]
        return [hidden[self._place[like]] for like in self._first]

    def _layers(self, table: Array) -> tuple[Array, Array]:
        x = torch.from_numpy(self._scaling.apply(table))
        with one_thread(), torch.inference_mode():
            hidden = _hidden(self._weights, x)
            return hidden.numpy(), _outputs(self._weights, hidden).numpy()


def train_probes(codes: Array, questions: Sequence[Question], seed: int) -> Probes:
    """Train one small network for each question about a table of codes.

    Questions with the same answers, such as client and group where no group has two, have one.

    Every tenth sample is kept out of training and chooses, for each question, between two penalties
    on the weights, and after which pass over the data to stop. A network starts out with the most
    frequent class, or the mean, as its answer, and where there is nothing to read that is what it
    stays with.

    Args:
        codes: One row per training sample.
        questions: What to ask; each must be one that :attr:`Question.can_be_learnt`.
        seed: Of the first weights and the order of samples.
    """
    scaling = Scaling.of(codes)
    first = [_first_like(number, questions) for number in range(len(questions))]
    # Kinds first: then each of the two losses is about one block of networks.
    order = sorted(set(first), key=lambda number: (not questions[number].is_categorical, number))
    targets = [_Target.of(questions[number]) for number in order]
    with one_thread():
        weights = _fit(torch.from_numpy(scaling.apply(codes)), targets, seed)
    place = {number: position for position, number in enumerate(order)}
    return Probes(questions, scaling, weights, targets, place, first)


def _first_like(number: int, questions: Sequence[Question]) -> int:
    """Return the first question that has the same answers, by whatever name, as another."""
    asking = questions[number]
    for earlier, other in enumerate(questions[:number]):
        if asking.is_categorical and other.is_categorical and _pairs(asking, other) is not None:
            return earlier
    return number


def _pairs(asking: Question, other: Question) -> NDArray[np.int64] | None:
    """Match the classes of two questions; ``None`` if they do not match one to one."""
    found = np.unique(np.stack([asking.answers, other.answers]), axis=1)
    is_one_to_one = all(len(np.unique(row)) == found.shape[1] for row in found)
    return found if is_one_to_one and np.array_equal(asking.asked, other.asked) else None


def _renamed(said: Array, questions: Sequence[Question], number: int, like: int) -> Array:
    """Translate predicted classes to an equivalent question's."""
    if number == like:
        return said
    pairs = _pairs(questions[number], questions[like])
    assert pairs is not None
    names = dict(zip(pairs[1].tolist(), pairs[0].tolist(), strict=True))
    return np.array([names[answer] for answer in said.tolist()])


@dataclass(frozen=True, slots=True)
class _Target:
    """What a network is trained to put out for one question.

    Attributes:
        values: Kinds by position ``(rows,)``, -1 where nothing is asked; or amounts of mean 0 and
            variance 1 ``(rows, values)``, 0 where nothing is asked.
        asked: The samples that count.
        start: Outputs of a network that has read nothing.
        classes: The class at each position, of a categorical question.
        centre: Mean of the amounts, for amounts.
        scale: Deviation of the amounts, for amounts.
    """

    values: Tensor
    asked: Tensor
    start: Tensor
    classes: Array | None = None
    centre: Array | float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, asking: Question) -> _Target:
        asked = torch.from_numpy(asking.asked)
        given = asking.answers[asking.asked]
        if asking.is_categorical:
            classes, counts = np.unique(given, return_counts=True)
            place = np.where(asking.asked, np.searchsorted(classes, asking.answers), -1)
            start = torch.from_numpy(np.log(counts / counts.sum())).float()
            return cls(torch.from_numpy(place), asked, start, classes=classes)
        centre = given.mean(axis=0)
        scale = float(np.sqrt(given.var(axis=0).mean()))
        values = np.nan_to_num((asking.answers - centre) / scale).astype(np.float32)
        start = torch.zeros(values.shape[1])
        return cls(torch.from_numpy(values), asked, start, centre=centre, scale=scale)

    def answers(self, output: Array) -> Array:
        width = len(self.start)
        if self.classes is not None:
            return np.asarray(self.classes[output[:, :width].argmax(axis=1)])
        return np.asarray(output[:, :width] * self.scale + self.centre)


def _fit(x: Tensor, targets: Sequence[_Target], seed: int) -> list[Tensor]:
    """Return the weights of one network per target, stacked."""
    candidates = [target for target in targets for _ in _PENALTIES]
    penalties = torch.tensor(_PENALTIES).repeat(len(targets)).view(-1, 1, 1)
    generator = torch.Generator().manual_seed(derive(seed, "probes"))
    held_out = max(1, int(_VALIDATION * len(x)))
    rows = torch.randperm(len(x), generator=generator)
    validation, training = rows[:held_out], rows[held_out:]
    weights = _start(x.shape[1], candidates, generator)
    parameters = [weight.requires_grad_() for weight in weights]
    optimiser = Adam([(parameters, _RATE)])
    batches = max(1, len(training) // _BATCH)
    passes = max(_PASSES, math.ceil(_STEPS / batches))
    rates = iter(np.linspace(_RATE, 1e-3 * _RATE, passes * batches, endpoint=False).tolist())
    loss_of = _Loss(candidates)
    best = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        least = loss_of(_forward(weights, x[validation]), validation)
    last = 0
    for number in range(passes):
        if number - last > max(_PATIENCE, passes // 5):
            break
        shuffled = training[torch.randperm(len(training), generator=generator)]
        for whole in shuffled.tensor_split(batches):
            # What is asked about one client's samples need not see all others'.
            batch = whole[loss_of.is_asked[whole]]
            optimiser.zero_grad()
            # Networks share no weight, so the gradient of the sum is each network's own.
            torch.autograd.backward(loss_of(_forward(weights, x[batch]), batch).sum())
            for weight in weights:
                assert weight.grad is not None
                weight.grad.add_(penalties * weight.detach())
            with torch.no_grad():
                optimiser.move(parameters, next(rates))
        with torch.no_grad():
            loss = loss_of(_forward(weights, x[validation]), validation)
            better = loss < least
            last = number if better.any() else last
            least = torch.where(better, loss, least)
            for kept, weight in zip(best, weights, strict=True):
                kept[better] = weight[better]
    pairs = least.view(len(targets), len(_PENALTIES))
    chosen = pairs.argmin(dim=1) + torch.arange(len(targets)) * len(_PENALTIES)
    return [weight[chosen] for weight in best]


def _start(dimensions: int, targets: Sequence[_Target], generator: torch.Generator) -> list[Tensor]:
    count, width = len(targets), max(len(target.start) for target in targets)
    # A class that a question does not have is never its answer.
    last = torch.full((count, 1, width), -1e9)
    for number, target in enumerate(targets):
        last[number, 0, : len(target.start)] = target.start

    def hidden(inputs: int) -> Tensor:
        size = (count, inputs, _HIDDEN)
        return torch.randn(size, generator=generator) * math.sqrt(2 / inputs)

    return [
        hidden(dimensions),
        torch.zeros(count, 1, _HIDDEN),
        hidden(_HIDDEN),
        torch.zeros(count, 1, _HIDDEN),
        torch.zeros(count, _HIDDEN, width),
        last,
    ]


def _forward(weights: list[Tensor], x: Tensor) -> Tensor:
    """Return the outputs of all networks ``(networks, rows, outputs)``."""
    return _outputs(weights, _hidden(weights, x))


def _hidden(weights: list[Tensor], x: Tensor) -> Tensor:
    first, first_bias, second, second_bias = weights[:4]
    networks = len(first)
    # One product for all networks: they read the same codes.
    hidden = (x @ first.transpose(0, 1).flatten(1)).view(len(x), networks, -1).transpose(0, 1)
    hidden = functional.relu(hidden + first_bias)
    return functional.relu(torch.baddbmm(second_bias, hidden, second))


def _outputs(weights: list[Tensor], hidden: Tensor) -> Tensor:
    outputs: Tensor = torch.baddbmm(weights[5], hidden, weights[4])
    return outputs


class _Loss:
    """The mean loss of each network over the samples it is asked about.

    Args:
        targets: Of each network; classes come first.
    """

    def __init__(self, targets: Sequence[_Target]) -> None:
        classes = [target.values for target in targets if target.classes is not None]
        numbers = [target.values for target in targets if target.classes is None]
        self.classes = torch.stack(classes) if classes else None
        self.first_number = len(classes)
        width = max((values.shape[1] for values in numbers), default=0)
        # Numbers of fewer values than others have are 0 in what they lack, and so is their error.
        padded = [functional.pad(values, (0, width - values.shape[1])) for values in numbers]
        self.numbers = torch.stack(padded) if numbers else None
        self.has_value = torch.tensor(
            [[[place < values.shape[1] for place in range(width)]] for values in numbers]
        )
        self.asked = torch.stack([target.asked for target in targets]).float()
        self.is_asked = self.asked.any(dim=0)

    def __call__(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Return one loss per network; 0 where no sample is asked about."""
        losses: list[Tensor] = []
        if self.classes is not None:
            flat = outputs[: self.first_number].flatten(0, 1)
            classes = self.classes[:, rows]
            loss = functional.cross_entropy(
                flat, classes.flatten(), ignore_index=-1, reduction="none"
            )
            losses.append(loss.view(classes.shape))
        if self.numbers is not None:
            width = self.numbers.shape[2]
            error = outputs[self.first_number :, :, :width] - self.numbers[:, rows]
            losses.append(error.where(self.has_value, 0).square().sum(dim=2))
        asked = self.asked[:, rows]
        return (torch.cat(losses) * asked).sum(dim=1) / asked.sum(dim=1).clamp(min=1)
