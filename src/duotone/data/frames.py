"""Tables as they come: CSV and Parquet files, and data frames of polars, pandas or Arrow.

All become a polars frame. In a CSV file every value is text at first; a column all of whose values
are numbers is then a column of numbers. Blanks around a value are dropped, and the texts in
:data:`MISSING` stand for a value that is missing. Rows are counted from 1, without the heading.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from duotone.data.dataset import Array
from duotone.data.limits import check_announced, check_regular, panics_as
from duotone.errors import DataError

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
"""What stands for a missing value in a CSV file."""

SEPARATORS = (",", ";", "\t")
"""What may stand between the values of a CSV file: whichever its heading has most of."""

SUFFIXES = (".csv", ".parquet")
"""How the names of files with tables end."""


def read_frame(path: Path) -> pl.DataFrame:
    """Read a CSV or Parquet file.

    Raises:
        DataError: It is missing, damaged, or has no rows or the same heading twice.
    """
    try:
        check_regular(path)
        content = path.read_bytes()
        with panics_as(path):
            frame = _parsed(path, content)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(f"{path}: the table cannot be read ({reason}).") from error
    if path.suffix.lower() == ".parquet":
        return frame
    # This is how polars calls the second of two columns with one heading.
    twice = [name for name in frame.columns if name.endswith("_duplicated_0")]
    if twice:
        heading = twice[0].removesuffix("_duplicated_0")
        raise DataError(f"{path}: two columns are called {heading!r}; rename one of them.")
    return frame.with_columns(map(_typed, frame.get_columns()))


def _parsed(path: Path, content: bytes) -> pl.DataFrame:
    if path.suffix.lower() == ".parquet":
        file = io.BytesIO(content)
        cells = pl.scan_parquet(file).select(pl.len()).collect().item()
        cells *= max(1, len(pl.read_parquet_schema(file)))
        check_announced(path, 8 * cells, len(content))
        return pl.read_parquet(io.BytesIO(content))
    first_line = content.partition(b"\n")[0]
    separator = max(SEPARATORS, key=lambda sign: first_line.count(sign.encode()))
    return pl.read_csv(io.BytesIO(content), separator=separator, infer_schema=False)


def is_frame(thing: object) -> bool:
    """Say whether something is a data frame of polars, pandas or Arrow."""
    return isinstance(thing, pl.DataFrame | pl.LazyFrame) or (
        hasattr(thing, "columns") and (hasattr(thing, "isna") or hasattr(thing, "to_pylist"))
    )


def frame_of(thing: Any) -> pl.DataFrame:
    """Return a data frame of polars, pandas or Arrow as one of polars.

    Raises:
        DataError: A column mixes types.
    """
    if isinstance(thing, pl.DataFrame):
        return thing
    if isinstance(thing, pl.LazyFrame):
        return thing.collect()
    if not hasattr(thing, "isna"):
        return pl.DataFrame(thing)
    # Value by value where they are objects: polars itself needs pyarrow for what pandas has.
    columns: dict[str, pl.Series] = {}
    for name in thing.columns:
        values, missing = thing[name].to_numpy(), thing[name].isna().tolist()
        if values.dtype.kind not in "biuf":
            given = [None if gone else v for v, gone in zip(values.tolist(), missing, strict=True)]
            kinds = {type(value) for value in given if value is not None}
            if kinds - {int, float} and len(kinds) > 1:
                _refuse_mixed(str(name), given)
            columns[str(name)] = pl.Series(str(name), given, strict=False)
        else:
            columns[str(name)] = pl.Series(str(name), values, nan_to_null=True)
    return pl.DataFrame(columns)


def numbers(column: pl.Series) -> Array:
    """Return a column of numbers or truth values as float64, NaN where a value is missing.

    Raises:
        DataError: It is of another type, or holds infinite values.
    """
    if not (column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null)):
        raise DataError(
            f"The column {column.name!r} holds {column.dtype}, which is no number; make it numbers "
            "or texts, or leave it out: table.ignore."
        )
    values = column.cast(pl.Float64).to_numpy()
    infinite = np.isinf(values)
    if infinite.any():
        raise DataError(
            f"The column {column.name!r} is infinite in row {infinite.argmax() + 1}; correct it, "
            "or leave it empty if it is missing."
        )
    return np.asarray(values)


def texts(column: pl.Series) -> Array:
    """Return a column of texts, numbers or truth values as texts, empty where one is missing."""
    if column.dtype.is_float():
        column = column.fill_nan(None)
        if bool((column.drop_nulls() % 1 == 0).all()):  # whole numbers, some of them missing
            column = column.cast(pl.Int64)
    filled = column.cast(pl.String).fill_null("")
    return np.asarray(filled.to_list(), dtype=str)


def is_text(column: pl.Series) -> bool:
    """Say whether a column holds texts."""
    return isinstance(column.dtype, pl.String | pl.Categorical | pl.Enum)


def check_unmixed(column: pl.Series) -> None:
    """Make sure that a column of texts is not one of numbers with a few texts among them.

    Raises:
        DataError: More than half of its values are numbers, or have a decimal comma.
    """
    given = column.cast(pl.String)
    is_number = given.str.strip_chars().cast(pl.Float64, strict=False).is_not_null()
    known = given.is_not_null()
    has_comma = given.str.contains(r"^\s*-?\d+,\d+\s*$").fill_null(False)
    if has_comma.sum() * 2 > known.sum():
        raise DataError(
            f"The column {column.name!r} holds numbers with a decimal comma, such as "
            f"{given[int(has_comma.arg_max() or 0)]!r}; write them with a point."
        )
    if is_number.sum() * 2 > known.sum():
        row = int((known & ~is_number).arg_max() or 0)
        raise DataError(
            f"The column {column.name!r} holds numbers and, in row {row + 1}, the text "
            f"{given[row]!r}; correct it, leave it empty, or say that the column holds categories: "
            f'table.categories = ["{column.name}"].'
        )


def _typed(column: pl.Series) -> pl.Series:
    """Return texts as whole numbers or numbers, where all of them are."""
    given = column.str.strip_chars()
    given = given.set(given.is_in(MISSING), None)
    for kind in (pl.Int64, pl.Float64):
        cast = given.cast(kind, strict=False)
        if cast.null_count() == given.null_count() < len(given):
            return cast
    return given


def _refuse_mixed(name: str, given: list[Any]) -> None:
    first = next(value for value in given if value is not None)
    row, other = next(
        (row, value)
        for row, value in enumerate(given, start=1)
        if value is not None and type(value) is not type(first)
    )
    raise DataError(
        f"The column {name!r} mixes types: {first!r} and, in row {row}, {other!r}; give all its "
        "values one type."
    )
