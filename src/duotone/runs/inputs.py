"""Samples to be predicted, in any form a user has them, as a network wants them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from duotone.data.canonical import read_arrays
from duotone.data.dataset import Array
from duotone.data.folders import image_files, image_pixels, read_image
from duotone.data.frames import SUFFIXES, is_frame, read_frame
from duotone.data.preparing import Preparation
from duotone.data.resize import resized
from duotone.data.text import windows_of
from duotone.errors import DataError
from duotone.files import read_regular
from duotone.partition.partition import network_inputs
from duotone.types import DataInfo

_SAMPLES = re.compile("x")
Picture: TypeAlias = Image.Image | str | Path
Samples: TypeAlias = Array | Tensor | Picture | Sequence[Picture] | Any
"""What clients predict: an array or tensor, a data frame, or images, files and folders of them."""


def as_inputs(x: Samples, info: DataInfo, preparation: Preparation | None = None) -> Tensor:
    """Return samples as a network sees them.

    Args:
        x: An array or tensor in the form of the data set; a data frame; or one or several of: an
            image, the path of one, of a folder of images, of a table (CSV, Parquet), or of an npz
            file with an array ``x``. Where samples are text: one or several texts, or paths of
            files that hold one each.
        info: The form of the data.
        preparation: How features are made of the columns of a table, if the run had one.

    Raises:
        DataError: They have another form, or cannot be read.
    """
    if info.is_text and (texts := _texts(x)) is not None:
        return network_inputs(windows_of(texts, info.alphabet, info.shape[0]))
    if is_frame(x):
        return _checked(_features(x, preparation, "The table"), info)
    if isinstance(x, (str, Path, Image.Image)):
        x = [x]
    if isinstance(x, Tensor):
        x = x.detach().cpu().numpy()
    elif _holds_pictures(x):
        pieces = [_read(item, info, preparation) for item in x]
        return torch.cat(pieces) if pieces else _checked(np.empty(0), info)
    return _checked(np.asarray(x), info)


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Return files, with the images of folders in place of the folders."""
    return [
        file for path in paths for file in (image_files(path) if path.is_dir() else [Path(path)])
    ]


def expected(info: DataInfo) -> str:
    """Say in words which samples fit."""
    if info.is_text:
        return f"text, of which the last {info.shape[0]} characters are read"
    if not info.is_image:
        return f"a table of numbers, samples × {info.shape[0]} features"
    channels, height, width = info.shape
    form = f"samples × {height} × {width}" + (f" × {channels}" if channels > 1 else "")
    return f"images as uint8, or as floats from 0 to 1, {form}"


def _texts(x: Samples) -> list[str] | None:
    """Return texts that were given, or read from the files that were; ``None`` for numbers."""
    items: Any = [x] if isinstance(x, (str, Path)) else x
    if not _holds_pictures(items) or any(isinstance(item, Image.Image) for item in items):
        return None
    if any(isinstance(item, Path) and item.suffix == ".npz" for item in items):
        return None
    return [_read_text(item) if isinstance(item, Path) else str(item) for item in items]


def _read_text(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8").removesuffix("\n")  # which editors add
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as text: {error}.") from error


def _holds_pictures(x: Any) -> bool:
    return (
        isinstance(x, Sequence)
        and len(x) > 0
        and all(isinstance(item, (str, Path, Image.Image)) for item in x)
    )


def _features(table: Any, preparation: Preparation | None, name: str) -> Array:
    """Return the features of the rows of a table, made as in training."""
    if preparation is None:
        raise DataError(
            f"{name} has columns, but the run was not made from a table with columns; give its "
            "features as an array."
        )
    return preparation.apply(table)


def _read(item: Picture, info: DataInfo, preparation: Preparation | None) -> Tensor:
    if isinstance(item, Image.Image):
        return _checked(_fitted(image_pixels(item, "the image"), info), info)
    path = Path(item)
    if path.suffix == ".npz":
        arrays = read_arrays(path, _SAMPLES)
        if "x" not in arrays:
            raise DataError(f"{path} has no array x; samples are expected under that name.")
        return _checked(arrays["x"], info, f"{path}: x")
    if path.suffix.lower() in SUFFIXES:
        return _checked(_features(read_frame(path), preparation, str(path)), info)
    if not info.is_image:
        raise DataError(
            f"{path} cannot be predicted; expected is an npz, CSV or Parquet file: a table."
        )
    if not path.exists():
        raise DataError(f"{path}: there is no such file.")
    return torch.cat([_checked(_fitted(read_image(file), info), info) for file in files_in([path])])


def _fitted(pixels: NDArray[np.uint8], info: DataInfo) -> NDArray[np.uint8]:
    """Return one image with the size and the colours of the data, as a batch.

    Raises:
        DataError: The data are no images.
    """
    if not info.is_image:
        raise DataError(f"An image was given, but this run's data is {expected(info)}.")
    channels, height, width = info.shape
    if channels == 1 and pixels.ndim == 3:
        pixels = np.asarray(Image.fromarray(pixels).convert("L"))
    elif channels == 3 and pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=2)
    batch = pixels[None]
    return batch if pixels.shape[:2] == (height, width) else resized(batch, height, width)


def _checked(x: Array, info: DataInfo, name: str = "x") -> Tensor:
    """Return an array as a network sees it, if it has the form of the data.

    Raises:
        DataError: It has not.
    """
    wanted = f"expected: {expected(info)}"
    is_float = np.issubdtype(x.dtype, np.floating)
    if info.is_text:
        return _checked_characters(x, info, f"{name} is {x.dtype} with shape {x.shape}; {wanted}.")
    if info.is_image:
        channels, height, width = info.shape
        forms = [(height, width, channels), *([(height, width)] if channels == 1 else [])]
        fits = x.shape[1:] in forms and (is_float or x.dtype == np.uint8)
    else:
        is_number = is_float or np.issubdtype(x.dtype, np.integer)
        fits = x.ndim == 2 and x.shape[1:] == info.shape and is_number
    if not fits:
        raise DataError(f"{name} is {x.dtype} with shape {x.shape}; {wanted}.")
    if len(x) == 0:
        raise DataError(f"{name} holds no sample; {wanted}.")
    if x.dtype != np.uint8:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite
            x = x.astype(np.float32)
        bad = ~np.isfinite(x).reshape(len(x), -1).all(axis=1)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise DataError(f"{name} holds NaN or infinite values (first in sample {row}).")
        if info.is_image and (x.min() < 0 or x.max() > 1):
            raise DataError(f"{name} has values from {x.min():g} to {x.max():g}; {wanted}.")
    return network_inputs(np.array(x))  # a copy: arrays that cannot be written are refused by torch


def _checked_characters(x: Array, info: DataInfo, otherwise: str) -> Tensor:
    """Return characters by number, if they are places in the alphabet.

    Raises:
        DataError: They are not; the message is ``otherwise``.
    """
    fits = np.issubdtype(x.dtype, np.integer) and x.shape[1:] == info.shape and len(x) > 0
    if not fits or x.min() < 0 or x.max() > len(info.alphabet):
        raise DataError(otherwise)
    return network_inputs(x.astype(np.uint16))
