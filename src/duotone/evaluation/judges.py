"""Judges: one small network that reads label, style and factors off a sample, real or decoded.

It is trained in one place on the members' real training samples, and is no part of any method.
Whatever it says of decoded samples stands beside what it is worth on real test samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from duotone.evaluation.clients import BATCH
from duotone.evaluation.factors import ANGLES
from duotone.evaluation.metrics import Direction
from duotone.evaluation.summary import Score
from duotone.federation.backends.serial import one_thread
from duotone.models.classifiers import mlp_bn
from duotone.models.thesis import thesis_cnn_bn
from duotone.partition.partition import Holding, Partition, Population, Rows
from duotone.seeding import derive, stream
from duotone.types import DataInfo

FloatArray: TypeAlias = NDArray[np.float64]
Scale: TypeAlias = Literal["kinds", "number", "angle"]

_STEPS, _BATCH, _LR = 240, 64, 3e-3
_JUDGED = 1000
_RESAMPLES = 500


@dataclass(frozen=True, slots=True)
class Question:
    """Something the judges are asked about a sample.

    Attributes:
        name: "label", "style", or the name of a continuous factor.
        scale: Kinds have one output each, an angle has cosine and sine, a number has one.
        outputs: How many outputs of the network answer it.
        mean: Of a number, over the training samples.
        std: Likewise; the network is taught standardised numbers.
    """

    name: str
    scale: Scale
    outputs: int
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far one client's verdicts agree with the truth, sample by sample.

    The score of some samples is what they gained over what was possible. Of kinds a sample gains 1
    or 0 of 1, which makes accuracy; of an angle it gains the cosine of the error, of 1; of a number
    it gains what the verdict takes off the squared distance from the client's mean, which makes R²
    within clients. A sample without a true value can gain nothing.
    """

    gained: FloatArray
    possible: FloatArray

    @property
    def value(self) -> float | None:
        """The score, or ``None`` where nothing could be gained."""
        possible = float(self.possible.sum())
        return float(self.gained.sum()) / possible if possible else None


class Judges:
    """A trained network and what it can be asked.

    Args:
        network: Gives the outputs of all questions, one question after the other.
        questions: What can be asked.
        styles: The members' styles, in the order of their numbers.
        style_of: The style of every client, see :func:`styles_of`.
    """

    def __init__(
        self,
        network: nn.Module,
        questions: Sequence[Question],
        styles: Sequence[str],
        style_of: Mapping[str, str],
    ) -> None:
        self.network = network
        self.questions = tuple(questions)
        self.styles = tuple(styles)
        self.style_of = style_of

    @torch.inference_mode()
    def verdicts(self, x: Tensor) -> dict[str, FloatArray]:
        """Return by question what is read off some samples; kinds as their numbers."""
        output = torch.cat([self.network(part) for part in torch.split(x, BATCH)]).double().numpy()
        found: dict[str, FloatArray] = {}
        for question, columns in _columns(self.questions):
            answer = output[:, columns]
            if question.scale == "kinds":
                found[question.name] = answer.argmax(axis=1).astype(np.float64)
            elif question.scale == "angle":
                found[question.name] = np.arctan2(answer[:, 1], answer[:, 0])
            else:
                found[question.name] = question.mean + question.std * answer[:, 0]
        return found

    def truth(self, population: Population, client: str, rows: Rows) -> dict[str, FloatArray]:
        """Return by question what is true of a client's rows; NaN where nothing is."""
        style = self.style_of[client]
        number = self.styles.index(style) if style in self.styles else np.nan
        facts = {
            **population.factors(rows),
            "label": population.dataset.y[rows],
            "style": np.full(len(rows), number),
        }
        return {q.name: facts[q.name].astype(np.float64) for q in self.questions}

    def worth(self, population: Population, clients: Sequence[str]) -> dict[str, list[Agreement]]:
        """Judge real test samples: by question, one agreement per client."""
        found: dict[str, list[Agreement]] = {question.name: [] for question in self.questions}
        for client in clients:
            rows = population.partition[client].test[: max(1, _JUDGED // len(clients))]
            truth = self.truth(population, client, rows)
            with one_thread():
                verdicts = self.verdicts(_samples(population, rows))
            for q in self.questions:
                found[q.name].append(agreement(q.scale, truth[q.name], verdicts[q.name]))
        return found


def train_judges(population: Population, seed: int) -> Judges:
    """Train judges on the members' training samples.

    Every batch has all pairs of label and style alike, as far as they occur. So where clients
    differ in their labels alone the style cannot be read off the label, and nothing can be read.
    """
    partition = population.partition
    members, style_of = partition.members, styles_of(partition)
    styles, number = np.unique([style_of[client] for client in members], return_inverse=True)
    rows = np.concatenate([partition[client].train for client in members])
    style = np.repeat(number, [partition.size(client) for client in members])
    facts = {**population.factors(rows), "label": population.dataset.y[rows], "style": style}
    questions = list(_questions(population, facts, len(styles)))
    targets = {q.name: _target(q, facts[q.name]) for q in questions}

    label = facts["label"] if population.info.task == "classes" else np.zeros_like(style)
    _, cell, counts = np.unique(
        np.stack([label, style]), axis=1, return_inverse=True, return_counts=True
    )
    chance = 1 / (len(counts) * counts[cell])
    drawn = stream(seed, "judges").choice(len(rows), size=(_STEPS, _BATCH), p=chance)

    shape = population.info.shape
    form = DataInfo(shape, "classes", sum(question.outputs for question in questions))
    build = thesis_cnn_bn if form.is_image and min(shape[1:]) >= 4 else mlp_bn
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(derive(seed, "judges", "network"))
        network = build(form)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = torch.optim.Adam(network.parameters(), _LR)
        for step, batch in enumerate(drawn):
            optimizer.param_groups[0]["lr"] = _LR * (1 - step / _STEPS)
            output = network(_samples(population, rows[batch]))
            loss = torch.zeros(())
            for question, columns in _columns(questions):
                loss = loss + _loss(question, output[:, columns], targets[question.name][batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return Judges(network.eval(), questions, styles.tolist(), style_of)


def styles_of(partition: Partition) -> dict[str, str]:
    """Return each client's style: its group, or itself where members are not in several groups."""
    group_of = dict(zip(partition.clients, partition.groups, strict=True))
    if len({group_of[member] for member in partition.members}) > 1:
        return group_of
    return {client: client for client in partition.clients}


def agreement(scale: Scale, truth: FloatArray, verdict: FloatArray) -> Agreement:
    """Compare verdicts on one client's samples with the truth; clients of any size count alike."""
    known = np.isfinite(truth)
    if not known.any():
        return Agreement(np.zeros(len(truth)), np.zeros(len(truth)))
    possible = np.ones(len(truth))
    if scale == "kinds":
        gained = (truth == verdict).astype(np.float64)
    elif scale == "angle":
        gained = np.cos(truth - verdict)
    else:
        possible = np.square(truth - truth[known].mean())
        gained = possible - np.square(truth - verdict)
    share = known.sum()
    return Agreement(np.where(known, gained, 0) / share, np.where(known, possible, 0) / share)


def measured(
    agreements: Sequence[Agreement],
    direction: Direction | Literal["reference"],
    rng: np.random.Generator,
) -> Score | None:
    """Return the score of several clients' agreements with its bootstrap interval over samples.

    ``None`` where nothing could be gained.
    """
    pairs = [np.stack([found.gained, found.possible]) for found in agreements]
    gained, possible = np.concatenate([np.zeros((2, 0)), *pairs], axis=1)
    counted = possible > 0
    gained, possible = gained[counted], possible[counted]
    n = len(gained)
    if n == 0:
        return None
    times = rng.multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)
    values = (times @ gained) / (times @ possible)
    low, high = np.quantile(values, [0.025, 0.975])
    value = float(gained.sum() / possible.sum())
    return Score(value, float(values.std()), direction, n, float(low), float(high))


def _questions(
    population: Population, facts: dict[str, NDArray[np.generic]], styles: int
) -> Iterator[Question]:
    """Yield what is worth asking: only what differs between training samples can be learnt."""
    if population.info.task == "classes":
        yield Question("label", "kinds", population.info.outputs)
    else:
        yield _number("label", facts["label"].astype(np.float64))
    if styles > 1:
        yield Question("style", "kinds", styles)
    for name, values in facts.items():
        if name in ("label", "style") or not np.issubdtype(values.dtype, np.floating):
            continue
        known = values[np.isfinite(values.astype(np.float64))].astype(np.float64)
        if len(known) and np.ptp(known) > 0:
            yield Question(name, "angle", 2) if name in ANGLES else _number(name, known)


def _number(name: str, known: FloatArray) -> Question:
    return Question(name, "number", 1, float(known.mean()), float(known.std()))


def _columns(questions: Sequence[Question]) -> Iterator[tuple[Question, slice]]:
    """Yield each question with the outputs that answer it."""
    begin = 0
    for question in questions:
        yield question, slice(begin, begin + question.outputs)
        begin += question.outputs


def _target(question: Question, values: NDArray[np.generic]) -> Tensor:
    if question.scale == "kinds":
        return torch.from_numpy(values.astype(np.int64))
    real = values.astype(np.float64)
    if question.scale == "angle":
        columns = np.stack([np.cos(real), np.sin(real)], axis=1)
    else:
        columns = ((real - question.mean) / question.std)[:, np.newaxis]
    return torch.from_numpy(columns).float()


def _loss(question: Question, output: Tensor, target: Tensor) -> Tensor:
    if question.scale == "kinds":
        return functional.cross_entropy(output, target)
    known = target.isfinite().all(dim=1)
    errors = (output[known] - target[known]).square().sum(dim=1)
    return errors.sum() / len(target)


def _samples(population: Population, rows: Rows) -> Tensor:
    """Return any rows as a client would see them."""
    nothing = rows[:0]
    holding = Holding("judges", "", "member", rows, nothing, nothing)
    return Population(population.dataset, Partition.from_holdings([holding])).data("judges").x
