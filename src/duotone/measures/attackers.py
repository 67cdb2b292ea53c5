"""Attackers: networks that try to say whose a sample is.

One learns from real samples. Another knows the method and learns from re-styled ones, whose source
it is told. What labels alone tell is a guess that needs no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from duotone.federation.backends.serial import one_thread
from duotone.federation.method import Method
from duotone.federation.protocols import Decodes
from duotone.measures.lessons import learnt_by, taught, with_learnt
from duotone.measures.side_by_side import Piece
from duotone.measures.stylists import Stylist, drawn_as
from duotone.networks.reading import in_batches
from duotone.partition.partition import Population
from duotone.seeding import derive, stream
from duotone.types import DataInfo, Params

Numbers: TypeAlias = NDArray[np.int64]
RestyledTo: TypeAlias = tuple[str, dict[str, Numbers], Tensor | None]
"""Whose samples were drawn as another would have them, whom attackers name, and the samples."""

SHOWN = 6000
"""Training samples of all clients together, or of all pairs, that an attacker learns from."""
_STEPS, _BATCH = 240, 64


def train_attacker(
    x: Tensor, source: Numbers, info: DataInfo, seed: int, name: str, *, turns: int = 1
) -> nn.Module:
    """Train a network that says whose a sample is; every source is shown to it as often.

    Args:
        x: Samples.
        source: Of each the number of the client it comes from.
        info: The form of the samples.
        seed: Of weights and batches.
        name: Of the random streams.
        turns: How many times as long as usual it learns.
    """
    steps = turns * _STEPS
    sources, counts = np.unique(source, return_counts=True)
    share = np.zeros(int(sources.max()) + 1)
    share[sources] = 1 / (len(sources) * counts)
    drawn = stream(seed, "attacker", name).choice(
        len(source), size=(steps, _BATCH), p=share[source]
    )
    truth = torch.from_numpy(source)

    def loss(network: nn.Module, batch: Numbers) -> Tensor:
        return functional.cross_entropy(network(x[batch]), truth[batch])

    return taught(info.shape, len(share), derive(seed, "attacker", name, "network"), drawn, loss)


@torch.inference_mode()
def named_source(attacker: nn.Module, x: Tensor) -> Numbers:
    """Return the number of the client that an attacker takes each sample for."""
    with one_thread():
        found: Numbers = in_batches(attacker, x).argmax(1).numpy()
    return found


def guessed_source(labels: Sequence[Numbers], asked: Numbers) -> Numbers:
    """Return whose samples are, as far as their labels alone tell.

    Args:
        labels: For each client the labels of its training samples.
        asked: Labels of the samples in question.
    """
    classes = 1 + max(int(found.max(initial=0)) for found in (*labels, asked))
    shares = [np.bincount(found, minlength=classes) / max(1, len(found)) for found in labels]
    guess: Numbers = np.argmax(np.stack(shares), axis=0)[asked]
    return guess


def attacker_by_originals(
    clients: Sequence[str], population: Population, seed: int, *, turns: int = 1
) -> nn.Module:
    """Train an attacker on real training samples."""
    parts = [population.data(client).first(SHOWN // len(clients)).x for client in clients]
    source = np.repeat(np.arange(len(parts)), [len(x) for x in parts])
    return train_attacker(torch.cat(parts), source, population.info, seed, "real", turns=turns)


def attacker_by_restyled(
    method: Method,
    sources: Sequence[Stylist],
    targets: Sequence[Stylist],
    info: DataInfo,
    seed: int,
) -> nn.Module:
    """Train an attacker on training samples that were re-styled, and whose source it is told."""
    parts: list[Tensor] = []
    for target in targets:
        model = method.load(target.params, info).eval()
        parts += [drawn_as(method, model, source, target, "train", seed) for source in sources]
    numbers = np.tile(np.arange(len(sources)), len(targets))
    source = np.repeat(numbers, [len(x) for x in parts])
    return train_attacker(torch.cat(parts), source, info, seed, "informed", turns=2)


def knowing_originals(
    clients: Sequence[str], seed: int, method: Method, population: Population
) -> Params:
    """Train an attacker who knows real samples; a piece of work."""
    return learnt_by(attacker_by_originals(clients, population, seed))


def knowing_the_method(
    stylists: Sequence[Stylist], seed: int, method: Method, population: Population
) -> Params:
    """Train an attacker who knows re-styled samples; a piece of work."""
    return learnt_by(attacker_by_restyled(method, stylists, stylists, population.info, seed))


def attackers_pieces(stylists: Sequence[Stylist], seed: int) -> list[Piece]:
    """Return the work of training both attackers; the informed one learns longer."""
    names = [stylist.client for stylist in stylists]
    return [partial(knowing_the_method, stylists, seed), partial(knowing_originals, names, seed)]


def attackers_by_name(learnt: Sequence[Params]) -> dict[str, Params]:
    """Return what each attacker has learnt, given what the pieces gave."""
    informed, plain = learnt
    return {"attacker": plain, "attacker_informed": informed}


def drawn_and_named(
    stylists: Sequence[Stylist],
    number: int,
    learnt: Mapping[str, Params],
    seed: int,
    method: Method,
    population: Population,
) -> list[RestyledTo]:
    """Draw all other clients' samples in one's style, and let attackers name them; a piece."""
    target = stylists[number]
    model = method.load(target.params, population.info).eval()
    attackers = {
        name: with_learnt(population.info.shape, len(stylists), own) for name, own in learnt.items()
    }
    found: list[RestyledTo] = []
    for source in stylists:
        if source is not target:
            x = drawn_as(method, model, source, target, "test", seed)
            named = {name: named_source(one, x) for name, one in attackers.items()}
            # Of methods that decode, swaps have judged it.
            found.append((source.client, named, None if isinstance(method, Decodes) else x))
    return found
