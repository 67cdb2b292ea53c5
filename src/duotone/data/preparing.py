"""Features of a table made ready for training: gaps filled, categories spread out, numbers scaled.

Everything is learnt from the training rows of the members, and from nothing else: not from
validation or test rows, and not from newcomers. A number becomes (value − mean) / standard
deviation, and a gap becomes 0, the mean. Mean and deviation are those of all members' rows; each
member has to give only the count, mean and variance of its own, which are then merged. A category
becomes one feature per value that a member has in training, 1 where a row has it. A gap is a value
of its own where a member has one. A value that no member has becomes zeros in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from duotone.data.dataset import Array, Column, Dataset
from duotone.data.frames import frame_of, numbers, texts
from duotone.errors import DataError
from duotone.registry import did_you_mean

MISSING_VALUE = "(missing)"
"""What the feature for gaps in a column of categories is called."""


@dataclass(frozen=True, slots=True)
class PreparedColumn:
    """What was learnt of one column.

    Attributes:
        name: What the table calls it.
        values: The categories that members have; an empty text for gaps. ``None`` for numbers.
        mean: Of a column of numbers.
        scale: Its standard deviation; 1 if that is 0.
    """

    name: str
    values: tuple[str, ...] | None = None
    mean: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Preparation:
    """How features are made of the columns of a table.

    Attributes:
        columns: What was learnt of each, in the order of the features.
        unknown: By column of categories, how many rows of this data have a value that no member
            has in training.
    """

    columns: tuple[PreparedColumn, ...]
    unknown: Mapping[str, int]

    @property
    def features(self) -> tuple[str, ...]:
        """What the features are called: ``age``, ``job=nurse``."""
        names: list[str] = []
        for column in self.columns:
            if column.values is None:
                names.append(column.name)
            else:
                names += [f"{column.name}={value or MISSING_VALUE}" for value in column.values]
        return tuple(names)

    @property
    def remark(self) -> str:
        """What the user should know: which categories no member has; empty if there are none."""
        if not self.unknown:
            return ""
        found = ", ".join(f"{name} ({rows} rows)" for name, rows in self.unknown.items())
        return (
            "Some categories occur in no training row of a member and count as none of the known "
            f"ones: {found}."
        )

    def apply(self, table: Any) -> NDArray[np.float32]:
        """Return the features of new rows.

        Args:
            table: A data frame of polars or pandas, or a mapping from column to values. Other
                columns than those of the run are ignored.

        Raises:
            DataError: A column is missing or holds texts instead of numbers.
        """
        frame = pl.DataFrame(table) if isinstance(table, Mapping) else frame_of(table)
        given: list[Array] = []
        for column in self.columns:
            if column.name not in frame.columns:
                raise DataError(
                    f"The table has no column {column.name!r}."
                    f"{did_you_mean(column.name, frame.columns)} The run was trained with: "
                    f"{', '.join(known.name for known in self.columns)}."
                )
            series = frame[column.name]
            given.append(numbers(series) if column.values is None else texts(series))
        return self._features(given)

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain tables and lists."""
        columns = [
            {"name": column.name, "mean": column.mean, "scale": column.scale}
            if column.values is None
            else {"name": column.name, "values": list(column.values)}
            for column in self.columns
        ]
        return {"columns": columns, "unknown": dict(self.unknown)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Preparation:
        """Return what :meth:`as_json` gave."""
        columns = tuple(
            PreparedColumn(column["name"], values=tuple(column["values"]))
            if "values" in column
            else PreparedColumn(column["name"], mean=column["mean"], scale=column["scale"])
            for column in content["columns"]
        )
        return cls(columns, content["unknown"])

    def _features(self, given: Sequence[Array]) -> NDArray[np.float32]:
        """Return the features of columns: numbers with NaN, or texts, empty for gaps."""
        made: list[Array] = []
        for column, values in zip(self.columns, given, strict=True):
            if column.values is None:
                made.append(np.nan_to_num((values - column.mean) / column.scale, nan=0.0))
            else:
                made += [values == value for value in column.values]
        return np.stack(made, axis=1).astype(np.float32)


def prepared(dataset: Dataset, trained_on: Sequence[NDArray[np.int64]]) -> Dataset:
    """Return a table with features made of its columns; other data as it is.

    Args:
        dataset: The data.
        trained_on: For each member the rows it trains on.

    Raises:
        DataError: A column has no value in any of these rows.
    """
    if dataset.columns is None:
        return dataset
    learnt, given, unknown = [], [], {}
    for number, column in enumerate(dataset.columns):
        raw = dataset.x[:, number]
        if column.values is None:
            given.append(raw)
            learnt.append(_number_column(column, raw, trained_on))
            continue
        read = np.array([*column.values, ""])[np.nan_to_num(raw, nan=-1).astype(np.int64)]
        seen = _seen(column, read, trained_on)
        strange = ~np.isin(read, seen)
        if strange.any():
            unknown[column.name] = int(strange.sum())
        given.append(read)
        learnt.append(PreparedColumn(column.name, values=tuple(seen)))
    preparation = Preparation(tuple(learnt), unknown)
    features = preparation._features(given)
    return replace(dataset, x=features, columns=None, preparation=preparation)


def _number_column(
    column: Column, raw: Array, trained_on: Sequence[NDArray[np.int64]]
) -> PreparedColumn:
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    for rows in trained_on:
        present = raw[rows][~np.isnan(raw[rows])]
        if len(present):
            scaler.partial_fit(present[:, np.newaxis])
    if not hasattr(scaler, "mean_"):
        raise _empty(column)
    return PreparedColumn(column.name, mean=float(scaler.mean_[0]), scale=float(scaler.scale_[0]))


def _seen(column: Column, read: Array, trained_on: Sequence[NDArray[np.int64]]) -> list[str]:
    """Return the categories that members have in training."""
    seen = {value for rows in trained_on for value in read[rows].tolist()}
    if seen <= {""}:
        raise _empty(column)
    return sorted(seen)


def _empty(column: Column) -> DataError:
    return DataError(
        f"The column {column.name!r} has no value in any row that members train on; leave it out: "
        f'table.ignore = ["{column.name}"].'
    )
