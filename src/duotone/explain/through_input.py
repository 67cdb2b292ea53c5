"""Does a client speak through its input? What would be said if the sample were another client's.

Where samples show whose they are, a shared model can answer by the client without any local part.
Comparing clients' models cannot find that; a second game can. All is read off the hidden vectors h
that the client's own model gives to members' samples. P are the directions along which members'
samples differ, and z = h − PPᵀh is the rest. For each member j, m_j is the mean hidden vector of
its samples that are nearest to this one in z. The sample is then moved by m_j − m_i, and the rest
of the network says what it would call it: *as if client j had sent it*.

Moving a vector always changes something. So it is said only if the members' samples differ by more
than chance, if at least two moves change the decision clearly, if either half of the neighbours
makes the same of it, if the client's own halves change nothing, and if answers differ between
clients more than between halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.explain.witnesses import Federation
from duotone.federation.backends.serial import one_thread
from duotone.federation.method import Method
from duotone.measures.decomposition import FloatArray
from duotone.methods.concepts.alignment import discriminants, orthonormal
from duotone.methods.concepts.chance import by_chance, chance_level, rank_at_gap
from duotone.methods.concepts.hidden import hidden_vectors, layer_after
from duotone.methods.concepts.moments import moments, pooled
from duotone.runs.client import Client
from duotone.seeding import stream
from duotone.types import ClientData

_MEMBERS = 11  # beside the client itself
_SAMPLES = 300  # of each
_NEIGHBOURS = 10
_FEWEST = 2 * _NEIGHBOURS  # samples of a client that has neighbours to speak of
_WIDEST = 512  # directions that can be compared in a moment
_TIMES = 5  # answers of clients differ so much more than those of halves
_LOST = 0.2  # of its probability, by each move that changes the decision
_MOST_DIRECTIONS = 16


@dataclass(frozen=True, slots=True)
class ThroughInput:
    """What would be said of a sample if other clients had sent it.

    Attributes:
        layer: The hidden layer's reader: the linear layer that is given the moved vectors.
        is_readable: Whether members' samples differ there by more than chance.
        speaks: Whether this answer depends on whose sample it is.
        answers: What it would be called as a sample of each other client, by client.
    """

    layer: str
    is_readable: bool
    speaks: bool
    answers: dict[str, str]

    def sentence(self, answer: str, thing: str) -> str:
        """Say it in words.

        Args:
            answer: What the client says of the sample as it is.
            thing: "image" or "sample".
        """
        if not self.is_readable:
            return f"Nothing in the {thing} tells the model whose it is."
        others = {name: said for name, said in self.answers.items() if said != answer}
        if not self.speaks:
            return f"The answer does not depend on whose {thing} this is."
        name, said = next(iter(others.items()))
        return (
            f"The client speaks through the {thing} itself: as one of client {name}'s it would be "
            f"called {said}; {len(others)} of {len(self.answers)} other clients would change it."
        )


def through_input(federation: Federation, client: Client, x: Tensor) -> ThroughInput | None:
    """Ask what would be said of a sample if other clients had sent it.

    ``None`` where that cannot be asked: numbers instead of classes, no hidden layer of moderate
    width that all answers go through, an answer that is not the plain network's, no samples of two
    clients at hand.

    Args:
        federation: The run.
        client: Whose answer it is; its model is asked.
        x: The sample, as a network sees it, ``(1, …)``.
    """
    # Methods that answer in a way of their own have codes of their own to exchange.
    is_plain = type(client.method).predict is Method.predict
    if client.facts.info.task != "classes" or not is_plain:
        return None
    held = _samples(federation, client)
    if len(held) < 2 or client.name not in held:
        return None
    network, device = client.model(), client.method.device
    try:
        name = layer_after(network, None)
        layer = network.get_submodule(name)
        if _width(layer) > _WIDEST:
            return None
        with one_thread():
            vector = hidden_vectors(network, layer, x.to(device)).cpu().double()[0]
            hidden = {
                own: hidden_vectors(network, layer, data.x.to(device)).cpu().double()
                for own, data in held.items()
            }
            return _Game(client, network, name, x, vector, hidden).play()
    except ConfigError:  # no such layer, or one that answers do not go through
        return None


def _samples(federation: Federation, client: Client) -> dict[str, ClientData]:
    """Return training samples of the client and of some members."""
    names = [client.name, *(other.name for other in federation.others(client, _MEMBERS))]
    found = {name: federation.own_samples(name) for name in names}
    return {
        name: data.first(_SAMPLES)
        for name, data in found.items()
        if data is not None and len(data) >= _FEWEST
    }


def _width(layer: nn.Module) -> int:
    assert isinstance(layer, nn.Linear)
    return layer.in_features


@dataclass
class _Game:
    """Moves one sample to where other clients' samples lie, and asks the rest of the network."""

    client: Client
    network: nn.Module
    layer: str
    x: Tensor
    vector: Tensor
    hidden: dict[str, Tensor]

    def play(self) -> ThroughInput:
        """Return what would be said."""
        others = [name for name in self.hidden if name != self.client.name]
        basis = self._directions()
        if basis is None:
            return ThroughInput(self.layer, is_readable=False, speaks=False, answers={})
        near = {name: self._nearest(own, basis) for name, own in self.hidden.items()}
        whole, *halves = (
            {name: rows[part].mean(dim=0) for name, rows in near.items()}
            for part in (slice(None), slice(0, None, 2), slice(1, None, 2))
        )
        start = self.vector - whole[self.client.name]
        order = [self.client.name, *others]
        told = [self._said([start + means[name] for name in order]) for means in (whole, *halves)]
        decided = np.stack([said.argmax(axis=1) for said in told])  # (3, clients)
        agreed = (decided == decided[0]).all(axis=0)
        lost = np.stack([told[0][0, decided[0, 0]] - said[:, decided[0, 0]] for said in told])
        changed = (decided[0] != decided[0, 0]) & (lost >= _LOST).all(axis=0)
        between = told[0].var(axis=0).sum()
        by_halves = (((told[1] - told[2]) / 2) ** 2).sum(axis=1).mean()
        names = self.client.class_names
        return ThroughInput(
            layer=self.layer,
            is_readable=True,
            speaks=bool(
                (changed & agreed).sum() >= 2 and agreed[0] and between > _TIMES * by_halves
            ),
            answers={
                name: names[k] for name, k in zip(others, decided[0, 1:].tolist(), strict=True)
            },
        )

    def _directions(self) -> Tensor | None:
        """Return the directions in which clients' samples differ; ``None`` if that is chance."""
        told = [moments(own) for own in self.hidden.values()]
        scatter = pooled(told)
        chance = by_chance(scatter, told, stream(0, "through the input"))
        values, directions = discriminants(scatter)
        most = min(_MOST_DIRECTIONS, len(told) - 1)
        rank = rank_at_gap(values, most, chance_level(told), chance)
        return orthonormal(directions[:, :rank]) if rank else None

    def _nearest(self, own: Tensor, basis: Tensor) -> Tensor:
        """Return the vectors that are nearest to the sample's, but for where clients differ."""
        away = own - self.vector
        distance = (away - away @ basis @ basis.T).norm(dim=1)
        return own[distance.argsort()[:_NEIGHBOURS]]

    def _said(self, vectors: Sequence[Tensor]) -> FloatArray:
        """Return the probabilities that the rest of the network gives to hidden vectors."""
        moved = torch.stack(list(vectors))
        if min(float(own.min()) for own in self.hidden.values()) >= 0:
            moved = moved.clamp_min(0)  # the layer comes after a ReLU
        device = self.client.method.device

        def exchanged(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
            return (moved.to(given[0]).view(len(moved), *given[0].shape[1:]),)

        hook = self.network.get_submodule(self.layer).register_forward_pre_hook(exchanged)
        try:
            with torch.inference_mode():
                inputs = self.x.expand(len(moved), *self.x.shape[1:]).to(device)
                scores = self.client.method.predict(self.network, inputs)
        finally:
            hook.remove()
        found: FloatArray = scores.double().softmax(dim=1).cpu().numpy()
        return found
