"""Readers of the files in which data sets are officially distributed.

Each takes the folder that holds the official files (that of CIFAR-10 also the archive) and returns
the arrays of the canonical form.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from duotone.data.apart import read_apart
from duotone.data.canonical import file_of, user_cache, write_arrays
from duotone.data.celeba import read_celeba64
from duotone.data.cifar import batch_contents, unpickle_batch
from duotone.data.dataset import Array, Dataset
from duotone.data.folders import read_image
from duotone.data.limits import check_announced, content_of
from duotone.errors import DataError, UnknownNameError
from duotone.registry import did_you_mean


def import_official(name: str, path: Path | str, out: Path | None = None) -> Path:
    """Read the official files of a data set and write them in canonical form.

    Args:
        name: ``celeba64``, ``cifar10``, ``mnist``, ``mnist-m``, ``svhn`` or ``usps``.
        path: The folder with the official files; for ``cifar10`` also its .tar.gz. The images of
            ``celeba64`` may be a part of the official ones, see
            :func:`duotone.data.celeba.read_celeba64`.
        out: The folder to write to; by default the user cache.

    Returns:
        The file written.

    Raises:
        UnknownNameError: There is no reader for this data set.
        DataError: A file is missing or damaged; the message names it.
    """
    if name not in READERS:
        raise UnknownNameError(
            f"No reader for the official files of {name!r}.{did_you_mean(name, READERS)} "
            f"There are readers for: {', '.join(READERS)}."
        )
    source = Path(path).expanduser()
    if not (source.is_dir() or (name == "cifar10" and source.is_file())):
        raise DataError(f"{source} is not a folder; give the folder with the files of {name!r}.")
    arrays = READERS[name](source)
    Dataset.from_arrays(name, *(arrays[key] for key in ("x_train", "y_train", "x_test", "y_test")))
    written = (out or user_cache()) / file_of(name)
    write_arrays(written, arrays)
    return written


def read_cifar10(path: Path) -> dict[str, Array]:
    """Read the batches of CIFAR-10's "python version", in their folder or still in the .tar.gz."""
    splits = {"train": [f"data_batch_{number}" for number in range(1, 6)], "test": ["test_batch"]}
    contents = batch_contents(path, [name for names in splits.values() for name in names])
    arrays: dict[str, Array] = {}
    for split, names in splits.items():
        images, labels = [], []
        for name in names:
            x, y = unpickle_batch(contents.pop(name), path / name)
            if x.ndim != 2 or x.shape[1] != 3072 or len(x) == 0:
                raise DataError(
                    f"{path / name}: the pixels have shape {x.shape}; it must be N×3072, N ≥ 1."
                )
            _check_count(path / name, len(y), len(x))
            wrong = int((y < 0).sum())
            if wrong:
                raise DataError(
                    f"{path / name}: {wrong} of {len(y)} labels are no whole numbers from 0 to 9."
                )
            # A row is all of red, then green, then blue.
            images.append(x.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
            labels.append(y)
        arrays[f"x_{split}"] = np.ascontiguousarray(np.concatenate(images))
        arrays[f"y_{split}"] = np.concatenate(labels)
    return arrays


def read_mnist(folder: Path) -> dict[str, Array]:
    """Read the four idx files of MNIST, packed with gzip or not."""
    arrays: dict[str, Array] = {}
    for split, part in (("train", "train"), ("test", "t10k")):
        images = _one_of(folder, f"{part}-images-idx3-ubyte", ".gz")
        labels = _one_of(folder, f"{part}-labels-idx1-ubyte", ".gz")
        x, y = _read_idx(images, dimensions=3), _read_idx(labels, dimensions=1)
        _check_count(labels, len(y), len(x))
        _check_labels(labels, y, 0, 9)
        arrays |= {f"x_{split}": x, f"y_{split}": y.astype(np.int64)}
    return arrays


def read_svhn(folder: Path) -> dict[str, Array]:
    """Read the cropped digits of SVHN, ``train_32x32.mat`` and ``test_32x32.mat``."""
    arrays: dict[str, Array] = {}
    for split in ("train", "test"):
        path = _one_of(folder, f"{split}_32x32.mat")
        content = read_apart("matlab", content_of(path), path)
        x, y = content["X"], content["y"].reshape(-1)
        if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3):
            raise DataError(
                f"{path}: X is {x.dtype} with shape {x.shape}; it must be uint8, 32×32×3×samples."
            )
        _check_count(path, len(y), x.shape[3])
        _check_labels(path, y, 1, 10)
        arrays[f"x_{split}"] = np.ascontiguousarray(x.transpose(3, 0, 1, 2))
        arrays[f"y_{split}"] = y.astype(np.int64) % 10  # the digit 0 is labelled 10
    return arrays


def read_usps(folder: Path) -> dict[str, Array]:
    """Read USPS in libsvm's text format, ``usps.bz2`` and ``usps.t.bz2``."""
    from sklearn.datasets import load_svmlight_file

    arrays: dict[str, Array] = {}
    for split, stem in (("train", "usps"), ("test", "usps.t")):
        path = _one_of(folder, stem, ".bz2")
        content = content_of(path)
        # A row of two bytes becomes 256 numbers.
        check_announced(path, 256 * 8 * (content.count(b"\n") + 1), 8 * len(content))
        try:
            features, y = load_svmlight_file(io.BytesIO(content), n_features=256, zero_based=False)
        except (ValueError, OverflowError) as error:
            raise DataError(f"{path}: not readable as libsvm text ({error}).") from error
        x = features.toarray()
        _check_labels(path, y, 1, 10)
        if not (np.abs(x) <= 1).all():
            raise DataError(f"{path}: grey values must be from -1 to 1.")
        arrays[f"x_{split}"] = np.rint((x + 1) * 127.5).astype(np.uint8).reshape(-1, 16, 16)
        arrays[f"y_{split}"] = y.astype(np.int64) - 1
    return arrays


def read_mnist_m(folder: Path) -> dict[str, Array]:
    """Read the PNG folders and label lists of MNIST-M.

    ``idx_train`` and ``idx_test`` are the numbers in the file names: image n shows digit n of the
    same split of MNIST, which lets :mod:`duotone.data.composed` keep the two apart.
    """
    arrays: dict[str, Array] = {}
    for split in ("train", "test"):
        list_path = _one_of(folder, f"mnist_m_{split}_labels.txt")
        images, labels, numbers = [], [], []
        try:
            lines = list_path.read_text("ascii").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{list_path}: not a readable list of labels ({error}).") from error
        for position, line in enumerate(lines, start=1):
            match = re.fullmatch(r"((\d+)\.png)\s+(\d)\s*", line)
            if match is None:
                raise DataError(
                    f"{list_path}: line {position} is {line[:40]!r}; "
                    "it must be like '00000000.png 5'."
                )
            path = folder / f"mnist_m_{split}" / match[1]
            image = read_image(path)
            if image.shape != (32, 32, 3):
                raise DataError(f"{path}: the image is {image.shape}; it must be 32×32 in colour.")
            images.append(image)
            numbers.append(int(match[2]))
            labels.append(int(match[3]))
        if not images:
            raise DataError(f"{list_path}: the list of labels is empty.")
        arrays[f"x_{split}"] = np.stack(images)
        arrays[f"y_{split}"] = np.array(labels, np.int64)
        arrays[f"idx_{split}"] = np.array(numbers, np.int64)
    return arrays


READERS: dict[str, Callable[[Path], dict[str, Array]]] = {
    "celeba64": read_celeba64,
    "cifar10": read_cifar10,
    "mnist": read_mnist,
    "mnist-m": read_mnist_m,
    "svhn": read_svhn,
    "usps": read_usps,
}
"""The data sets whose official files can be read."""


def _one_of(folder: Path, name: str, packed: str = "") -> Path:
    """Return the file of this name, plain or packed, whichever is there."""
    names = [name, f"{name}{packed}"] if packed else [name]
    for candidate in names:
        if (folder / candidate).is_file():
            return folder / candidate
    raise DataError(f"{folder}: there is no file {' or '.join(names)}.")


def _read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """Read an idx file: 0, 0, type (8 is uint8), number of dimensions; their sizes; the values."""
    content = content_of(path)
    magic = bytes([0, 0, 8, dimensions])
    if content[:4] != magic:
        raise DataError(
            f"{path}: not an idx file of bytes in {dimensions} dimensions; "
            f"it begins with {content[:4].hex()!r} instead of {magic.hex()!r}."
        )
    start = 4 + 4 * dimensions
    if len(content) < start:
        raise DataError(f"{path}: the file ends within its header.")
    shape = [int(size) for size in np.frombuffer(content, ">u4", dimensions, 4)]
    expected = int(np.prod(shape, dtype=object))
    if len(content) - start != expected:
        raise DataError(
            f"{path}: the header announces {expected} values ({' × '.join(map(str, shape))}), "
            f"but {len(content) - start} follow."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _check_count(path: Path, labels: int, images: int) -> None:
    if labels != images:
        raise DataError(f"{path}: there are {labels} labels for {images} images.")


def _check_labels(path: Path, y: Array, lowest: int, highest: int) -> None:
    if len(y) == 0:
        raise DataError(f"{path}: there are no samples.")
    if not np.isin(y, np.arange(lowest, highest + 1)).all():
        raise DataError(
            f"{path}: labels run from {y.min():g} to {y.max():g}; "
            f"they must be whole numbers from {lowest} to {highest}."
        )
