"""The canonical file of a data set: ``NAME.npz``, read with care, written whole or not at all.

Keys are ``x_train, y_train, x_test, y_test`` and, where the data has them, ``client_train,
client_test`` (natural client ids), ``domain_train, domain_test``, ``factor_<name>_train,
factor_<name>_test``, ``class_names`` and, for text, ``alphabet``. Other keys are ignored. Nothing
is ever unpickled.

The files of known data sets are looked up in the folder ``$DUOTONE_DATA``, then in the user cache.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from duotone.data.dataset import Array, Dataset
from duotone.data.limits import check_npz, check_text
from duotone.data.samples import as_samples
from duotone.errors import DataError
from duotone.registry import did_you_mean

_PLAIN = ("x", "y", "client", "domain")
_ARRAY_NAME = re.compile(rf"({'|'.join(_PLAIN)}|factor_.+)_(train|test)|class_names|alphabet")


def user_cache() -> Path:
    """Return the folder in which duotone keeps imported data."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG rules say that a relative path is to be ignored.
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "duotone"


def search_folders() -> list[Path]:
    """Return the folders in which files of known data sets are looked up, in order."""
    chosen = os.environ.get("DUOTONE_DATA")
    return [*([Path(chosen).expanduser()] if chosen else []), user_cache()]


def file_of(name: str) -> str:
    """Return the file name of a known data set: ``mnist-m`` is in ``mnistm.npz``."""
    return f"{name.replace('-', '')}.npz"


def find_file(file: str) -> Path | None:
    """Return where a file of a known data set is, or ``None``."""
    return next((folder / file for folder in search_folders() if (folder / file).is_file()), None)


def read_dataset(path: Path, *, name: str | None = None, origin: str | None = None) -> Dataset:
    """Read a canonical file.

    What number types samples may have is said in :mod:`duotone.data.samples`.

    Args:
        path: The file.
        name: What the user calls the data; by default the name of the file.
        origin: One sentence on where the samples come from.

    Raises:
        DataError: The file is missing, damaged or lacks something; the message names it.
    """
    arrays = read_arrays(path)
    try:
        return dataset_from_mapping(
            name or path.stem, arrays, origin=origin or f"Read from {path.name}."
        )
    except (DataError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error


def dataset_from_mapping(name: str, arrays: Mapping[str, Array], *, origin: str = "") -> Dataset:
    """Make a data set of arrays that are named as in a canonical file.

    Raises:
        DataError: An array is missing, unknown or does not fit; the message names it.
    """
    for key in arrays:
        if not _ARRAY_NAME.fullmatch(key):
            near = did_you_mean(key, [f"{kind}_{s}" for kind in _PLAIN for s in ("train", "test")])
            raise DataError(
                f"Unknown array {key!r}.{near} A data set has x, y, client, domain and "
                "factor_NAME, each as …_train and …_test, and class_names."
            )
    alphabet = str(arrays.get("alphabet", ""))
    made = np.asarray if alphabet else as_samples
    try:
        return Dataset.from_arrays(
            name,
            made(arrays["x_train"]),
            arrays["y_train"],
            made(arrays["x_test"]),
            arrays["y_test"],
            client=_column(arrays, "client"),
            domain=_column(arrays, "domain"),
            factors={
                factor: pair
                for factor in _factor_names(arrays)
                if (pair := _column(arrays, f"factor_{factor}")) is not None
            },
            class_names=_class_names(arrays),
            alphabet=alphabet,
            origin=origin,
        )
    except KeyError as error:
        raise DataError(
            f"The array {error} is missing; a data set has x_train, y_train, x_test and y_test, "
            "and client_*, domain_* and factor_* always as a train and test pair."
        ) from error


def read_arrays(path: Path, names: re.Pattern[str] = _ARRAY_NAME) -> dict[str, Array]:
    """Read those arrays of an npz file that have one of these names."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path}: this is not an npz file, or only the beginning of one.")
    arrays: dict[str, Array] = {}
    key = "list of arrays"
    try:
        # NumPy leaves a file open that it opened itself and found damaged.
        with path.open("rb") as file:
            check_npz(path, file, lambda name: names.fullmatch(name) is not None)
            with np.load(file, allow_pickle=False) as archive:
                for key in archive.files:
                    if names.fullmatch(key):
                        arrays[key] = archive[key]
                        check_text(path, key, arrays[key])
    except DataError:
        raise
    # zipfile, zlib and NumPy's header parser have a dozen ways to fail on a damaged file.
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: its {key} cannot be read ({reason}).") from error
    return arrays


def save_dataset(dataset: Dataset, path: Path | str) -> None:
    """Write a data set as a canonical file, whole or not at all.

    The file holds the samples, labels, clients, domains, factors, names of classes and the alphabet
    of a text. It does not hold the origin, and without names the number of classes is read from the
    labels again.

    Raises:
        DataError: The file cannot be written, or the data is a table that is not prepared yet.
    """
    if dataset.columns is not None:
        raise DataError(
            f"{dataset.name!r} is a table whose features are prepared for each run anew; keep its "
            "CSV or Parquet file."
        )
    columns = {"x": dataset.x, "y": dataset.y, "client": dataset.client, "domain": dataset.domain}
    columns |= {f"factor_{factor}": values for factor, values in dataset.factors.items()}
    write_arrays(
        Path(path),
        {
            f"{key}_{split}": values[rows]
            for key, values in columns.items()
            if values is not None
            for split, rows in (("train", dataset.train_rows), ("test", dataset.test_rows))
        }
        | ({} if dataset.class_names is None else {"class_names": np.array(dataset.class_names)})
        | ({"alphabet": np.array(dataset.alphabet)} if dataset.alphabet else {}),
    )


def write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays into a compressed npz file, whole or not at all.

    Raises:
        DataError: The file cannot be written.
    """
    for key, values in arrays.items():
        if values.dtype.hasobject:
            raise DataError(f"{path}: {key} holds Python objects, which are never written.")
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with unfinished.open("wb") as file:
                np.savez_compressed(file, **arrays)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(
            f"{path}: the file cannot be written ({error.strerror or error})."
        ) from error


def _class_names(arrays: Mapping[str, Array]) -> list[str] | None:
    if "class_names" not in arrays:
        return None
    names = np.asarray(arrays["class_names"])
    if names.ndim != 1 or names.dtype.kind not in "UT":
        raise DataError(
            f"class_names is {names.dtype} with shape {names.shape}; it must be a list of texts, "
            "one per class."
        )
    return [str(name) for name in names]


def _factor_names(arrays: Mapping[str, Array]) -> list[str]:
    names = (key.removesuffix("_train").removesuffix("_test") for key in arrays)
    return sorted({name.removeprefix("factor_") for name in names if name.startswith("factor_")})


def _column(arrays: Mapping[str, Array], key: str) -> tuple[Array, Array] | None:
    if f"{key}_train" not in arrays and f"{key}_test" not in arrays:
        return None
    pair = np.asarray(arrays[f"{key}_train"]), np.asarray(arrays[f"{key}_test"])
    for split, values in zip(("train", "test"), pair, strict=True):
        if values.ndim != 1:
            raise DataError(
                f"{key}_{split} has shape {values.shape}; it must be one value per row."
            )
    return pair
