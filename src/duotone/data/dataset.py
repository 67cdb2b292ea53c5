"""What a data set is: one table of samples, checked once, trusted afterwards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duotone.data.class_labels import check_labels, numbered
from duotone.errors import DataError

if TYPE_CHECKING:
    from duotone.data.preparing import Preparation

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A feature of a table as it was read.

    Attributes:
        name: What the table calls it.
        values: The categories, in the order of their numbers; ``None`` for a column of numbers.
    """

    name: str
    values: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples, their labels, and what else is known of them.

    Training and test samples stand in one table, so that a partition is a list of row numbers and
    client data never has to be copied. Build one with :meth:`from_arrays`, which checks it.

    Attributes:
        name: What the user calls it.
        x: Images as uint8, or as float32 in [0, 1], ``(rows, height, width)`` or ``(rows, height,
            width, channels)``; or features as float32 ``(rows, features)``. While ``columns`` are
            given: float64, NaN for what is missing, and categories by their number. With an
            ``alphabet``: characters by number as uint16 ``(rows, characters)``.
        y: Classes as int64 from 0, or regression targets as float32.
        is_test: Which rows are test samples.
        classes: Number of classes; 0 for regression.
        client: Natural client ids, one text per row, where the data has them.
        domain: Domain names, one text per row, where the data has them.
        factors: Ground-truth factors by name, one value per row; NaN or empty text where a sample
            has none.
        origin: One sentence for humans: where the samples come from.
        class_names: What the classes are called, in the order of their numbers, where it is known.
        columns: Of a table that is not prepared for training yet, what its features are.
        preparation: How the features of a prepared table were made of its columns.
        alphabet: Of text, its characters in the order of their numbers, from 1; empty otherwise.
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
    class_names: tuple[str, ...] | None = None
    columns: tuple[Column, ...] | None = None
    preparation: Preparation | None = None
    alphabet: str = ""

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

    @property
    def is_image(self) -> bool:
        """Whether samples are images."""
        return self.x.ndim > 2

    def pictures(self, rows: Any) -> NDArray[np.uint8]:
        """Return some images as uint8, to be looked at."""
        images: Array = self.x[rows]
        return images if images.dtype == np.uint8 else np.rint(images * 255).astype(np.uint8)

    def fingerprint(self) -> str:
        """Return a short hash of the samples and labels: equal data, equal fingerprint."""
        digest = hashlib.sha256()
        for array in (self.x, self.y, self.is_test):
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        if self.preparation is not None:  # scaled, a column in other units looks the same
            digest.update(json.dumps(self.preparation.as_json()).encode())
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
        class_names: Sequence[str] | None = None,
        columns: tuple[Column, ...] | None = None,
        alphabet: str = "",
        origin: str = "",
    ) -> Dataset:
        """Check the arrays of a data set and put them into one table.

        Pairs are (training, test). Integer labels are classes, floats regression targets, and texts
        names of classes, numbered in their sorted order unless ``class_names`` gives another.

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
            class_names: What the classes are called, in the order of their numbers.
            columns: What the features are, for a table that is not prepared yet.
            alphabet: The characters of a text, in the order of their numbers from 1.
            origin: One sentence on where the samples come from.

        Raises:
            DataError: Something does not fit; the message names the array.
        """
        x_train, x_test, y_train, y_test = map(np.asarray, (x_train, x_test, y_train, y_test))
        if alphabet:
            _check_text(name, alphabet, x_train, x_test)
        check_samples(name, x_train, x_test, raw=columns is not None, text=bool(alphabet))
        rows = (len(x_train), len(x_test))
        made = {f"factor_{factor}": pair for factor, pair in (factors or {}).items()}
        given = {"y": (y_train, y_test), "client": client, "domain": domain, **made}
        for what, pair in given.items():
            _check_rows(name, what, pair, rows)
        y_train, y_test, names = numbered(name, y_train, y_test, class_names)
        y, classes = check_labels(name, y_train, y_test, len(names) if names else classes)
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
            class_names=names,
            columns=columns,
            alphabet=alphabet,
        )


def is_known(values: Array) -> NDArray[np.bool_]:
    """Say which samples have a value of a factor: NaN and empty text stand for none."""
    if np.issubdtype(values.dtype, np.floating):
        return np.asarray(~np.isnan(values))
    return np.asarray(values.astype(str) != "")


def _joined(train: Array, test: Array) -> Array:
    return np.concatenate([np.asarray(train), np.asarray(test)])


def check_samples(
    name: str, x_train: Array, x_test: Array, *, raw: bool = False, text: bool = False
) -> None:
    """Check the form of samples.

    Args:
        name: What the user calls the data.
        x_train: Training samples.
        x_test: Test samples.
        raw: Whether they are columns of a table that is not prepared yet.
        text: Whether they are characters by number.

    Raises:
        DataError: Something does not fit; the message names the array.
    """
    for what, x in (("x_train", x_train), ("x_test", x_test)):
        if x.dtype in (np.uint8, np.float32) and x.ndim in (3, 4):
            _check_images(name, what, x)
        elif x.dtype == np.float32 and x.ndim == 2:
            if not np.isfinite(x).all():
                row = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
                raise DataError(
                    f"{what} of {name!r} holds NaN or infinite values (first in row {row}); "
                    "remove or fill them before training."
                )
        elif not ((text or (raw and x.dtype == np.float64)) and x.ndim == 2):
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


def _check_text(name: str, alphabet: str, *samples: Array) -> None:
    if len(set(alphabet)) != len(alphabet):
        raise DataError(f"The alphabet of {name!r} has a character twice: {alphabet!r}.")
    for x in samples:
        if x.dtype != np.uint16 or (x.size and int(x.max()) > len(alphabet)):
            found = f"{x.dtype} up to {x.max()}" if x.size else str(x.dtype)
            raise DataError(
                f"The characters of {name!r} are {found}; they must be uint16, 0 to "
                f"{len(alphabet)}: places in its alphabet, counted from 1."
            )


def _check_images(name: str, what: str, x: Array) -> None:
    if 0 in x.shape[1:3] or (x.ndim == 4 and x.shape[3] not in (1, 3)):
        raise DataError(
            f"{what} of {name!r} has shape {x.shape}; images must be rows × height × width "
            "or rows × height × width × channels with 1 or 3 channels."
        )
    if x.dtype == np.float32 and x.size:
        low, high = float(x.min()), float(x.max())
        if not (low >= 0 and high <= 1):  # in these words, because NaN is neither
            raise DataError(
                f"{what} of {name!r} are images with values from {low:g} to {high:g}; float images "
                "must lie in [0, 1]: divide by the largest possible value, and leave out "
                "normalisation."
            )


def _check_rows(
    name: str, what: str, pair: tuple[Array, Array] | None, rows: tuple[int, int]
) -> None:
    if pair is not None and (len(pair[0]), len(pair[1])) != rows:
        raise DataError(
            f"{what} of {name!r} has {len(pair[0])} training and {len(pair[1])} test rows, "
            f"but there are {rows[0]} and {rows[1]} samples."
        )
