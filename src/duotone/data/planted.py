"""Made data with known shared and local factors: the measuring stick for explanations.

Both data sets have twelve natural clients, ``c0`` to ``c11``, in three groups, ``g0`` to ``g2``
(the ``domain`` column): client ``i`` belongs to group ``i % 3``. Each client has 300 training and
100 test samples, and in each of these every class has the same number of samples. Shared factors
are drawn from the same distribution for everybody; local factors depend on nothing but the group.
Shared and local factors, and so class and client, are independent by construction.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array, Dataset
from duotone.seeding import stream

FACTORS = {
    "planted": {"shared": ("position",), "local": ("stripe", "phase")},
    "planted-table": {"shared": ("shared0", "shared1", "shared2"), "local": ("local0", "local1")},
}
"""Which recorded factors of each data set are shared and which are local; the class is shared."""

_CLIENTS, _GROUPS, _CLASSES = 12, 3, 4
_TRAIN, _TEST = 300, 100
_SIZE = 16
_FEATURES = 16


def planted() -> Dataset:
    """Make 4,800 grey images of 16×16: a shape that is shared, over stripes that are local.

    Shared: the class says which shape is drawn (0 square, 1 disc, 2 cross, 3 ring); ``position``,
    uniform in [-1, 1], says how far left or right of the middle it is, 1 being 4 pixels.

    Local: ``stripe``, the number of the client's group, says in which direction the stripes of the
    ground follow one another, 0, 60 or 120 degrees from the horizontal; ``phase``, uniform
    in [0, 2π), says where they begin in this image. An image is the brighter of shape (white) and
    stripes (up to half white), plus noise of 5 of 255 steps.
    """
    rng = stream(0, "planted")
    client, label, is_test = _rows(rng)
    count = len(client)
    position = rng.uniform(-1, 1, count)
    stripe = client % _GROUPS
    phase = rng.uniform(0, 2 * np.pi, count)
    brightness = np.maximum(drawn_shapes(label, position), 0.5 * drawn_stripes(stripe, phase))
    noisy = 255 * brightness + rng.normal(0, 5, brightness.shape)
    return natural_dataset(
        "planted",
        np.clip(np.rint(noisy), 0, 255).astype(np.uint8),
        label,
        is_test,
        client,
        {"position": position, "stripe": stripe, "phase": phase},
    )


def planted_table() -> Dataset:
    """Make 4,800 rows of 16 features: x = A·shared + B·local + noise.

    Shared: ``shared0`` to ``shared2`` are standard normal. The class is read off the signs of the
    first two, in the same way for every client: 2·[shared0 > 0] + [shared1 > 0]; ``shared2`` has
    no say in it.

    Local: ``local0`` and ``local1`` are normal around the mean of the client's group, one of three
    points on a circle, so that over all clients they have mean 0 and variance 1. They shift the
    features and have no say in the class.

    The columns of (A, B) are orthogonal, and fixed; the noise has standard deviation 0.1. Over all
    clients a feature has variance 1 on average.
    """
    rng = stream(0, "planted-table")
    client, label, is_test = _rows(rng)
    count = len(client)
    shared = rng.normal(size=(count, 3))
    sign = 2 * np.stack([label // 2, label % 2], axis=1) - 1
    shared[:, :2] = sign * np.abs(shared[:, :2])
    radius = 1.2
    angle = 2 * np.pi * (client % _GROUPS) / _GROUPS
    mean = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    # A point on the circle has variance radius² / 2 in each coordinate.
    local = mean + rng.normal(0, np.sqrt(1 - radius**2 / 2), (count, 2))
    factors = np.concatenate([shared, local], axis=1)
    mixing, _ = np.linalg.qr(rng.normal(size=(_FEATURES, factors.shape[1])))
    # Orthonormal columns spread the variance 5 over 16 features.
    scale = np.sqrt((1 - 0.1**2) * _FEATURES / factors.shape[1])
    x = scale * factors @ mixing.T + rng.normal(0, 0.1, (count, _FEATURES))
    names = FACTORS["planted-table"]["shared"] + FACTORS["planted-table"]["local"]
    return natural_dataset(
        "planted-table",
        x.astype(np.float32),
        label,
        is_test,
        client,
        dict(zip(names, factors.T, strict=True)),
    )


def _rows(
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return client, class and split of every row; classes in random order within a client."""
    each = _TRAIN + _TEST
    client = np.repeat(np.arange(_CLIENTS), each)
    is_test = np.tile(np.arange(each) >= _TRAIN, _CLIENTS)
    label = np.empty(len(client), np.int64)
    for number in range(_CLIENTS):
        for part in (~is_test, is_test):
            rows = np.flatnonzero(part & (client == number))
            label[rows] = rng.permutation(np.arange(len(rows)) % _CLASSES)
    return client, label, is_test


def natural_dataset(
    name: str,
    x: Array,
    label: NDArray[np.int64],
    is_test: NDArray[np.bool_],
    client: NDArray[np.int64],
    factors: dict[str, Array],
) -> Dataset:
    """Return rows as a data set of natural clients in three groups, with true factors."""

    def pair(values: Array) -> tuple[Array, Array]:
        return values[~is_test], values[is_test]

    return Dataset.from_arrays(
        name,
        *(x[~is_test], label[~is_test]),
        *(x[is_test], label[is_test]),
        client=pair(np.char.add("c", client.astype(str))),
        domain=pair(np.char.add("g", (client % _GROUPS).astype(str))),
        factors={key: pair(values) for key, values in factors.items()},
        origin="Made by duotone, with known shared and local factors.",
    )


def drawn_shapes(label: NDArray[np.int64], position: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draw the shapes with soft edges, so that an image changes smoothly with the position."""
    y, x = np.mgrid[:_SIZE, :_SIZE] - (_SIZE - 1) / 2
    x = x - 4 * position[:, np.newaxis, np.newaxis]
    y = np.broadcast_to(y, x.shape)
    radius = np.hypot(x, y)
    outside = np.choose(  # distance from the edge in pixels, negative inside
        label[:, np.newaxis, np.newaxis],
        [
            _box(x, y, 3, 3),
            radius - 3.4,
            np.minimum(_box(x, y, 3.5, 1), _box(x, y, 1, 3.5)),
            np.abs(radius - 3) - 0.8,
        ],
    )
    drawn: NDArray[np.float64] = np.clip(0.5 - outside, 0, 1)
    return drawn


def _box(x: Array, y: Array, half_width: float, half_height: float) -> Array:
    outside: Array = np.maximum(np.abs(x) - half_width, np.abs(y) - half_height)
    return outside


def drawn_stripes(stripe: NDArray[np.int64], phase: NDArray[np.float64]) -> NDArray[np.float64]:
    """Draw a wave of 5 pixels per period that runs in the direction of the group."""
    y, x = np.mgrid[:_SIZE, :_SIZE]
    angle = np.pi * stripe[:, np.newaxis, np.newaxis] / _GROUPS
    along = x * np.cos(angle) + y * np.sin(angle)
    wave: NDArray[np.float64] = np.sin(2 * np.pi * along / 5 + phase[:, np.newaxis, np.newaxis])
    return (1 + wave) / 2
