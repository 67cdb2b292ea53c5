"""Two inks, live: codes moved by sliders, drawn by one client or by all, and answered."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from duotone.errors import ConfigError
from duotone.explorer.asked_of import AskedBetween, AskedCodes, AskedSample
from duotone.explorer.class_shares import class_shares, share_sliders, with_shares
from duotone.explorer.explored import Explored
from duotone.explorer.moving import (
    Axes,
    FloatArray,
    as_batch,
    can_encode,
    code_axes,
    typical_code,
)
from duotone.explorer.shown import shown_answers, shown_samples
from duotone.federation.protocols import Decodes, ExchangesCodes, Generates
from duotone.measures.codes import PARTS
from duotone.runs.client import Client
from duotone.types import Draws, Latents

_STEPS = 9
_MOST_CLIENTS = 60
Code = tuple[FloatArray, FloatArray]
"""The shared and the local part of one code."""


class _Ink(Protocol):
    """What is behind the sliders: a sample's code, or a random draw."""

    def base(self, asked: AskedSample) -> Code: ...

    def axes(self, name: str) -> tuple[Axes, Axes]: ...

    def draw(self, client: Client, codes: list[Code]) -> Tensor | None: ...

    def as_another(self, name: str, code: Code) -> Code: ...


class _Codes:
    """Codes of samples; drawn where the method decodes."""

    def __init__(self, explored: Explored) -> None:
        self.explored = explored

    def base(self, asked: AskedSample) -> Code:
        def make() -> Code:
            if asked.upload is None and not self.explored.has_data():
                shared, local = (typical_code(self.explored, asked.client, part) for part in PARTS)
                return shared, local
            found = self.explored.client(asked.client).encode_from(self.explored.inputs(asked))
            shared, local = (
                part.flatten().double().numpy() for part in (found.shared, found.local)
            )
            return shared, local

        return self.explored.once(
            ("base", asked.client, asked.owner, asked.sample, asked.upload), make
        )

    def axes(self, name: str) -> tuple[Axes, Axes]:
        shared, local = (code_axes(self.explored, name, part) for part in PARTS)
        return shared, local

    def draw(self, client: Client, codes: list[Code]) -> Tensor | None:
        method = client.method
        if not isinstance(method, Decodes):
            return None
        shared, local = (as_batch([code[part] for code in codes]) for part in (0, 1))
        latents = Latents(shared.to(method.device), local.to(method.device))
        return client.used(lambda network: method.decode(network, latents)).clamp(0, 1)

    def as_another(self, name: str, code: Code) -> Code:
        return code[0], typical_code(self.explored, name, "local")


class _RandomDraws:
    """Latents of a generator, drawn at random."""

    def __init__(self, explored: Explored, seed: int, label: int) -> None:
        self.explored, self.seed, self.label = explored, seed, label
        if label >= explored.quick.opened.info.outputs:
            raise ConfigError(
                f"Classes are 0 to {explored.quick.opened.info.outputs - 1}. Got {label}."
            )

    def base(self, asked: AskedSample) -> Code:
        client = self.explored.client(asked.client)
        method = client.method
        assert isinstance(method, Generates)
        generator = torch.Generator().manual_seed(self.seed)
        drawn = client.used(lambda network: method.draw(network, 1, generator))
        return drawn.content[0].double().numpy(), drawn.style[0].double().numpy()

    def axes(self, name: str) -> tuple[Axes, Axes]:
        content, style = self.base(AskedSample(client=name))
        return Axes.normal(len(content)), Axes.normal(len(style))

    def draw(self, client: Client, codes: list[Code]) -> Tensor | None:
        method = client.method
        assert isinstance(method, Generates)
        content, style = (as_batch([code[part] for code in codes]) for part in (0, 1))
        label = torch.full((len(codes),), self.label) if method.draws_labels else None
        draws = Draws(content.to(method.device), style.to(method.device))
        return client.used(lambda network: method.generate(network, draws, label)).clamp(0, 1)

    def as_another(self, name: str, code: Code) -> Code:
        return code


def _ink(explored: Explored, seed: int, label: int) -> _Ink:
    method = explored.quick.opened.method
    if isinstance(method, Generates) and not isinstance(method, Decodes):
        return _RandomDraws(explored, seed, label)
    return _Codes(explored)


def sliders(explored: Explored, asked: AskedCodes) -> dict[str, Any]:
    """Return the sliders of both parts, as they stand for a sample or a random draw."""
    ink = _ink(explored, asked.seed, asked.label)
    shared, local = ink.base(asked)
    axes = ink.axes(asked.client)
    return {
        "shared": axes[0].as_json(shared),
        "local": axes[1].as_json(local),
        "classes": share_sliders(explored, asked.client),
    }


def _moved(ink: _Ink, asked: AskedCodes) -> Code:
    shared, local = ink.base(asked)
    axes = ink.axes(asked.client)
    return axes[0].moved(shared, asked.shared), axes[1].moved(local, asked.local)


def drawn(explored: Explored, asked: AskedCodes) -> dict[str, Any]:
    """Return what the sliders stand for: a picture and how it is read, or another answer."""
    ink = _ink(explored, asked.seed, asked.label)
    client = explored.client(asked.client)
    code = _moved(ink, asked)
    found: dict[str, Any] = {"picture": None, "read": None, "answer": None}
    samples = ink.draw(client, [code])
    if samples is not None:
        found["picture"] = shown_samples(samples, client.facts.info)[0]
        found["features"] = None if client.facts.info.is_image else samples[0].tolist()
        found["read"] = shown_answers(client.scores_from(samples), client)[0]
    if isinstance(ink, _Codes):
        found["answer"] = _answer(explored, client, asked, code)
    return found


def _answer(
    explored: Explored, client: Client, asked: AskedCodes, code: Code
) -> dict[str, Any] | None:
    """Return the answer to the sample with another local code and other shares of the classes."""
    method = client.method
    exchanges = method if isinstance(method, ExchangesCodes) and len(code[1]) else None
    if exchanges is None and class_shares(explored, client.name) is None:
        return None
    if asked.upload is None and not explored.has_data():
        return None
    x = explored.inputs(asked)
    if exchanges is not None:
        local = as_batch([code[1]]).to(method.device)
        scores = client.used(
            lambda network: exchanges.predict_with(network, x.to(exchanges.device), local)
        )
    else:
        scores = client.scores_from(x)
    return shown_answers(with_shares(explored, client, scores.double(), asked.classes), client)[0]


def everybody(explored: Explored, asked: AskedCodes) -> dict[str, Any]:
    """Return the same content as every client would draw it, or answer it."""
    ink = _ink(explored, asked.seed, asked.label)
    code = _moved(ink, asked)
    found = []
    for name in explored.names[:_MOST_CLIENTS]:
        client = explored.client(name)
        if isinstance(ink, _Codes) and not can_encode(explored, name):
            continue
        own = ink.as_another(name, code)
        samples = ink.draw(client, [own])
        entry: dict[str, Any] = {"client": name, "group": client.facts.group, "picture": None}
        if samples is not None:
            entry["picture"] = shown_samples(samples, client.facts.info)[0]
            entry["read"] = shown_answers(client.scores_from(samples), client)[0]
        else:
            own_shares = asked.model_copy(update={"classes": None})
            entry["read"] = _answer(explored, client, own_shares, code)
        found.append(entry)
    return {"clients": found}


def between(explored: Explored, asked: AskedBetween) -> dict[str, Any]:
    """Return the way from one sample's code to another's, drawn by both clients.

    Raises:
        ConfigError: The method cannot draw.
    """
    ink = _ink(explored, asked.seed, asked.label)
    first = ink.base(asked)
    there = AskedSample(client=asked.other, sample=asked.other_sample)
    if isinstance(ink, _RandomDraws):
        ink.seed += 1
    second = ink.base(there)
    codes: list[Code] = [
        (first[0] + share * (second[0] - first[0]), first[1] + share * (second[1] - first[1]))
        for share in np.linspace(0, 1, _STEPS)
    ]
    rows = []
    for name in dict.fromkeys((asked.client, asked.other)):
        client = explored.client(name)
        samples = ink.draw(client, codes)
        if samples is None:
            raise ConfigError(f"{client.method.name} has no decoder, so there is nothing to draw.")
        rows.append({"client": name, "pictures": shown_samples(samples, client.facts.info)})
    return {"rows": rows}
