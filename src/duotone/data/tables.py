"""From a table to a data set: which column is the label, which the client, which are features.

Features stay as they were read, with gaps and categories. They are prepared for training when it
is known who trains on which rows, see :mod:`duotone.data.preparing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from duotone.config import Settings, validated
from duotone.data.dataset import Array, Column, Dataset
from duotone.data.frames import check_unmixed, is_text, numbers, read_frame, texts
from duotone.data.split import fixed_test_rows
from duotone.errors import DataError
from duotone.registry import did_you_mean

MOST_CATEGORIES = 100
"""A column of texts with more different values than this is no feature."""


class TableSettings(Settings):
    """How to read a table. Columns are called as in its heading."""

    label: str = "label"
    """The column with the labels."""
    client: str | None = None
    """The column that says whose a row is; by default the one called client, if there is one."""
    split: str | None = None
    """The column that says train or test; by default the one called split, if there is one."""
    id: str | None = None
    """A column that names every row; it is checked for names that occur twice, and no feature."""
    ignore: tuple[str, ...] = ()
    """Columns that are not used."""
    categories: tuple[str, ...] = ()
    """Columns of numbers that are names of categories, such as postcodes."""
    task: Literal["auto", "classes", "regression"] = "auto"
    """What labels are; auto takes texts and whole numbers for classes, fractions for targets."""


class Samples(NamedTuple):
    """Samples of which some may be for the test.

    Attributes:
        x: The samples.
        y: Their labels.
        client: Whose they are, where it is known.
        is_test: Which are for the test, where it is known.
        class_names: What the classes are called, where it is known.
    """

    x: Array
    y: Array
    client: Array | None
    is_test: NDArray[np.bool_] | None
    class_names: tuple[str, ...] | None


def table_settings(given: Mapping[str, Any] | None) -> TableSettings:
    """Check settings of the table ``[table]``.

    Raises:
        ConfigError: Some are wrong; the message has all of them.
    """
    return validated(TableSettings, given or {}, owner="a table", prefix="table.")


def read_table(path: Path, settings: TableSettings) -> Dataset:
    """Read a CSV or Parquet file.

    Raises:
        DataError: It cannot be read, or does not hold what the settings say.
    """
    frame = read_frame(path)
    try:
        return dataset_from_frame(path.stem, frame, settings, origin=f"Read from {path.name}.")
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def dataset_from_frame(
    name: str, frame: pl.DataFrame, settings: TableSettings, *, origin: str = ""
) -> Dataset:
    """Make a data set of a table; its features are not prepared yet.

    Without a column that says train or test, a fifth of each client's rows of each class is kept
    for the test, always the same.

    Raises:
        DataError: The table does not hold what the settings say; the message names the column and
            the row.
    """
    if not len(frame):
        raise DataError("The table has no rows.")
    label, client, split = _column(frame, "label", settings.label), None, None
    if settings.client is not None or "client" in frame.columns:
        client = _column(frame, "client", settings.client or "client")
    if settings.split is not None or "split" in frame.columns:
        split = _column(frame, "split", settings.split or "split")
    if settings.id is not None:
        _check_ids(_column(frame, "id", settings.id))
    for key in ("ignore", "categories"):
        for column in getattr(settings, key):
            _column(frame, key, column)
    used = {settings.label, settings.id, *settings.ignore}
    used |= {column.name for column in (client, split) if column is not None}
    columns, values = [], []
    for feature in frame.get_columns():
        if feature.name not in used:
            column, read = _feature(feature, feature.name in settings.categories)
            columns.append(column)
            values.append(read)
    if not columns:
        raise DataError("The table has no column left that could be a feature.")
    y, class_names = _labels(label, settings.task)
    return dataset_from_samples(
        name,
        Samples(
            np.stack(values, axis=1),
            y,
            None if client is None else _complete_texts(client),
            None if split is None else _is_test(split),
            class_names,
        ),
        columns=tuple(columns),
        origin=origin,
    )


def dataset_from_samples(
    name: str, samples: Samples, *, columns: tuple[Column, ...] | None = None, origin: str = ""
) -> Dataset:
    """Make a data set; where it is not said what the test samples are, a fifth is kept for it.

    Raises:
        DataError: Something does not fit; the message names the array.
    """
    x, y, client, is_test, class_names = samples
    if is_test is None:
        evenly = y.astype(str) if y.dtype.kind != "f" else np.full(len(y), "")
        if client is not None:
            evenly = np.char.add(np.char.add(client.astype(str), "\x1f"), evenly)
        is_test = fixed_test_rows(evenly, "rows")
    return Dataset.from_arrays(
        name,
        x[~is_test],
        y[~is_test],
        x[is_test],
        y[is_test],
        client=None if client is None else (client[~is_test], client[is_test]),
        class_names=class_names,
        columns=columns,
        origin=origin,
    )


def _column(frame: pl.DataFrame, key: str, name: str) -> pl.Series:
    if name not in frame.columns:
        shown = ", ".join(frame.columns[:10]) + (", …" if frame.width > 10 else "")
        raise DataError(
            f"There is no column {name!r}.{did_you_mean(name, frame.columns)} Set table.{key} to "
            f"one of: {shown}."
        )
    return frame[name]


def _feature(column: pl.Series, is_category: bool) -> tuple[Column, Array]:
    """Return what a feature is and its values: numbers, or those of categories."""
    if not (is_text(column) or is_category):
        return Column(column.name), numbers(column)
    if not is_category:
        check_unmixed(column)
    given = texts(column)
    values = sorted({*given.tolist()} - {""})
    if len(values) > MOST_CATEGORIES:
        raise DataError(
            f"The column {column.name!r} has {len(values)} different texts in {len(given)} rows, "
            f"more than the {MOST_CATEGORIES} that a feature may have; leave it out: "
            f'table.ignore = ["{column.name}"].'
        )
    number = {value: float(position) for position, value in enumerate(values)}
    codes = np.array([number.get(value, np.nan) for value in given.tolist()])
    return Column(column.name, tuple(values)), codes


def _labels(column: pl.Series, task: str) -> tuple[Array, tuple[str, ...] | None]:
    """Return labels, and the names of classes that are no numbers from 0."""
    missing = column.is_null() | (column.is_nan() if column.dtype.is_float() else False)
    if missing.any():
        raise DataError(
            f"The label column {column.name!r} is empty in row {int(missing.arg_max() or 0) + 1}; "
            "fill it in or remove the row."
        )
    if is_text(column) or column.dtype == pl.Boolean:
        if task == "regression":
            raise DataError(
                f"table.task is regression, but the column {column.name!r} holds texts, such as "
                f"{column[0]!r}; name a column of numbers, or use classes."
            )
        if is_text(column):
            check_unmixed(column)
        return texts(column), None
    values = numbers(column)
    is_whole = bool((values % 1 == 0).all())
    if task == "regression" or (task == "auto" and column.dtype.is_float()):
        return values, None
    if not is_whole:
        raise DataError(
            f"table.task is classes, but the column {column.name!r} holds "
            f"{values[values % 1 != 0][0]:g} in row {int((values % 1 != 0).argmax()) + 1}; classes "
            "are whole numbers or texts."
        )
    found, y = np.unique(values.astype(np.int64), return_inverse=True)
    if task == "auto" and len(found) > MOST_CATEGORIES:
        raise DataError(
            f"The label column {column.name!r} holds {len(found)} different whole numbers; say "
            "whether they are classes or targets: table.task = classes or regression."
        )
    is_counted = found.tolist() == list(range(len(found)))
    return y.astype(np.int64), None if is_counted else tuple(map(str, found.tolist()))


def _complete_texts(column: pl.Series) -> Array:
    values = texts(column)
    empty = values == ""
    if empty.any():
        raise DataError(
            f"The column {column.name!r} is empty in row {int(empty.argmax()) + 1}; fill it in or "
            "remove the row."
        )
    return values


def _is_test(column: pl.Series) -> NDArray[np.bool_]:
    values = np.char.lower(_complete_texts(column))
    known = np.isin(values, ("train", "test"))
    if not known.all():
        row = int((~known).argmax())
        raise DataError(
            f"The column {column.name!r} holds {str(column[row])!r} in row {row + 1}; it must say "
            "train or test."
        )
    return np.asarray(values == "test")


def _check_ids(column: pl.Series) -> None:
    values = _complete_texts(column).tolist()
    first: dict[str, int] = {}
    for row, value in enumerate(values, start=1):
        if value in first:
            raise DataError(
                f"The column {column.name!r} has {value!r} in rows {first[value]} and {row}; the "
                "same sample could be trained on and tested. Remove one, or leave table.id out."
            )
        first[value] = row
