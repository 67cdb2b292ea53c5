"""Data sets of Hugging Face and of Flower Datasets: saved ones, cached ones, or objects.

The package ``datasets`` is an optional extra and only loaded when it is needed. Nothing is
downloaded by reading a saved folder; a name is looked up in the cache of ``datasets`` first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from duotone.data.dataset import Array
from duotone.data.folders import image_pixels
from duotone.data.tables import Samples, TableSettings
from duotone.errors import DataError, MissingExtraError
from duotone.registry import did_you_mean

PREFIX = "hub:"
"""What stands before the name of a data set of Hugging Face."""

_MARKS = ("dataset_dict.json", "state.json")


def is_saved(folder: Path) -> bool:
    """Say whether a folder was written by ``save_to_disk``."""
    return any((folder / mark).is_file() for mark in _MARKS)


def load_saved(folder: Path) -> Any:
    """Open a folder that ``save_to_disk`` wrote.

    Raises:
        MissingExtraError: ``datasets`` is not installed.
        DataError: The folder is damaged.
    """
    datasets = _package(str(folder))
    try:
        return datasets.load_from_disk(str(folder))
    except Exception as error:  # pyarrow, json and datasets fail in many ways
        raise DataError(f"{folder}: the saved data set cannot be read ({_line(error)}).") from error


def load_named(name: str) -> Any:
    """Load a data set by its name on the hub, from the cache if it is there.

    Raises:
        MissingExtraError: ``datasets`` is not installed.
        DataError: It is neither in the cache nor to be had.
    """
    datasets = _package(f"{PREFIX}{name}")
    try:
        return datasets.load_dataset(name)
    except Exception as error:  # whatever the network and the hub may answer
        raise DataError(
            f"The data set {PREFIX}{name} cannot be had ({_line(error)}). Without a network, save "
            "it elsewhere with save_to_disk and give the folder."
        ) from error


def is_hub(thing: object) -> bool:
    """Say whether something is a data set of Hugging Face, or Flower's partition of one."""
    return is_federated(thing) or all(
        hasattr(thing, name) for name in ("features", "column_names", "to_polars")
    )


def is_federated(thing: object) -> bool:
    """Say whether something is a FederatedDataset of Flower."""
    return hasattr(thing, "load_partition") and hasattr(thing, "partitioners")


def is_hub_of_images(source: Any) -> bool:
    """Say whether a data set of Hugging Face has a column of images."""
    return bool(_columns_of(source, "Image"))


def hub_frame(source: Any) -> pl.DataFrame:
    """Return a data set without images as a table, with classes by their names."""
    frame: pl.DataFrame = source.with_format(None).to_polars()
    for column in _columns_of(source, "ClassLabel"):
        names = list(source.features[column].names)
        in_words = [None if n is None or n < 0 else names[n] for n in frame[column].to_list()]
        frame = frame.with_columns(pl.Series(column, in_words, dtype=pl.String))
    return frame


def hub_samples(source: Any, settings: TableSettings) -> Samples:
    """Return the images of a data set with their labels and clients.

    Raises:
        DataError: A column is missing, an image cannot be read or is unlike the first one.
    """
    columns = list(source.column_names)
    label = settings.label
    labels_found = _columns_of(source, "ClassLabel")
    if label not in columns and label == "label" and len(labels_found) == 1:
        (label,) = labels_found
    wanted = {"label": label, "client": settings.client}
    for key, column in wanted.items():
        if column is not None and column not in columns:
            raise DataError(
                f"There is no column {column!r}.{did_you_mean(column, columns)} Set table.{key} to "
                f"one of: {', '.join(columns)}."
            )
    image = _columns_of(source, "Image")[0]
    images: list[Array] = []
    for row in range(len(source)):
        try:
            pixels = image_pixels(source[row][image], f"row {row + 1}", deep=True)
        except Exception as error:  # Pillow's decoders fail in many ways on damaged images
            line = f"The image in row {row + 1} cannot be read ({_line(error)})."
            raise DataError(line) from error
        if images and pixels.shape != images[0].shape:
            raise DataError(
                f"The image in row {row + 1} has shape {pixels.shape}, but the first has "
                f"{images[0].shape}; all images must have one size."
            )
        images.append(pixels)
    names = None
    if label in labels_found:
        names = tuple(map(str, source.features[label].names))
    client = settings.client or ("client" if "client" in columns else None)
    return Samples(
        np.stack(images) if images else np.zeros(0),
        np.array(source[label][:]),
        None if client is None else np.array(source[client][:]).astype(str),
        None,
        names,
    )


def _columns_of(source: Any, kind: str) -> list[str]:
    return [name for name, value in source.features.items() if type(value).__name__ == kind]


def _package(what: str) -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError(
            f"{what} is a data set of Hugging Face, which needs the package datasets; install it "
            "with: pip install 'duotone[hub]'"
        ) from error
    return datasets


def _line(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:200]
