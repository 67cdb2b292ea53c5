"""Simpson's paradox: in every client y rises with x, and over all clients it falls.

PaDPaF's linear example. Eight natural clients, ``c1`` to ``c8``, have the same slope and a bias of
their own, and the more bias a client has the smaller its x. Each has 40 training and 10 test
samples. Over all samples x and y have mean 0 and variance 1. The line that each sample was drawn
around, after that, is recorded: ``slope`` and ``intercept``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array, Dataset
from duotone.seeding import stream

_CLIENTS, _TRAIN, _TEST = 8, 40, 10
_STEP = 4.0
_NOISE = 0.2


def simpson() -> Dataset:
    """Make the data as the paper describes them: narrow clients with random biases.

    x is uniform in [8 − i, 9 − i], the bias in [4(i − 1), 4i], y = x + bias and noise. The paper
    does not mention the noise; here it is that of the authors' code.
    """
    rng = stream(0, "simpson")
    number = np.arange(1, _CLIENTS + 1)
    x = rng.uniform(_CLIENTS - number, _CLIENTS - number + 1, (_TRAIN + _TEST, _CLIENTS))
    bias = rng.uniform(_STEP * (number - 1), _STEP * number)
    return _dataset("simpson", x, np.ones(_CLIENTS), bias, rng)


def simpson_repo() -> Dataset:
    """Make the data as in the authors' code: clients overlap in x, and their biases are 4(i − 1).

    x is normal around 2(9 − i) with variance 1.
    """
    rng = stream(0, "simpson-repo")
    x, bias = _overlapping(rng)
    return _dataset("simpson-repo", x, np.ones(_CLIENTS), bias, rng)


def simpson_slopes() -> Dataset:
    """Make the same with slopes that differ: from 0.5 to 1.5 in equal steps, in random order."""
    rng = stream(0, "simpson-slopes")
    x, bias = _overlapping(rng)
    return _dataset(
        "simpson-slopes", x, rng.permutation(np.linspace(0.5, 1.5, _CLIENTS)), bias, rng
    )


def _overlapping(
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    number = np.arange(_CLIENTS)
    x = rng.normal(2 * (_CLIENTS - number), 1, (_TRAIN + _TEST, _CLIENTS))
    return x, (_STEP * number).astype(np.float64)


def _dataset(
    name: str,
    x: NDArray[np.float64],
    slope: NDArray[np.float64],
    bias: NDArray[np.float64],
    rng: np.random.Generator,
) -> Dataset:
    """Draw y, put both on one scale, and name the clients, which are the columns."""
    y = slope * x + bias + rng.normal(0, _NOISE, x.shape)
    x_std, y_std = float(x.std()), float(y.std())
    client = np.tile(np.char.add("c", np.arange(1, _CLIENTS + 1).astype(str)), (len(x), 1))
    facts = {
        "slope": np.tile(slope * x_std / y_std, (len(x), 1)),
        "intercept": np.tile((bias + slope * x.mean() - y.mean()) / y_std, (len(x), 1)),
    }

    def pair(values: Array) -> tuple[Array, Array]:
        return values[:_TRAIN].ravel(), values[_TRAIN:].ravel()

    x_pair = pair(((x - x.mean()) / x_std).astype(np.float32))
    y_pair = pair(((y - y.mean()) / y_std).astype(np.float32))
    return Dataset.from_arrays(
        name,
        *(x_pair[0][:, np.newaxis], y_pair[0]),
        *(x_pair[1][:, np.newaxis], y_pair[1]),
        client=pair(client),
        factors={key: pair(values) for key, values in facts.items()},
        origin="Made by duotone after the linear example of PaDPaF (Almansoori et al. 2024).",
    )
