"""Data sets of several domains, made from others."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from duotone.data.canonical import file_of, find_file, read_arrays, read_dataset
from duotone.data.dataset import Array, Dataset
from duotone.data.rendered import rendered_digits
from duotone.data.resize import resized
from duotone.data.sources import load_file
from duotone.errors import DataError
from duotone.seeding import stream

DIGITS4 = ("mnist", "mnist-m", "svhn", "usps")
"""The domains of ``digits4``."""

_SIZE = 28
_MOST_TRAIN, _MOST_TEST = 8_000, 2_000


def digits4() -> Dataset:
    """Load MNIST, MNIST-M, SVHN and USPS as four domains of 28×28 colour images.

    At most 8,000 training and 2,000 test samples of each domain are taken, a fixed random choice,
    so that no domain outweighs the others. MNIST-M is made of MNIST digits: a digit that was taken
    from MNIST-M is not taken from the same split of MNIST again. There are no natural clients.

    Raises:
        DataError: One of the four files is missing or damaged.
    """
    return _digits("digits4", [load_file(name) for name in DIGITS4])


def digits5() -> Dataset:
    """Load ``digits4`` with SynthDigits as the fifth domain.

    The fifth domain is called ``synthdigits`` if ``synthdigits.npz`` is where the other files are
    looked up; otherwise ``rendered-digits`` stands in for it, under its own name.

    Raises:
        DataError: One of the files is missing or damaged.
    """
    path = find_file(file_of("synthdigits"))
    fifth = (
        rendered_digits()
        if path is None
        else read_dataset(path, name="synthdigits", origin="SynthDigits (Ganin et al. 2016).")
    )
    return _digits("digits5", [*(load_file(name) for name in DIGITS4), fifth])


def _digits(name: str, domains: list[Dataset]) -> Dataset:
    train, test = (_split(domains, split) for split in ("train", "test"))
    return Dataset.from_arrays(
        name,
        *train[:2],
        *test[:2],
        domain=(train[2], test[2]),
        classes=10,
        origin=f"{len(domains)} domains. {' '.join(domain.origin for domain in domains)}",
    )


def _split(domains: list[Dataset], split: str) -> tuple[Array, Array, Array]:
    """Return images, labels and domain names of one split of all domains."""
    chosen = {domain.name: _choice(domain, split) for domain in domains}
    numbers = _numbers_in_mnist(split)[chosen["mnist-m"]]
    parts = []
    for domain in domains:
        positions = (
            _choice(domain, split, numbers) if domain.name == "mnist" else chosen[domain.name]
        )
        rows = _rows(domain, split)[positions]
        parts.append((_in_form(domain.x[rows]), domain.y[rows], np.full(len(rows), domain.name)))
    x, y, names = (np.concatenate(column) for column in zip(*parts, strict=True))
    return x, y, names


def _rows(domain: Dataset, split: str) -> NDArray[np.int64]:
    return domain.test_rows if split == "test" else domain.train_rows


def _choice(domain: Dataset, split: str, without: Array | None = None) -> NDArray[np.int64]:
    """Choose positions within a split of a domain, as many as a domain may have."""
    positions = np.arange(len(_rows(domain, split)))
    if without is not None:
        positions = np.setdiff1d(positions, without)
    most = _MOST_TEST if split == "test" else _MOST_TRAIN
    if len(positions) <= most:
        return positions
    rng = stream(0, "composed digits", domain.name, split)
    return np.sort(rng.choice(positions, most, replace=False))


def _numbers_in_mnist(split: str) -> Array:
    """Return for each image in a split of MNIST-M the number of its digit in MNIST."""
    path = find_file(file_of("mnist-m"))
    assert path is not None, "the domains are loaded first"
    key, labels = f"idx_{split}", f"y_{split}"
    arrays = read_arrays(path, re.compile(f"{key}|{labels}"))
    if key not in arrays or arrays[key].shape != arrays[labels].shape:
        raise DataError(
            f"{path}: {key}, the numbers of its digits in MNIST, is missing or does not fit, so "
            "the same digits cannot be left out of MNIST; run: duotone data import mnist-m PATH"
        )
    return arrays[key]


def _in_form(images: Array) -> NDArray[np.uint8]:
    """Return images at 28×28 with three channels."""
    if images.shape[1:3] != (_SIZE, _SIZE):
        images = resized(images, _SIZE, _SIZE)
    grey = images if images.ndim == 4 else images[..., np.newaxis]
    return np.broadcast_to(grey, (*images.shape[:3], 3))
