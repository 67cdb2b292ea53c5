"""CelebA: the reader of its official files, and the factor ``hair`` that its attributes tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from duotone.data.canonical import read_arrays
from duotone.data.dataset import Array, Dataset
from duotone.data.folders import read_image
from duotone.data.resize import resized
from duotone.errors import DataError

HAIR = {"Bald": "bald", "Wearing_Hat": "hat", "Blond_Hair": "blond", "Black_Hair": "black"}
"""The attributes that are values of the factor ``hair``, and what each is called there."""

_LABEL = "Smiling"
_PLACES = (".", "Anno", "Eval", "Img")
_SPLITS = {"train": "01", "test": "2"}  # by number in the official list; 1 is validation
_SIZE = 64
_OFFICIAL = (218, 178, 3)
_MIDDLE = slice(20, 198)  # of 218 rows, as many as there are columns


def read_celeba64(folder: Path) -> dict[str, Array]:
    """Read aligned faces of CelebA at 64×64 and what its lists say of them.

    The middle 178×178 pixels of an image are made smaller. ``y`` is whether the person smiles,
    ``client`` who it is; ``attr_train`` and ``attr_test`` are all attributes, in the order of
    ``attr_names``. Training samples are those of the official training and validation part.

    Images that the lists name and the folder lacks are left out, so that a part of CelebA can be
    read, too; at least one training and one test image must be there. An image that a list does
    not name is an error.

    Args:
        folder: Holds ``list_attr_celeba.txt``, ``list_eval_partition.txt``, ``identity_CelebA.txt``
            and the folder ``img_align_celeba``, or has them in ``Anno``, ``Eval`` and ``Img``.

    Raises:
        DataError: A file is missing, damaged or unlike the official ones; the message names it.
    """
    attributes_path = _find(folder, "list_attr_celeba.txt")
    names, attributes = _read_attributes(attributes_path)
    parts_path = _find(folder, "list_eval_partition.txt")
    parts = _parse(parts_path, _read_lines(parts_path), "[012]", like="000001.jpg 0")
    people_path = _find(folder, "identity_CelebA.txt")
    people = _parse(people_path, _read_lines(people_path), r"\d{1,9}", like="000001.jpg 2880")
    images = _find(folder, "img_align_celeba")
    found = sorted(path for path in images.glob("*.jpg") if not path.name.startswith("."))
    lists = {attributes_path: attributes, parts_path: parts, people_path: people}
    for list_path, listed in lists.items():
        unknown = [path for path in found if path.name not in listed]
        if unknown:
            raise DataError(
                f"{unknown[0]}: the image is not named in {list_path}; use lists and images of "
                "one distribution."
            )
    chosen = {
        split: [path for path in found if parts[path.name] in numbers]
        for split, numbers in _SPLITS.items()
    }
    for split, paths in chosen.items():
        if not paths:
            raise DataError(
                f"{images}: none of its {len(found)} jpg images is a {split} image by "
                f"{parts_path}; add some."
            )
    arrays: dict[str, Array] = {"attr_names": np.array(names)}
    for split, paths in chosen.items():
        x = np.empty((len(paths), _SIZE, _SIZE, 3), np.uint8)
        attr = np.empty((len(paths), len(names)), np.uint8)
        for row, path in enumerate(paths):
            x[row] = _read_face(path)
            attr[row] = [value == "1" for value in attributes[path.name].split()]
        arrays |= {
            f"x_{split}": x,
            f"y_{split}": attr[:, names.index(_LABEL)].astype(np.int64),
            f"client_{split}": np.array([int(people[path.name]) for path in paths], np.int64),
            f"attr_{split}": attr,
        }
    return arrays


def with_hair(dataset: Dataset, path: Path) -> Dataset:
    """Add the factor ``hair`` to the faces read from a canonical file.

    Its values are those of :data:`HAIR`. It is empty text for a face to which none of them applies,
    or several, so that a face has one value at most.

    Args:
        dataset: The faces.
        path: Their file, with ``attr_names``, ``attr_train`` and ``attr_test`` (0 or 1).

    Raises:
        DataError: The file lacks the attributes.
    """
    names, attributes = _attributes_of(dataset, path)
    applies = attributes[:, [names.index(name) for name in HAIR]] == 1
    hair = np.where(
        applies.sum(axis=1) == 1, np.array(list(HAIR.values()))[applies.argmax(axis=1)], ""
    )
    return replace(dataset, factors={**dataset.factors, "hair": hair})


def with_attributes(dataset: Dataset, path: Path) -> Dataset:
    """Add every attribute of the faces as a factor of its own: 1 where it applies, else 0.

    The arguments and errors are those of :func:`with_hair`.
    """
    names, attributes = _attributes_of(dataset, path)
    return replace(dataset, factors=dict(zip(names, attributes.T.astype(np.int64), strict=True)))


def _attributes_of(dataset: Dataset, path: Path) -> tuple[list[str], Array]:
    """Return the names of the attributes, and for each face whether they apply."""
    arrays = read_arrays(path, re.compile("attr_(names|train|test)"))
    names = np.ravel(arrays.get("attr_names", ())).tolist()
    forms = {
        f"attr_{split}": (len(rows), len(names))
        for split, rows in (("train", dataset.train_rows), ("test", dataset.test_rows))
    }
    if not set(HAIR) <= set(names) or any(
        key not in arrays or arrays[key].shape != form for key, form in forms.items()
    ):
        raise DataError(
            f"{path}: attr_names, attr_train and attr_test, the attributes of its faces, are "
            "missing or do not fit; run: duotone data import celeba64 PATH"
        )
    return names, np.concatenate([arrays[key] for key in forms])


def _find(folder: Path, name: str) -> Path:
    """Return the file or folder of this name, in ``folder`` or where the official folders are."""
    for place in _PLACES:
        if (folder / place / name).exists():
            return folder / place / name
    raise DataError(
        f"{folder}: there is no file or folder {name}, nor in Anno, Eval or Img; give the folder "
        "with the lists and unpacked images of CelebA."
    )


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable list ({error}).") from error


def _read_attributes(path: Path) -> tuple[list[str], dict[str, str]]:
    """Return the names of the attributes, and by image the values as they are written."""
    lines = _read_lines(path)
    count, names = (line.split() for line in [*lines, "", ""][:2])
    missing = [name for name in (_LABEL, *HAIR) if name not in names]
    if missing:
        raise DataError(
            f"{path}: line 2 does not name the attribute {missing[0]}; it must be the official "
            "list of names."
        )
    if count != [str(len(lines) - 2)]:
        raise DataError(
            f"{path}: {len(lines) - 2} images are listed from line 3 on, but line 1 is "
            f"{lines[0][:40]!r}; it must be their number."
        )
    values = rf"-?1(?:\s+-?1){{{len(names) - 1}}}"
    like = f"000001.jpg -1 1 … with {len(names)} values"
    return names, _parse(path, lines[2:], values, like=like, first=3)


def _parse(
    path: Path, lines: Sequence[str], values: str, *, like: str, first: int = 1
) -> dict[str, str]:
    """Return what a list says of each image.

    Args:
        path: The list.
        lines: Its lines about images.
        values: A regular expression for what follows the name of an image.
        like: An example of a line.
        first: The number of the first of the lines.
    """
    form = re.compile(rf"(\d+\.jpg)\s+({values})\s*")
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=first):
        match = form.fullmatch(line)
        if match is None or match[1] in found:
            raise DataError(
                f"{path}: line {number} is {line[:40]!r}; it must be like '{like}' and about an "
                "image of its own."
            )
        found[match[1]] = match[2]
    return found


def _read_face(path: Path) -> NDArray[np.uint8]:
    image = read_image(path)
    if image.shape != _OFFICIAL:
        raise DataError(f"{path}: the image is {image.shape}; it must be 178×218 in colour.")
    face: NDArray[np.uint8] = resized(image[np.newaxis, _MIDDLE], _SIZE, _SIZE)[0]
    return face
