"""A client's own samples that lie nearest to a sample: what its answer leans on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from duotone.data.dataset import Array
from duotone.data.text import text_of
from duotone.measures.sheet import pixels
from duotone.runs.client import Client
from duotone.types import ClientData

_LOOKED_AT = 2000


@dataclass(frozen=True, slots=True)
class Neighbour:
    """One of the client's own training samples.

    Attributes:
        number: Its place among the client's training samples.
        label: What it is.
        distance: How far it lies from the sample, in units of the typical distance.
    """

    number: int
    label: str
    distance: float


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The own samples nearest to a sample.

    Attributes:
        nearest: The nearest, nearest first.
        agree: How many of them are of the class the client answers, or near its number.
        pictures: The samples themselves, as pixels, features or texts; only ever the client's own.
    """

    nearest: tuple[Neighbour, ...]
    agree: int
    pictures: Array


def neighbourhood(
    client: Client, x: torch.Tensor, own: ClientData, answer: str, count: int = 5
) -> Neighbourhood:
    """Return a client's own samples whose codes are nearest to that of a sample.

    Args:
        client: The client; its model says what is near.
        x: One sample, as a network sees it.
        own: The client's own training samples.
        answer: What it says of the sample.
        count: How many are wanted.
    """
    own = own.first(_LOOKED_AT)
    codes = client.encode_from(torch.cat([x, own.x]))
    parts = [part for part in (codes.shared, codes.local) if part.shape[1]]
    table = torch.cat([part.flatten(1).double() for part in parts], dim=1)
    distance = (table[1:] - table[0]).norm(dim=1)
    typical = float(distance.median()) or 1.0
    order = distance.argsort()[:count]
    labels = own.labels[order]
    names = client.class_names
    said = [names[int(y)] if names else f"{float(y):.3g}" for y in labels]
    nearest = tuple(
        Neighbour(int(row), name, float(distance[row]) / typical)
        for row, name in zip(order, said, strict=True)
    )
    agree = sum(name == answer for name in said)
    shown = own.x[order]
    pictures = pixels(shown) if own.info.is_image else np.asarray(shown.numpy())
    if own.info.is_text:
        pictures = np.array([text_of(row, own.info.alphabet) for row in pictures])
    return Neighbourhood(nearest, agree, pictures)
