"""Data that was made in Python: arrays, data frames, torch and Hugging Face data sets.

Each may stand alone, as ``{"train": …, "test": …}``, or once per client: ``{"north": …,
"south": …}``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from duotone.data.canonical import dataset_from_mapping
from duotone.data.dataset import Array, Dataset
from duotone.data.frames import frame_of, is_frame
from duotone.data.hub import hub_frame, hub_samples, is_federated, is_hub, is_hub_of_images
from duotone.data.samples import as_samples
from duotone.data.tables import Samples, TableSettings, dataset_from_frame, dataset_from_samples
from duotone.errors import ConfigError, DataError

_IS_TEST = {"train": False, "validation": False, "test": True}
"""The splits that data may come in. Of its training samples a client keeps some for validation."""


class _Part(NamedTuple):
    client: str | None
    is_test: bool | None
    source: Any


def dataset_from_object(given: Any, settings: TableSettings, *, name: str = "") -> Dataset:
    """Make a data set of something made in Python.

    Args:
        given: A :class:`Dataset`; arrays ``x_train, y_train, x_test, y_test`` in a mapping; a data
            frame of polars, pandas or Arrow; a torch data set whose items are pairs of a sample and
            its label; a data set of Hugging Face; a FederatedDataset of Flower.
        settings: Which columns are what, for those that have columns.
        name: What to call the data; by default after its kind.

    Raises:
        ConfigError: It is nothing of this.
        DataError: Something in it does not fit; the message says what and where.
    """
    if isinstance(given, Dataset):
        _check_unused(settings)
        return given
    if isinstance(given, Mapping) and not any(map(_is_source, given.values())):
        _check_unused(settings)
        return dataset_from_mapping(name or "arrays", given)
    parts = list(_parts(given))
    kinds = {"frame" if is_frame(part.source) else _kind(part.source) for part in parts}
    if len(kinds) != 1:
        raise ConfigError(f"The parts of the data are of different kinds: {', '.join(kinds)}.")
    (kind,) = kinds
    if kind == "frame":
        frames = [_with_columns(frame_of(part.source), part) for part in parts]
        return dataset_from_frame(name or "frame", _joined_frames(frames), settings)
    if kind == "hub" and not is_hub_of_images(parts[0].source):
        frames = [_with_columns(hub_frame(part.source), part) for part in parts]
        return dataset_from_frame(name or "hub", _joined_frames(frames), settings)
    if kind == "torch":
        _check_unused(settings)
    read = [
        hub_samples(part.source, settings) if kind == "hub" else _torch_samples(part.source)
        for part in parts
    ]
    return dataset_from_samples(name or kind, _joined_samples(parts, read))


def _check_unused(settings: TableSettings) -> None:
    given = settings.model_fields_set
    if given:
        raise ConfigError(
            f"table.{min(given)} is set, but this data has no columns; give a data frame, or leave "
            "it out."
        )


def _is_source(thing: object) -> bool:
    is_nested = isinstance(thing, Mapping) and any(map(_is_source, thing.values()))
    return is_nested or is_frame(thing) or is_hub(thing) or _is_torch(thing)


def _is_torch(thing: object) -> bool:
    torch = sys.modules.get("torch")  # whoever has such an object has loaded it
    return torch is not None and isinstance(thing, torch.utils.data.Dataset)


def _kind(thing: object) -> str:
    if is_hub(thing):
        return "hub"
    if _is_torch(thing):
        return "torch"
    raise ConfigError(
        "data is a name, a path, a mapping of arrays (x_train, y_train, x_test, y_test), a data "
        "frame, a torch or Hugging Face data set, or a duotone Dataset. "
        f"Got a {type(thing).__name__}."
    )


def _parts(given: Any) -> Iterator[_Part]:
    """Take data apart into clients and splits."""
    if is_federated(given):
        for split, partitioner in given.partitioners.items():
            is_test = _IS_TEST.get(split) if len(given.partitioners) > 1 else None
            for number in range(partitioner.num_partitions):
                yield _Part(str(number), is_test, given.load_partition(number, split))
    elif isinstance(given, Mapping) and "train" in given:
        for split, source in given.items():
            if split not in _IS_TEST:
                raise DataError(
                    f"The data has a part called {split!r}; give it as train, validation and test."
                )
            yield _Part(None, _IS_TEST[split] if "test" in given else None, source)
    elif isinstance(given, Mapping):
        for client, sources in given.items():
            for part in _parts(sources):
                if part.client is not None:
                    raise DataError(f"The client {client!r} has clients of its own.")
                yield part._replace(client=str(client))
    else:
        yield _Part(None, None, given)


def _with_columns(frame: pl.DataFrame, part: _Part) -> pl.DataFrame:
    """Write down in a table whose it is and what for, where that is known."""
    is_test = {True: "test", False: "train", None: None}[part.is_test]
    for column, value in (("client", part.client), ("split", is_test)):
        if value is not None:
            if column in frame.columns:
                raise DataError(
                    f"The data is given by {column}, and has a column {column!r} too; drop one."
                )
            frame = frame.with_columns(pl.lit(value).alias(column))
    return frame


def _joined_frames(frames: list[pl.DataFrame]) -> pl.DataFrame:
    try:
        return pl.concat(frames, how="vertical_relaxed")
    except pl.exceptions.PolarsError as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(f"The parts of the table do not fit together ({reason}).") from error


def _joined_samples(parts: list[_Part], read: list[Samples]) -> Samples:
    forms = {samples.x.shape[1:] for samples in read if len(samples.x)}
    if len(forms) > 1:
        raise DataError(f"The parts of the data differ in form: {sorted(forms)}.")
    filled = [(part, samples) for part, samples in zip(parts, read, strict=True) if len(samples.x)]
    if not filled:
        raise DataError("The data has no samples.")
    client = is_test = None
    if all(part.client is not None for part, _ in filled):
        client = np.concatenate([np.full(len(s.x), str(p.client)) for p, s in filled])
    elif all(samples.client is not None for _, samples in filled):
        client = np.concatenate([np.asarray(samples.client) for _, samples in filled])
    if all(part.is_test is not None for part, _ in filled):
        is_test = np.concatenate([np.full(len(s.x), bool(p.is_test)) for p, s in filled])
    names = {samples.class_names for _, samples in filled}
    if len(names) > 1:
        raise DataError("The parts of the data call their classes by different names.")
    return Samples(
        as_samples(np.concatenate([samples.x for _, samples in filled])),
        np.concatenate([samples.y for _, samples in filled]),
        client,
        is_test,
        names.pop(),
    )


def _torch_samples(source: Any) -> Samples:
    """Read a torch data set item by item: (sample, label)."""
    if not hasattr(source, "__len__"):
        raise DataError(
            f"The data set {type(source).__name__} has no length; duotone needs one whose items "
            "can be taken by number."
        )
    images: list[Array] = []
    labels: list[Any] = []
    for number in range(len(source)):
        item = source[number]
        if not (isinstance(item, tuple | list) and len(item) == 2):
            raise DataError(
                f"Item {number} of the data set {type(source).__name__} is a "
                f"{type(item).__name__}; it must be a pair of a sample and its label."
            )
        image, label = _as_array(item[0]), item[1]
        if images and image.shape != images[0].shape:
            raise DataError(
                f"Item {number} of the data set {type(source).__name__} has shape {image.shape}, "
                f"but item 0 has {images[0].shape}; all samples must have one form."
            )
        images.append(image)
        labels.append(label.item() if hasattr(label, "item") else label)
    names = getattr(source, "classes", None)
    known = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    is_text = any(isinstance(label, str) for label in labels)
    return Samples(
        np.stack(images) if images else np.zeros(0),
        np.array(labels, dtype=object if is_text else None),
        None,
        None,
        tuple(names) if known and names else None,
    )


def _as_array(sample: Any) -> Array:
    """Return one sample; tensors have their channels first, everything else has them last."""
    is_tensor = hasattr(sample, "detach")
    array = np.asarray(sample.detach().cpu() if is_tensor else sample)
    if is_tensor and array.ndim == 3 and array.shape[0] in (1, 3):
        array = array[0] if array.shape[0] == 1 else array.transpose(1, 2, 0)
    return array
