"""Made data in which it is known whether an answer depends on the client.

Twelve natural clients, ``c0`` to ``c11``, in three groups (the ``domain`` column): client ``i``
belongs to group ``i % 3``. Every sample shows a number ``evidence`` from 0 to 3, and a ``gate``.
Where the gate is 0 one rule holds for all: the class is the evidence. Where it is 1 the rule of the
client's group g holds: the class is (evidence + g) mod 4. Evidence is not balanced, and every
client has its own shares, so classes are more or less frequent at each client.

What is true of each sample is recorded as factors beside ``evidence``, ``gate`` and ``group``.
Let f(x, i) be 1 if client i's rule gives sample x the class it has, and 0 otherwise. Then
f(x, i) = mean + ``sample`` + ``habit`` + ``reading``, with means over all clients and all samples,
see :mod:`duotone.measures.decomposition`. ``reading`` is 2/3 less a little where the gate is 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duotone.data.dataset import Array, Dataset
from duotone.data.planted import drawn_shapes, drawn_stripes, natural_dataset
from duotone.seeding import stream

_CLIENTS, _GROUPS, _CLASSES = 12, 3, 4
_TRAIN, _TEST = 300, 100
_FEATURES = 16
_DEPENDENT = 0.4  # share of samples whose gate is 1
_SHARES = np.array([0.4, 0.3, 0.2, 0.1])  # of the evidence, before clients bend them


def planted_rule() -> Dataset:
    """Make 4,800 grey images of 16×16: the evidence is a shape, the gate is its side.

    Shapes are 0 square, 1 disc, 2 cross, 3 ring. On the left of the middle the gate is 0, on the
    right it is 1. Nothing in an image shows the group.
    """
    return _images("planted-rule", shows_group=False)


def planted_rule_visible() -> Dataset:
    """Make the images of :func:`planted_rule` over stripes that run in the group's direction."""
    return _images("planted-rule-visible", shows_group=True)


def planted_rule_table() -> Dataset:
    """Make 4,800 rows of 16 features: two carry the evidence, one the gate, mixed with noise.

    Evidence 2a + b lies at the corner (a, b) of a square, the gate on one of two sides. The
    features are these three numbers and five of noise, mixed by fixed orthogonal directions.
    Nothing shows the group.
    """
    rng = stream(0, "planted-rule-table")
    client, evidence, gate, is_test = _rows(rng)
    corner = 2 * np.stack([evidence // 2, evidence % 2, gate], axis=1) - 1
    signal = 1.5 * corner + rng.normal(0, 0.3, corner.shape)
    hidden = np.concatenate([signal, rng.normal(0, 0.5, (len(client), 5))], axis=1)
    mixing, _ = np.linalg.qr(rng.normal(size=(_FEATURES, hidden.shape[1])))
    x = (hidden @ mixing.T).astype(np.float32)
    return _dataset("planted-rule-table", x, client, evidence, gate, is_test)


def _images(name: str, *, shows_group: bool) -> Dataset:
    rng = stream(0, name)
    client, evidence, gate, is_test = _rows(rng)
    position = rng.uniform(0.4, 1, len(client)) * (2 * gate - 1)
    brightness = drawn_shapes(evidence, position)
    if shows_group:
        phase = rng.uniform(0, 2 * np.pi, len(client))
        brightness = np.maximum(brightness, 0.5 * drawn_stripes(client % _GROUPS, phase))
    noisy = 255 * brightness + rng.normal(0, 5, brightness.shape)
    x = np.clip(np.rint(noisy), 0, 255).astype(np.uint8)
    return _dataset(name, x, client, evidence, gate, is_test)


def _rows(
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return client, evidence, gate and split of every row."""
    each = _TRAIN + _TEST
    client = np.repeat(np.arange(_CLIENTS), each)
    shares = rng.dirichlet(20 * _SHARES, _CLIENTS)
    evidence = np.concatenate([rng.choice(_CLASSES, each, p=own) for own in shares])
    gate = (rng.uniform(size=len(client)) < _DEPENDENT).astype(np.int64)
    return client, evidence, gate, np.tile(np.arange(each) >= _TRAIN, _CLIENTS)


def rule(
    evidence: NDArray[np.int64], gate: NDArray[np.int64], group: NDArray[np.int64] | int
) -> NDArray[np.int64]:
    """Return the class that a group's rule gives.

    >>> rule(np.array([3, 3]), np.array([0, 1]), 2)
    array([3, 1])
    """
    return (evidence + gate * group) % _CLASSES


def _truth(
    evidence: NDArray[np.int64], gate: NDArray[np.int64], own: NDArray[np.int64]
) -> dict[str, Array]:
    """Return sample, habit and reading of the class that each sample has."""
    # Clients of one group answer alike, and groups are of one size: means over groups will do.
    answers = np.stack([rule(evidence, gate, group) for group in range(_GROUPS)])
    label = answers[own, np.arange(len(own))]
    says = (answers == label).astype(np.float64)
    shares = np.stack([np.bincount(found, minlength=_CLASSES) for found in answers]) / len(own)
    mean, habit = shares.mean(axis=0)[label], shares[own, label]
    sample = says.mean(axis=0) - mean
    return {"sample": sample, "habit": habit - mean, "reading": 1 - sample - habit}


def _dataset(
    name: str,
    x: Array,
    client: NDArray[np.int64],
    evidence: NDArray[np.int64],
    gate: NDArray[np.int64],
    is_test: NDArray[np.bool_],
) -> Dataset:
    group = client % _GROUPS
    factors = {"evidence": evidence, "gate": gate, "group": group, **_truth(evidence, gate, group)}
    label = rule(evidence, gate, group)
    return natural_dataset(name, x, label, is_test, client, factors)
