"""Judges: one small network that reads label, style and factors off a sample, real or decoded.

It is trained in one place on the members' real training samples, and is no part of any method. For
newcomers in styles that no member has there is another one, which learns from all clients' samples.
Labels of images in colour have a reader of their own, which learns them in other colours as well:
handwriting that was only ever white on black is to be read in whatever colours it is drawn.
Whatever it says of decoded samples stands beside what it is worth on real test samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from duotone.federation.backends.serial import one_thread
from duotone.measures.agreement import Agreement, FloatArray, agreement
from duotone.measures.lessons import Lesson, Trait, columns_of
from duotone.measures.questions import ANGLES
from duotone.networks.reading import find_head, head_inputs, in_batches
from duotone.partition.partition import Partition, Population, Rows, network_inputs
from duotone.seeding import derive, stream
from duotone.types import Params

_STEPS, _BATCH = 240, 64
_READER_STEPS = 480
_JUDGED = 1000


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

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in another process, in the layout that gives the same bits."""
        self.__dict__.update(state)
        for network in (self.network, self.reader):
            if network is not None:
                network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def asked_about(self, style_of: Mapping[str, str]) -> Judges:
        """Return the same judges for clients whose styles are given."""
        return Judges(self.network, self.traits, self.styles, style_of, self.reader)

    @torch.inference_mode()
    def verdicts(self, x: Tensor) -> dict[str, FloatArray]:
        """Return by trait what is read off some samples; classes as their numbers."""
        output = _outputs(self.network, x)
        found: dict[str, FloatArray] = {}
        for trait, columns in columns_of(self.traits):
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
                verdicts = self.verdicts(network_inputs(population.dataset.x[rows]))
            for trait in self.traits:
                found[trait.name].append(
                    agreement(trait.scale, truth[trait.name], verdicts[trait.name])
                )
        return found


@dataclass(frozen=True, slots=True)
class Untrained:
    """Judges before they have learnt anything.

    Attributes:
        lessons: One for the network, and one for the reader where there is one.
        styles: The styles they will know, in the order of their numbers.
        style_of: The style of every client, see :func:`styles_of`.
    """

    lessons: Sequence[Lesson]
    styles: Sequence[str]
    style_of: Mapping[str, str]

    def taught_here(self) -> Judges:
        """Teach every lesson in this process; return the judges."""
        return self.trained([lesson.learnt() for lesson in self.lessons])

    def trained(self, learnt: Sequence[Params]) -> Judges:
        """Return the judges, given what each lesson taught."""
        networks = [lesson.network(own) for lesson, own in zip(self.lessons, learnt, strict=True)]
        return Judges(
            networks[0], self.lessons[0].traits, self.styles, self.style_of, *networks[1:]
        )


def train_judges(population: Population, seed: int, clients: Sequence[str] | None = None) -> Judges:
    """Train judges on training samples of some clients, by default of the members."""
    return untrained_judges(population, seed, clients).taught_here()


def untrained_judges(
    population: Population, seed: int, clients: Sequence[str] | None = None
) -> Untrained:
    """Return what judges are to learn from training samples of some clients, by default members.

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

    def lesson(traits: Sequence[Trait], names: tuple[str, ...], steps: int) -> Lesson:
        drawn = stream(seed, "judges", *names).choice(len(rows), size=(steps, _BATCH), p=chance)
        shown, batches = np.unique(drawn, return_inverse=True)
        return Lesson(
            population.info.shape,
            traits,
            population.dataset.x[rows[shown]],
            {trait.name: targets[trait.name][shown] for trait in traits},
            batches.reshape(drawn.shape),
            derive(seed, "judges", "network", *names),
            bool(names),
        )

    lessons = [lesson(traits, (), _STEPS)]
    is_coloured = population.info.is_image and population.info.shape[0] == 3
    if traits[0].scale == "categorical" and is_coloured:
        lessons.append(lesson(traits[:1], ("reader",), _READER_STEPS))
    return Untrained(lessons, styles.tolist(), style_of)


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
