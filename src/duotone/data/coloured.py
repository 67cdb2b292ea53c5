"""Digits whose colour tells the label in training and misleads afterwards.

The example of the content–style paper, made: a model that reads the colour of the ground instead of
the digit is right where it was trained and wrong elsewhere.
"""

from __future__ import annotations

from colorsys import hsv_to_rgb

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Dataset
from duotone.data.sources import digits
from duotone.seeding import stream

TOLD = 0.9
"""How often the colour of a member's digit is that of its class."""

_COLOURS = 10
_MEMBERS = 4
_NEWCOMERS = ("misled", "new")
_TRAIN_OF_NEWCOMER = 400


def coloured_digits() -> Dataset:
    """Paint the ground behind the white ``digits``: 4,000 to train on, 3,000 to test.

    There are six natural clients in three domains (the domain is the name without its number):

    * ``told-0`` to ``told-3``, meant as members, 800 training digits each: the ground has the
      colour of the digit's class in nine of ten cases, else one of the nine others;
    * ``misled-0``, meant as newcomer, 400 training digits: likewise, but the colour is that of the
      next class;
    * ``new-0``, meant as newcomer, 400 training digits: ten other colours, whatever the class.

    Every domain is tested on all 1,000 test digits of ``digits``. Factors: ``colour``, 0 to 9 for
    the colours of the classes and 10 to 19 for the others, and ``hue``, 0 to 1 around the colour
    circle from red.
    """
    plain = digits()
    rng = stream(0, "coloured-digits")
    train, test = rng.permutation(plain.train_rows), plain.test_rows
    ends = len(train) - _TRAIN_OF_NEWCOMER * np.arange(len(_NEWCOMERS), 0, -1)
    of_members, *of_newcomers = np.split(train, ends)
    holdings = [
        *_dealt("told", of_members, rng.permutation(test)),
        *(
            (f"{name}-0", of_newcomer, test)
            for name, of_newcomer in zip(_NEWCOMERS, of_newcomers, strict=True)
        ),
    ]
    parts = []
    for split in (1, 2):
        rows = np.concatenate([holding[split] for holding in holdings])
        names = np.repeat([holding[0] for holding in holdings], [len(h[split]) for h in holdings])
        domain = np.array([name.rsplit("-", 1)[0] for name in names])
        label = plain.y[rows]
        colour = _colours(label, domain, rng)
        parts.append((_painted(plain.x[rows], colour), label, names, domain, colour))
    x, y, client, domains, colours = zip(*parts, strict=True)
    return Dataset.from_arrays(
        "coloured-digits",
        *(x[0], y[0]),
        *(x[1], y[1]),
        client=client,
        domain=domains,
        factors={"colour": colours, "hue": (_hue(colours[0]), _hue(colours[1]))},
        origin=f"Coloured by duotone. {plain.origin}",
    )


def _dealt(
    domain: str, train: NDArray[np.int64], test: NDArray[np.int64]
) -> list[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    pieces = zip(np.array_split(train, _MEMBERS), np.array_split(test, _MEMBERS), strict=True)
    return [(f"{domain}-{i}", *piece) for i, piece in enumerate(pieces)]


def _colours(
    label: NDArray[np.int64], domain: NDArray[np.str_], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the number of each digit's colour."""
    true = (label + (domain == "misled")) % _COLOURS
    another = (true + rng.integers(1, _COLOURS, len(label))) % _COLOURS
    told = np.where(rng.random(len(label)) < TOLD, true, another)
    return np.where(domain == "new", rng.integers(_COLOURS, 2 * _COLOURS, len(label)), told)


def _hue(colour: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the place on the colour circle: other colours lie between those of the classes."""
    return np.asarray((colour % _COLOURS + 0.5 * (colour >= _COLOURS)) / _COLOURS)


def _painted(x: NDArray[np.uint8], colour: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return white digits on coloured grounds."""
    palette = np.array([hsv_to_rgb(hue, 1, 0.6) for hue in _hue(np.arange(2 * _COLOURS))])
    ground = 255 * palette[colour][:, np.newaxis, np.newaxis]
    ink = x[..., np.newaxis] / 255
    return np.asarray(np.rint(ground + ink * (255 - ground)), np.uint8)
