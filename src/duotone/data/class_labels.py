"""Labels as a user has them: numbers of classes, their names, or targets of a regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from duotone.errors import DataError
from duotone.registry import did_you_mean

Labels: TypeAlias = NDArray[Any]
_TEXT = "UTO"
"""Kinds of arrays that may hold names of classes: fixed width, of any width, Python objects."""


def numbered(
    name: str, y_train: Labels, y_test: Labels, class_names: Sequence[str] | None
) -> tuple[Labels, Labels, tuple[str, ...] | None]:
    """Turn names of classes into numbers; labels that are numbers stay as they are.

    Args:
        name: What the user calls the data.
        y_train: Training labels.
        y_test: Test labels.
        class_names: The classes in the order of their numbers; by default the names that occur,
            sorted.

    Returns:
        Training and test labels, and what the classes are called, where it is known.

    Raises:
        DataError: A label is missing, no text among texts, or not in ``class_names``; or a class
            has no training sample.
    """
    names = None if class_names is None else tuple(map(str, class_names))
    if names is not None and ("" in names or len(set(names)) != len(names)):
        raise DataError(
            f"The class names of {name!r} must differ and not be empty: {', '.join(names[:10])}."
        )
    y_train, y_test = (y.astype(str) if y.dtype == bool else y for y in (y_train, y_test))
    if y_train.dtype.kind in _TEXT or y_test.dtype.kind in _TEXT:
        for what, y in (("y_train", y_train), ("y_test", y_test)):
            _check_texts(f"{what} of {name!r}", y)
        names = names or tuple(sorted({*map(str, y_train), *map(str, y_test)}))
        number = {label: position for position, label in enumerate(names)}
        for label in (*y_train, *y_test):
            if label not in number:
                raise DataError(
                    f"The labels of {name!r} hold {str(label)!r}, which is not in class_names."
                    f"{did_you_mean(str(label), list(names))}"
                )
        y_train, y_test = (
            np.array([number[label] for label in y], np.int64) for y in (y_train, y_test)
        )
    if names is not None:
        _check_names(name, y_train, y_test, names)
    return y_train, y_test, names


def _check_texts(what: str, y: Labels) -> None:
    for row, label in enumerate(y.reshape(-1)):
        if label is None or label == "":
            raise DataError(f"{what} has no label in row {row}; fill it in or remove the row.")
        if not isinstance(label, str):
            raise DataError(
                f"{what} mixes texts and other things: row {row} is {label!r}; use names of "
                "classes or numbers for all rows."
            )


def _check_names(name: str, y_train: Labels, y_test: Labels, names: tuple[str, ...]) -> None:
    if any(np.issubdtype(y.dtype, np.floating) for y in (y_train, y_test)):
        raise DataError(
            f"{name!r} has class names, but its labels are targets of a regression; leave the "
            "names out, or give classes as integers or texts."
        )
    seen = set(y_train.reshape(-1).tolist())
    empty = [label for number, label in enumerate(names) if number not in seen]
    if empty:
        raise DataError(
            f"The class {empty[0]!r} of {name!r} has no training sample, so nobody can learn it; "
            "add some, or leave the class and its test samples out."
        )


def check_labels(
    name: str, y_train: Labels, y_test: Labels, classes: int | None
) -> tuple[Labels, int]:
    """Check labels; return them in one array, and the number of classes (0 for regression).

    Raises:
        DataError: They are not one number per row, or no classes and no finite targets.
    """
    for what, y in (("y_train", y_train), ("y_test", y_test)):
        if y.ndim != 1:
            raise DataError(
                f"{what} of {name!r} has shape {y.shape}; it must be one label per row."
            )
    y = np.concatenate([y_train, y_test])
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
