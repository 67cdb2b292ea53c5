"""What the samples are: data sets by name, from files, from folders, and made on the spot.

A name in :data:`DATASETS` stands for a function that returns a :class:`Dataset`. Some are always
there, because the samples come with a Python package or are made by a rule; the others need a file
that the user brings, see :mod:`duotone.data.canonical`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duotone.data.canonical import (
    dataset_from_mapping,
    file_of,
    find_file,
    read_dataset,
    save_dataset,
    search_folders,
    user_cache,
)
from duotone.data.composed import DIGITS4
from duotone.data.dataset import Dataset
from duotone.data.folders import read_folder
from duotone.data.mapped import is_mapped_folder, read_mapped, save_mapped
from duotone.data.readers import READERS, import_official
from duotone.data.sources import ORIGINS
from duotone.data.text import SHAKESPEARE, is_roles_file, read_roles, text_dataset
from duotone.errors import ConfigError, DataError
from duotone.registry import Registry, did_you_mean

if TYPE_CHECKING:
    from duotone.data.objects import dataset_from_object
    from duotone.data.preparing import Preparation, prepared
    from duotone.data.tables import table_settings

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetSummary",
    "Preparation",
    "dataset_from_mapping",
    "dataset_from_object",
    "describe_datasets",
    "import_dataset",
    "lasting_name",
    "load_dataset",
    "prepared",
    "save_dataset",
    "save_mapped",
    "table_settings",
]

# These read tables with polars, whose 26 MB no worker process needs.
_WHEN_ASKED = {
    "Preparation": "preparing",
    "dataset_from_object": "objects",
    "prepared": "preparing",
    "table_settings": "tables",
}


def __getattr__(name: str) -> Any:
    if name not in _WHEN_ASKED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHEN_ASKED[name]}"), name)


DATASETS = Registry(
    "data set",
    {
        "digits": "duotone.data.sources:digits",
        "mini-digits": "duotone.data.sources:mini_digits",
        "rendered-digits": "duotone.data.rendered:rendered_digits",
        "coloured-digits": "duotone.data.coloured:coloured_digits",
        "planted": "duotone.data.planted:planted",
        "planted-table": "duotone.data.planted:planted_table",
        "planted-rule": "duotone.data.planted_rule:planted_rule",
        "planted-rule-visible": "duotone.data.planted_rule:planted_rule_visible",
        "planted-rule-table": "duotone.data.planted_rule:planted_rule_table",
        "simpson": "duotone.data.simpson:simpson",
        "simpson-repo": "duotone.data.simpson:simpson_repo",
        "simpson-slopes": "duotone.data.simpson:simpson_slopes",
        "mnist": "duotone.data.sources:mnist",
        "mnist-m": "duotone.data.sources:mnist_m",
        "svhn": "duotone.data.sources:svhn",
        "usps": "duotone.data.sources:usps",
        "cifar10": "duotone.data.sources:cifar10",
        "celeba64": "duotone.data.sources:celeba64",
        "celeba64-attributes": "duotone.data.sources:celeba64_attributes",
        "pacs32": "duotone.data.sources:pacs32",
        "pneumoniamnist": "duotone.data.sources:pneumoniamnist",
        "shakespeare": "duotone.data.text:shakespeare",
        "digits4": "duotone.data.composed:digits4",
        "digits5": "duotone.data.composed:digits5",
    },
    listing="duotone datasets",
)

_SUMMARIES = {
    "digits": "5,000 handwritten digits of MNIST, 28×28 grey",
    "mini-digits": "1,797 handwritten digits, 8×8 grey",
    "rendered-digits": "10,000 digits drawn from fonts, 28×28 colour; stands in for SynthDigits",
    "coloured-digits": "7,000 digits whose colour tells the class at members only, 28×28 colour",
    "planted": "4,800 made images, 16×16 grey, with known shared and local factors",
    "planted-table": "4,800 made rows of 16 features with known shared and local factors",
    "planted-rule": "4,800 made images, 16×16 grey; a gate says if the group's rule holds",
    "planted-rule-visible": "the same with the group visible in each image",
    "planted-rule-table": "4,800 made rows of 16 features; a gate says if the group's rule holds",
    "simpson": "400 made points: y rises with x in each client and falls over all of them",
    "simpson-repo": "the same with clients that overlap in x, as in the code of PaDPaF",
    "simpson-slopes": "simpson-repo with another slope in each client",
    "mnist": "handwritten digits, 28×28 grey",
    "mnist-m": "MNIST digits blended with photographs, 32×32 colour",
    "svhn": "house numbers from street photographs, 32×32 colour",
    "usps": "handwritten digits of letters, 16×16 grey",
    "cifar10": "photographs of ten kinds of things, 32×32 colour",
    "celeba64": "faces, smiling or not, 64×64 colour; a client is a person",
    "celeba64-attributes": "the same with each of the 40 attributes as a factor",
    "pacs32": "seven kinds of things as photo, painting, cartoon and sketch, 32×32 colour",
    "pneumoniamnist": "chest X-rays, normal or pneumonia, 28×28 grey",
    "shakespeare": "the next character of what a role says; a client is a role, a group a play",
    "digits4": "mnist, mnist-m, svhn and usps as four domains, 28×28 colour",
    "digits5": "digits4 and SynthDigits, or its stand-in, as five domains, 28×28 colour",
}


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """One line of the list of data sets.

    Attributes:
        name: What to ask for.
        summary: What the samples are.
        available: Whether it can be loaded now.
        where: "built in", the file, or what is missing.
    """

    name: str
    summary: str
    available: bool
    where: str


def load_dataset(name_or_path: str, *, table: Mapping[str, Any] | None = None) -> Dataset:
    """Return a data set by its name, its file or its folder.

    A known name wins over a file or folder of the same name; write ``./digits`` for the latter.

    Args:
        name_or_path: A name in :data:`DATASETS`; a file: a canonical ``NAME.npz``, CSV or Parquet,
            or text by role as JSON, see :mod:`duotone.data.text`; a folder:
            ``CLIENT/CLASS/*.png``, ``.npy`` files (see :mod:`duotone.data.mapped`) or a data set
            that Hugging Face's ``save_to_disk`` wrote; ``"hub:NAME"`` for one from its cache; or
            ``"package.module:function"``.
        table: Which columns of a table are what, see :class:`duotone.data.tables.TableSettings`.

    Raises:
        UnknownNameError: It is none of these.
        ConfigError: Settings of the table are wrong, or this is no table.
        DataError: The samples are missing or damaged.
    """
    from duotone.data.frames import SUFFIXES
    from duotone.data.hub import PREFIX, is_saved, load_named, load_saved
    from duotone.data.objects import dataset_from_object
    from duotone.data.tables import read_table, table_settings

    settings = table_settings(table)
    if name_or_path.startswith(PREFIX):
        name = name_or_path.removeprefix(PREFIX)
        return dataset_from_object(load_named(name), settings, name=name.rpartition("/")[2])
    path = _path_of(name_or_path)
    if path is not None and path.is_file() and path.suffix.lower() in SUFFIXES:
        return read_table(path, settings)
    if path is not None and path.is_dir() and is_saved(path):
        return dataset_from_object(load_saved(path), settings, name=path.resolve().name)
    if table:
        raise ConfigError(
            f"table.{next(iter(table))} is set, but {name_or_path!r} has no columns; give a CSV or "
            "Parquet file, or leave it out."
        )
    if path is not None and path.is_dir():
        return read_mapped(path) if is_mapped_folder(path) else read_folder(path)
    if path is not None and path.is_file():
        if is_roles_file(path):
            name = path.name.partition(".")[0]
            return text_dataset(name, read_roles(path), origin=f"Read from {path.name}.")
        return read_dataset(path)
    if path is not None and (path.suffix in (".npz", ".json", *SUFFIXES) or os.sep in name_or_path):
        raise DataError(f"There is no file or folder {name_or_path!r} to read samples from.")
    own = None if name_or_path in DATASETS else find_file(file_of(name_or_path))
    if own is not None:
        return read_dataset(own, name=name_or_path)
    make = DATASETS.load(name_or_path)
    dataset = make() if callable(make) else make
    if not isinstance(dataset, Dataset):
        raise DataError(
            f"The data set {name_or_path!r} gave a {type(dataset).__name__}; "
            "it must be a function without arguments that returns a duotone Dataset."
        )
    return dataset


def import_dataset(name: str, path: Path | str, out: Path | None = None) -> Path:
    """Read official files, or samples of the user's own, once and write them in canonical form.

    Args:
        name: That of official files, see :func:`duotone.data.readers.import_official`; or another,
            by which the samples can be asked for from then on.
        path: The official files; or for another name what :func:`load_dataset` takes.
        out: The folder to write to; by default the user cache.

    Returns:
        The file written.

    Raises:
        UnknownNameError: The name is nearly that of official files.
        ConfigError: The name is taken, or cannot be that of a file.
        DataError: The samples are missing or damaged, or are a table, which is not copied.
    """
    if name in READERS or did_you_mean(name, READERS):
        return import_official(name, path, out)
    if name in DATASETS or not re.fullmatch(r"[\w-]+", name):
        raise ConfigError(
            f"The data cannot be called {name!r}: use a new name of letters, digits and dashes."
        )
    dataset = load_dataset(str(path))
    written = (out or user_cache()) / file_of(name)
    save_dataset(dataset, written)
    return written


def lasting_name(name_or_path: str) -> str:
    """Return what a data set is called from anywhere: a path in full, anything else as it is."""
    path = _path_of(name_or_path)
    return name_or_path if path is None or not path.exists() else str(path.resolve())


def _path_of(name_or_path: str) -> Path | None:
    """Return where samples may lie; ``None`` for what is no path, because it is a known name."""
    is_name = not name_or_path or name_or_path in DATASETS
    return None if is_name else Path(os.path.expanduser(name_or_path))


def describe_datasets() -> list[DatasetSummary]:
    """List the known data sets and say which can be loaded now, without loading any."""
    known = [
        DatasetSummary(name, _SUMMARIES.get(name, "from a plug-in"), *_availability(name))
        for name in DATASETS
    ]
    taken = {file_of(name) for name in DATASETS}
    own = {
        path.stem: path
        for folder in reversed(search_folders())
        for path in sorted(folder.glob("*.npz"))
        if path.name not in taken
    }
    return known + [
        DatasetSummary(name, "your own", True, str(path)) for name, path in sorted(own.items())
    ]


def _availability(name: str) -> tuple[bool, str]:
    if name not in _SUMMARIES:
        return True, DATASETS[name]
    made_of = {"digits4": DIGITS4, "digits5": DIGITS4, "celeba64-attributes": ("celeba64",)}
    needed = made_of.get(name, (name,) if name in ORIGINS else ())
    files = [SHAKESPEARE] if name == "shakespeare" else list(map(file_of, needed))
    found = {file: find_file(file) for file in files}
    missing = [file for file, path in found.items() if path is None]
    if missing:
        return False, f"needs {', '.join(missing)}"
    if len(needed) > 1:
        return True, f"made from {', '.join(needed)}"
    return True, str(*found.values()) if found else "built in"
