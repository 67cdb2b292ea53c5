"""Judges: one small network that reads label, style and factors off a sample, real or decoded.

It is trained in one place on the members' real training samples, and is no part of any method. For
newcomers in styles that no member has there is another one, which learns from all clients' samples.
Labels of images in colour have a reader of their own, which learns them in other colours as well:
handwriting that was only ever white on black is to be read in whatever colours it is drawn.
Whatever it says of decoded samples stands beside what it is worth on real test samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from duotone.data.colours import half_changed, random_levels
from duotone.federation.backends.serial import one_thread
from duotone.measures.agreement import Agreement, FloatArray, Scale, agreement
from duotone.measures.questions import ANGLES
from duotone.networks.classifiers import mlp_bn
from duotone.networks.reading import find_head, head_inputs, in_batches
from duotone.networks.thesis import thesis_cnn_bn
from duotone.partition.partition import Holding, Partition, Population, Rows
from duotone.seeding import derive, stream
from duotone.types import DataInfo

_STEPS, _BATCH, _LR = 240, 64, 3e-3
_READER_STEPS = 480
_JUDGED = 1000


@dataclass(frozen=True, slots=True)
class Trait:
    """Something about a sample that the judges can tell.

    Attributes:
        name: "label", "style", or the name of a continuous factor.
        scale: Classes have one output each, an angle has cosine and sine, a number has one.
        outputs: How many outputs of the network tell it.
        mean: Of a number, over the training samples.
        std: Likewise; the network is taught standardised numbers.
    """

    name: str
    scale: Scale
    outputs: int
    mean: float = 0.0
    std: float = 1.0


class Judges:
    """A trained network and what it can be asked.

    Args:
        network: Gives the outputs of all traits, one trait after the other.
        traits: What they can tell.
        styles: The styles they know, in the order of their numbers.
        style_of: The style of every client, see :func:`styles_of`.
        reader: Gives the outputs of the label instead, where it has a network of its own.
    """

    def __init__(
        self,
        network: nn.Module,
        traits: Sequence[Trait],
        styles: Sequence[str],
        style_of: Mapping[str, str],
        reader: nn.Module | None = None,
    ) -> None:
        self.network = network
        self.traits = tuple(traits)
        self.styles = tuple(styles)
        self.style_of = style_of
        self.reader = reader

    def asked_about(self, style_of: Mapping[str, str]) -> Judges:
        """Return the same judges for clients whose styles are given."""
        return Judges(self.network, self.traits, self.styles, style_of, self.reader)

    @torch.inference_mode()
    def verdicts(self, x: Tensor) -> dict[str, FloatArray]:
        """Return by trait what is read off some samples; classes as their numbers."""
        output = _outputs(self.network, x)
        found: dict[str, FloatArray] = {}
        for trait, columns in _columns(self.traits):
            answer = output[:, columns]
            if trait.name == "label" and self.reader is not None:
                answer = _outputs(self.reader, x)
            if trait.scale == "categorical":
                found[trait.name] = answer.argmax(axis=1).astype(np.float64)
            elif trait.scale == "angle":
                found[trait.name] = np.arctan2(answer[:, 1], answer[:, 0])
            else:
                found[trait.name] = trait.mean + trait.std * answer[:, 0]
        return found

    @torch.inference_mode()
    def features(self, x: Tensor) -> FloatArray:
        """Return what the network's last layer is given for some samples."""
        head = find_head(self.network)
        features = in_batches(lambda part: head_inputs(self.network, head, part), x)
        found: FloatArray = features.double().numpy()
        return found

    def truth(self, population: Population, client: str, rows: Rows) -> dict[str, FloatArray]:
        """Return by trait what is true of a client's rows; NaN where nothing is."""
        style = self.style_of[client]
        number = self.styles.index(style) if style in self.styles else np.nan
        facts = {
            **population.factors(rows),
            "label": population.dataset.y[rows],
            "style": np.full(len(rows), number),
        }
        return {trait.name: facts[trait.name].astype(np.float64) for trait in self.traits}

    def worth(self, population: Population, clients: Sequence[str]) -> dict[str, list[Agreement]]:
        """Judge real test samples: by trait, one agreement per client."""
        found: dict[str, list[Agreement]] = {trait.name: [] for trait in self.traits}
        for client in clients:
            rows = population.partition[client].test[: max(1, _JUDGED // len(clients))]
            truth = self.truth(population, client, rows)
            with one_thread():
                verdicts = self.verdicts(_samples(population, rows))
            for trait in self.traits:
                found[trait.name].append(
                    agreement(trait.scale, truth[trait.name], verdicts[trait.name])
                )
        return found


def train_judges(population: Population, seed: int, clients: Sequence[str] | None = None) -> Judges:
    """Train judges on training samples of some clients, by default of the members.

    Every batch has all pairs of label and style alike, as far as they occur. So where clients
    differ in their labels alone the style cannot be read off the label, and nothing can be read.
    """
    partition = population.partition
    style_of = styles_of(partition)
    taught = partition.members if clients is None else clients
    styles, number = np.unique([style_of[client] for client in taught], return_inverse=True)
    rows = np.concatenate([partition[client].train for client in taught])
    style = np.repeat(number, [partition.size(client) for client in taught])
    facts = {**population.factors(rows), "label": population.dataset.y[rows], "style": style}
    traits = list(_traits(population, facts, len(styles)))
    targets = {trait.name: _target(trait, facts[trait.name]) for trait in traits}

    label = facts["label"] if population.info.task == "classes" else np.zeros_like(style)
    _, cell, counts = np.unique(
        np.stack([label, style]), axis=1, return_inverse=True, return_counts=True
    )
    chance = 1 / (len(counts) * counts[cell])
    lessons = _Lessons(population, rows, chance, targets)
    network = lessons.teach(traits, seed, in_other_colours=False)
    reader = None
    if (
        traits[0].scale == "categorical"
        and population.info.is_image
        and population.info.shape[0] == 3
    ):
        reader = lessons.teach(traits[:1], seed, in_other_colours=True)
    return Judges(network, traits, styles.tolist(), style_of, reader)


@dataclass(frozen=True, slots=True)
class _Lessons:
    """What a judging network is taught from.

    Attributes:
        population: Where the samples are.
        rows: Which of them are shown.
        chance: How probable each of them is.
        targets: By trait, what is to be said of them.
    """

    population: Population
    rows: Rows
    chance: FloatArray
    targets: dict[str, Tensor]

    def teach(self, traits: Sequence[Trait], seed: int, *, in_other_colours: bool) -> nn.Module:
        """Train a network to tell some traits, if so from half of the images in other colours."""
        names = ("reader",) if in_other_colours else ()
        steps = _READER_STEPS if in_other_colours else _STEPS
        rng = stream(seed, "judges", *names)
        drawn = rng.choice(len(self.rows), size=(steps, _BATCH), p=self.chance)
        outputs = sum(trait.outputs for trait in traits)

        def loss(network: nn.Module, batch: Rows) -> Tensor:
            x = _samples(self.population, self.rows[batch])
            if in_other_colours:
                x = half_changed(x, *random_levels(*x.shape[:2]))
            output, total = network(x), torch.zeros(())
            for trait, columns in _columns(traits):
                total = total + _loss(trait, output[:, columns], self.targets[trait.name][batch])
            return total

        start = derive(seed, "judges", "network", *names)
        return taught(self.population.info.shape, outputs, start, drawn, loss)


def taught(
    shape: tuple[int, ...],
    outputs: int,
    seed: int,
    batches: NDArray[np.int64],
    loss: Callable[[nn.Module, Rows], Tensor],
) -> nn.Module:
    """Train a small network that reads samples, by Adam with a falling learning rate.

    Args:
        shape: Of a sample.
        outputs: How many numbers it gives.
        seed: Of its first weights, and of what the loss draws.
        batches: For each step the samples shown.
        loss: Of the network on a batch.
    """
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        network = judging_network(shape, outputs)
        optimizer = torch.optim.Adam(network.parameters(), _LR)
        for step, batch in enumerate(batches):
            optimizer.param_groups[0]["lr"] = _LR * (1 - step / len(batches))
            found = loss(network, batch)
            optimizer.zero_grad()
            found.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return network.eval()


def judging_network(shape: tuple[int, ...], outputs: int) -> nn.Module:
    """Build a small network that reads samples of some shape."""
    form = DataInfo(shape, "classes", outputs)
    network = (thesis_cnn_bn if form.is_image and min(shape[1:]) >= 4 else mlp_bn)(form)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def styles_of(partition: Partition) -> dict[str, str]:
    """Return each client's style: its group, or itself where members are not in several groups."""
    group_of = dict(zip(partition.clients, partition.groups, strict=True))
    if len({group_of[member] for member in partition.members}) > 1:
        return group_of
    return {client: client for client in partition.clients}


def _traits(
    population: Population, facts: dict[str, NDArray[np.generic]], styles: int
) -> Iterator[Trait]:
    """Yield what is worth asking: only what differs between training samples can be learnt."""
    if population.info.task == "classes":
        yield Trait("label", "categorical", population.info.outputs)
    else:
        yield _number("label", facts["label"].astype(np.float64))
    if styles > 1:
        yield Trait("style", "categorical", styles)
    for name, values in facts.items():
        if name in ("label", "style") or not np.issubdtype(values.dtype, np.floating):
            continue
        known = values[np.isfinite(values.astype(np.float64))].astype(np.float64)
        if len(known) and np.ptp(known) > 0:
            yield Trait(name, "angle", 2) if name in ANGLES else _number(name, known)


def _number(name: str, known: FloatArray) -> Trait:
    return Trait(name, "number", 1, float(known.mean()), float(known.std()))


def _columns(traits: Sequence[Trait]) -> Iterator[tuple[Trait, slice]]:
    """Yield each trait with the outputs that tell it."""
    begin = 0
    for trait in traits:
        yield trait, slice(begin, begin + trait.outputs)
        begin += trait.outputs


def _outputs(network: nn.Module, x: Tensor) -> FloatArray:
    found: FloatArray = in_batches(network, x).double().numpy()
    return found


def _target(trait: Trait, values: NDArray[np.generic]) -> Tensor:
    if trait.scale == "categorical":
        return torch.from_numpy(values.astype(np.int64))
    real = values.astype(np.float64)
    if trait.scale == "angle":
        columns = np.stack([np.cos(real), np.sin(real)], axis=1)
    else:
        columns = ((real - trait.mean) / trait.std)[:, np.newaxis]
    return torch.from_numpy(columns).float()


def _loss(trait: Trait, output: Tensor, target: Tensor) -> Tensor:
    if trait.scale == "categorical":
        return functional.cross_entropy(output, target)
    known = target.isfinite().all(dim=1)
    errors = (output[known] - target[known]).square().sum(dim=1)
    return errors.sum() / len(target)


def _samples(population: Population, rows: Rows) -> Tensor:
    """Return any rows as a client would see them."""
    nothing = rows[:0]
    holding = Holding("judges", "", "member", rows, nothing, nothing)
    return Population(population.dataset, Partition.from_holdings([holding])).data("judges").x
