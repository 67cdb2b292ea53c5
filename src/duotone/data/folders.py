"""Images in folders: ``FOLDER/CLIENT/CLASS/*.png``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from duotone.data.dataset import Array, Dataset
from duotone.data.limits import MOST_PIXELS, check_regular
from duotone.data.samples import as_samples
from duotone.data.split import TEST_EVERY
from duotone.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

_SUFFIXES = (".png", ".jpg", ".jpeg")
_GREY_MODES = ("1", "L", "LA")
_COLOUR_MODES = ("RGB", "RGBA", "P", "PA", "CMYK", "YCbCr")
_DEEP_MODES = ("I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    client: str
    label: str
    is_test: bool


def read_folder(folder: Path) -> Dataset:
    """Read the images of ``FOLDER/CLIENT/CLASS/*.png`` (or jpg).

    Clients are named after their folders. Classes are numbered from 0 in the sorted order of the
    class names of all clients. If the folder has the subfolders ``train`` and ``test``, each with
    ``CLIENT/CLASS``, they are the split, and what stands beside them is ignored. Otherwise every
    fifth image of each client and class, in the sorted order of file names, is a test image.
    Hidden files and files of other types are ignored.

    All images must have one size and be either all grey or all in colour. Transparency is dropped
    and palettes are resolved to colours. Grey images of 16 bits are read as
    :mod:`duotone.data.samples` says, if all are of 16 bits.

    Raises:
        DataError: A folder is empty, or an image is unreadable or unlike the first one.
    """
    found = list(_find_images(folder))
    first = read_image(found[0].path, deep=True)
    images = np.empty((len(found), *first.shape), first.dtype)
    for row, item in enumerate(found):
        image = read_image(item.path, deep=True)
        if image.shape != first.shape or image.dtype != first.dtype:
            raise DataError(
                f"{item.path} is {_form(image)}, but {found[0].path} is {_form(first)}; "
                "all images must have one size and be all grey or all in colour."
            )
        images[row] = image
    images = as_samples(images)
    classes = sorted({item.label for item in found})
    number = {label: position for position, label in enumerate(classes)}
    labels = np.array([number[item.label] for item in found], np.int64)
    clients = np.array([item.client for item in found])
    test = np.array([item.is_test for item in found])
    return Dataset.from_arrays(
        folder.resolve().name,
        images[~test],
        labels[~test],
        images[test],
        labels[test],
        client=(clients[~test], clients[test]),
        class_names=classes,
        origin=f"Images in the folder {folder.resolve().name}.",
    )


def read_image(path: Path, *, deep: bool = False) -> Array:
    """Read one image as grey (height × width) or colour (height × width × 3).

    Args:
        path: The file.
        deep: Whether a grey image may have 16 bits; it is then of type uint16.

    Raises:
        DataError: The file is no readable image with 8 bits per channel.
    """
    check_regular(path)
    return opened_pixels(path, str(path), deep=deep)


def opened_pixels(file: Path | IO[bytes], name: str, *, deep: bool = False) -> Array:
    """Open a PNG or JPEG image, as far as it is not too large, and return its pixels.

    Args:
        file: The file.
        name: What to call it if it cannot be used.
        deep: As for :func:`read_image`.

    Raises:
        DataError: It cannot be read.
    """
    from PIL import Image

    try:
        with Image.open(file, formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MOST_PIXELS:
                raise DataError(
                    f"{name}: the image is {image.width}×{image.height}, more than the "
                    f"{MOST_PIXELS:,} pixels that are read; make it smaller."
                )
            return image_pixels(image, name, deep=deep)
    except DataError:
        raise
    # Pillow's decoders fail in many ways on damaged files (OSError, SyntaxError, struct.error …).
    except Exception as error:
        raise DataError(f"{name}: the image cannot be read ({error}).") from error


def image_pixels(image: Image.Image, name: str, *, deep: bool = False) -> Array:
    """Return an opened image as grey (height × width) or colour (height × width × 3).

    It is turned as its EXIF orientation says. Transparency is dropped.

    Args:
        image: The image.
        name: What to call it if it cannot be used.
        deep: Whether a grey image may have 16 bits; it is then of type uint16.

    Raises:
        DataError: It has more bits per channel, or another kind of pixels.
    """
    from PIL import ImageOps

    allowed = (*_GREY_MODES, *_COLOUR_MODES, *(_DEEP_MODES if deep else ()))
    if image.mode not in allowed:
        raise DataError(
            f"{name}: images of the kind {image.mode!r} are not read; save it with 8 bits."
        )
    upright = ImageOps.exif_transpose(image)
    if image.mode in _DEEP_MODES:
        return np.asarray(upright).astype(np.uint16)
    if image.mode in _GREY_MODES:
        return np.asarray(upright.convert("L"))
    # Straight to RGB, Pillow warns about palettes with transparency.
    via = "RGBA" if image.mode in ("P", "PA") else "RGB"
    return np.asarray(upright.convert(via))[..., :3]


def _find_images(folder: Path) -> Iterator[_Found]:
    splits = [name for name in ("train", "test") if (folder / name).is_dir()]
    if len(splits) == 1:
        there = splits[0]
        missing = "test" if there == "train" else "train"
        raise DataError(
            f"{folder} has a subfolder {there!r} but none called {missing!r}; "
            "give both, or only folders of clients."
        )
    for split in splits or [""]:
        for client in _subfolders(folder / split, "of clients"):
            for label in _subfolders(client, "of classes"):
                for position, path in enumerate(image_files(label), start=1):
                    is_test = split == "test" if split else position % TEST_EVERY == 0
                    yield _Found(path, client.name, label.name, is_test)


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError(
            f"{folder}: the folder cannot be read ({error.strerror or error})."
        ) from error


def _subfolders(folder: Path, what: str) -> list[Path]:
    found = [path for path in _visible(folder) if path.is_dir()]
    if not found:
        raise DataError(
            f"{folder} has no subfolders {what}; images are expected as CLIENT/CLASS/*.png."
        )
    return found


def image_files(folder: Path) -> list[Path]:
    """Return the images directly in a folder, sorted by name.

    Raises:
        DataError: There is none.
    """
    found = [path for path in _visible(folder) if path.suffix.lower() in _SUFFIXES]
    if not found:
        raise DataError(f"{folder} has no images; put png or jpg files there or remove the folder.")
    return found


def _form(image: Array) -> str:
    kind = "grey" if image.ndim == 2 else "in colour"
    kind += " with 16 bits" if image.dtype == np.uint16 else ""
    return f"{image.shape[1]}×{image.shape[0]} {kind}"
