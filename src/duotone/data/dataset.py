"""What a data set is: one table of samples, checked once, trusted afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duotone.errors import DataError

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples, their labels, and what else is known of them.

    Training and test samples stand in one table, so that a partition is a list of row numbers and
    client data never has to be copied. Build one with :meth:`from_arrays`, which checks it.

    Attributes:
        name: What the user calls it.
        x: Images as uint8 ``(rows, height, width)`` or ``(rows, height, width, channels)``, or
            features as float32 ``(rows, features)``.
        y: Classes as int64 from 0, or regression targets as float32.
        is_test: Which rows are test samples.
        classes: Number of classes; 0 for regression.
        client: Natural client ids, one text per row, where the data has them.
        domain: Domain names, one text per row, where the data has them.
        factors: Ground-truth factors by name, one value per row; NaN or empty text where a sample
            has none.
        origin: One sentence for humans: where the samples come from.
    """

    name: str
    x: Array
    y: Array
    is_test: NDArray[np.bool_]
    classes: int
    client: Array | None = None
    domain: Array | None = None
    factors: Mapping[str, Array] = field(default_factory=dict)
    origin: str = ""

    def __len__(self) -> int:
        return len(self.x)

    @property
    def train_rows(self) -> NDArray[np.int64]:
        """Row numbers of the training samples."""
        return np.flatnonzero(~self.is_test)

    @property
    def test_rows(self) -> NDArray[np.int64]:
        """Row numbers of the test samples."""
        return np.flatnonzero(self.is_test)

    def fingerprint(self) -> str:
        """Return a short hash of the samples and labels: equal data, equal fingerprint."""
        digest = hashlib.sha256()
        for array in (self.x, self.y, self.is_test):
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]

    @classmethod
    def from_arrays(
        cls,
        name: str,
        x_train: Array,
        y_train: Array,
        x_test: Array,
        y_test: Array,
        *,
        client: tuple[Array, Array] | None = None,
        domain: tuple[Array, Array] | None = None,
        factors: Mapping[str, tuple[Array, Array]] | None = None,
        classes: int | None = None,
        origin: str = "",
    ) -> Dataset:
        """Check the arrays of a data set and put them into one table.

        Pairs are (training, test). Labels of an integer type are classes, of a float type
        regression targets.

        Args:
            name: What the user calls the data.
            x_train: Training samples, see :class:`Dataset`.
            y_train: Their labels.
            x_test: Test samples.
            y_test: Their labels.
            client: Natural client ids.
            domain: Domain names.
            factors: Ground-truth factors.
            classes: Number of classes, if more than the labels show.
            origin: One sentence on where the samples come from.

        Raises:
            DataError: Something does not fit; the message names the array.
        """
        x_train, x_test = np.asarray(x_train), np.asarray(x_test)
        y_train, y_test = np.asarray(y_train), np.asarray(y_test)
        _check_samples(name, x_train, x_test)
        rows = (len(x_train), len(x_test))
        for what, pair in {"y": (y_train, y_test), "client": client, "domain": domain}.items():
            _check_rows(name, what, pair, rows)
        y, classes = _check_labels(name, y_train, y_test, classes)
        for factor, pair in (factors or {}).items():
            _check_rows(name, f"factor_{factor}", pair, rows)
        return cls(
            name=name,
            x=_joined(x_train, x_test),
            y=y,
            is_test=np.repeat([False, True], rows),
            classes=classes,
            client=None if client is None else _joined(*client).astype(str),
            domain=None if domain is None else _joined(*domain).astype(str),
            factors={key: _joined(*pair) for key, pair in (factors or {}).items()},
            origin=origin,
        )


def is_known(values: Array) -> NDArray[np.bool_]:
    """Say which samples have a value of a factor: NaN and empty text stand for none."""
    if np.issubdtype(values.dtype, np.floating):
        return np.asarray(~np.isnan(values))
    return np.asarray(values.astype(str) != "")


def _joined(train: Array, test: Array) -> Array:
    return np.concatenate([np.asarray(train), np.asarray(test)])


def _check_samples(name: str, x_train: Array, x_test: Array) -> None:
    for what, x in (("x_train", x_train), ("x_test", x_test)):
        if x.dtype == np.uint8 and x.ndim in (3, 4):
            if 0 in x.shape[1:3] or (x.ndim == 4 and x.shape[3] not in (1, 3)):
                raise DataError(
                    f"{what} of {name!r} has shape {x.shape}; images must be rows × height × width "
                    "or rows × height × width × channels with 1 or 3 channels."
                )
        elif x.dtype == np.float32 and x.ndim == 2:
            if not np.isfinite(x).all():
                row = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
                raise DataError(
                    f"{what} of {name!r} holds NaN or infinite values (first in row {row}); "
                    "remove or fill them before training."
                )
        else:
            raise DataError(
                f"{what} of {name!r} is {x.dtype} with shape {x.shape}; duotone reads uint8 images "
                "(rows × height × width[ × channels]) and float32 tables (rows × features)."
            )
    if x_train.shape[1:] != x_test.shape[1:] or x_train.dtype != x_test.dtype:
        raise DataError(
            f"Training and test samples of {name!r} differ in form: x_train is {x_train.dtype} "
            f"{x_train.shape[1:]}, x_test {x_test.dtype} {x_test.shape[1:]}."
        )
    if len(x_train) == 0:
        raise DataError(f"{name!r} has no training samples.")


def _check_labels(
    name: str, y_train: Array, y_test: Array, classes: int | None
) -> tuple[Array, int]:
    for what, y in (("y_train", y_train), ("y_test", y_test)):
        if y.ndim != 1:
            raise DataError(
                f"{what} of {name!r} has shape {y.shape}; it must be one label per row."
            )
    y = _joined(y_train, y_test)
    if np.issubdtype(y.dtype, np.floating):
        if not np.isfinite(y).all():
            raise DataError(f"The labels of {name!r} hold NaN or infinite values.")
        return y.astype(np.float32), 0
    if not np.issubdtype(y.dtype, np.integer):
        raise DataError(
            f"The labels of {name!r} are {y.dtype}; they must be integers (classes) or floats "
            "(regression)."
        )
    found = int(y.max()) + 1
    if y.min() < 0 or (classes is not None and found > classes):
        allowed = "0 and above" if classes is None else f"0 to {classes - 1}"
        raise DataError(
            f"The labels of {name!r} run from {y.min()} to {y.max()}; they must be {allowed}."
        )
    if classes is None and found > max(1000, len(y)):
        raise DataError(
            f"The labels of {name!r} reach {found - 1} with only {len(y)} samples; "
            "renumber the classes from 0."
        )
    return y.astype(np.int64), classes or found


def _check_rows(
    name: str, what: str, pair: tuple[Array, Array] | None, rows: tuple[int, int]
) -> None:
    if pair is not None and (len(pair[0]), len(pair[1])) != rows:
        raise DataError(
            f"{what} of {name!r} has {len(pair[0])} training and {len(pair[1])} test rows, "
            f"but there are {rows[0]} and {rows[1]} samples."
        )
