"""Samples that stay on disk: a folder of ``.npy`` files, larger than the memory if need be.

The folder holds ``x.npy`` and ``y.npy``, all training samples first, and ``is_test.npy`` (one truth
value per row); where the data has them, ``client.npy``, ``domain.npy``, ``factor_NAME.npy`` and
``class_names.npy``. ``x.npy`` is mapped into memory, so that only those samples are read that a
client needs, in worker processes too. Nothing is ever unpickled.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np

from duotone.data.class_labels import check_labels, numbered
from duotone.data.dataset import Array, Dataset, check_samples
from duotone.data.limits import check_regular, check_text
from duotone.errors import DataError

_NEEDED = ("x", "y", "is_test")


def is_mapped_folder(path: Path) -> bool:
    """Say whether a folder is one of ``.npy`` files."""
    return (path / "x.npy").is_file()


def read_mapped(folder: Path) -> Dataset:
    """Open a folder of ``.npy`` files; its samples stay on disk.

    Raises:
        DataError: A file is missing or damaged, or does not fit the others; the message names it.
    """
    arrays = {key: _load(folder / f"{key}.npy") for key in _NEEDED}
    for path in sorted(folder.glob("*.npy")):
        if path.stem.startswith("factor_") or path.stem in ("client", "domain"):
            arrays[path.stem] = _load(path)
    rows = len(arrays["x"])
    for key, values in arrays.items():
        if key != "x" and values.shape != (rows,):
            raise DataError(
                f"{folder / key}.npy has shape {values.shape}, but there are {rows} samples; it "
                "must be one value per row."
            )
    x, is_test = arrays["x"], arrays["is_test"]
    if is_test.dtype != bool or (np.diff(is_test.astype(np.int8)) < 0).any():
        raise DataError(
            f"{folder / 'is_test.npy'} must be truth values, and all training samples must stand "
            "before the test samples."
        )
    names = folder / "class_names.npy"
    first_test = rows - int(is_test.sum())
    name = folder.resolve().name
    try:
        check_samples(name, x[:first_test], x[first_test:])
        y_train, y_test, class_names = numbered(
            name,
            arrays["y"][:first_test],
            arrays["y"][first_test:],
            [str(label) for label in _load(names)] if names.exists() else None,
        )
        classes = len(class_names) if class_names else None
        y, classes = check_labels(name, y_train, y_test, classes)
    except DataError as error:
        raise DataError(f"{folder}: {error}") from error
    client, domain = (
        arrays[key].astype(str) if key in arrays else None for key in ("client", "domain")
    )
    return Dataset(
        name=name,
        x=x,
        y=y,
        is_test=is_test,
        classes=classes,
        client=client,
        domain=domain,
        factors={
            key.removeprefix("factor_"): values
            for key, values in arrays.items()
            if key.startswith("factor_")
        },
        origin=f"Mapped from the folder {name}.",
        class_names=class_names,
    )


def save_mapped(dataset: Dataset, folder: Path | str) -> None:
    """Write a data set as a new folder of ``.npy`` files, whole or not at all.

    Raises:
        DataError: The folder exists, or it cannot be written.
    """
    folder = Path(folder)
    if folder.exists():
        raise DataError(f"{folder} exists already; choose another name.")
    if dataset.columns is not None:
        raise DataError(
            f"{dataset.name!r} is a table whose features are prepared for each run anew; keep its "
            "CSV or Parquet file."
        )
    arrays = {"x": dataset.x, "y": dataset.y, "is_test": dataset.is_test}
    arrays |= {f"factor_{name}": values for name, values in dataset.factors.items()}
    more = {"client": dataset.client, "domain": dataset.domain}
    arrays |= {key: values for key, values in more.items() if values is not None}
    if dataset.class_names is not None:
        arrays["class_names"] = np.array(dataset.class_names)
    order = np.argsort(dataset.is_test, kind="stable")
    is_ordered = bool((order == np.arange(len(order))).all())
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        unfinished.mkdir(parents=True)
        try:
            for key, values in arrays.items():
                kept = values if is_ordered or key == "class_names" else values[order]
                np.save(unfinished / f"{key}.npy", kept, allow_pickle=False)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder}: the folder cannot be written ({error}).") from error


def _load(path: Path) -> Array:
    """Return an array: samples mapped, anything else read."""
    check_regular(path)
    try:
        array = np.load(path, mmap_mode="r" if path.stem == "x" else None, allow_pickle=False)
    except FileNotFoundError:
        raise DataError(
            f"{path}: there is no such file; a folder of mapped samples has x.npy, y.npy and "
            "is_test.npy."
        ) from None
    except Exception as error:  # NumPy's parser fails in many ways on a damaged file
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: the array cannot be read ({reason}).") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path}: this is no .npy file.")
    check_text(path, path.stem, array)
    return array
