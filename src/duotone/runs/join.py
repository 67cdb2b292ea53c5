"""A newcomer joins a finished run: it gets a model by the run's rule, and nothing shared moves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from duotone.data.canonical import read_arrays
from duotone.data.dataset import Array
from duotone.data.folders import image_files
from duotone.errors import ConfigError, DataError
from duotone.federation.backends import ClientTask
from duotone.federation.backends.serial import one_thread
from duotone.partition.partition import Holding, Partition, Population
from duotone.registry import did_you_mean
from duotone.runs.client import Client
from duotone.runs.inputs import Samples, as_inputs
from duotone.runs.last_round import serving_after
from duotone.runs.opened import OpenedRun
from duotone.runs.served import Who, keep_joined
from duotone.types import NO_LABEL, ClientData, DataInfo, Split
from duotone.words import RULES

_NEWCOMER = re.compile("x|y")
Labels: TypeAlias = Array | Tensor | Sequence[Any]


class OneNewcomer(Population):
    """A population of one newcomer, whose samples are there as tensors.

    Args:
        given: What it shows.
    """

    def __init__(self, given: ClientData) -> None:
        nothing = np.zeros(0, np.int64)
        rows = np.arange(len(given))
        holding = Holding(given.client, "", "newcomer", rows, nothing, nothing)
        self.partition = Partition.from_holdings([holding])
        self.info = given.info
        self.given = given

    def data(self, client: str, split: Split = "train") -> ClientData:
        """Return its samples."""
        return self.given


def join(
    opened: OpenedRun,
    x: Samples | None,
    y: Labels | None = None,
    *,
    name: str = "newcomer",
    keep: bool = False,
) -> Client:
    """Let a newcomer join a finished run.

    Args:
        opened: The run.
        x: Its samples, as far as the run's rule uses any; a folder ``CLASS/*.png`` or an npz file
            with ``x`` and ``y`` has labels, too.
        y: Their labels, likewise: numbers, or names of classes.
        name: What it is called. Random draws are its own, so that its name is part of its model.
        keep: Whether the run shall keep it, so that ``run.client(name)`` finds it again.

    Raises:
        ConfigError: The name is taken, or the run's rule needs more than was given.
        DataError: Samples or labels have the wrong form.
    """
    _check_name(opened, name, keep)
    info, rule, method = opened.info, opened.rule, opened.method
    if isinstance(x, (str, Path)) and y is None:
        x, y = read_labelled(Path(x), info)
    inputs = torch.empty(0, *info.shape)
    labels: Tensor | None = None
    if rule != "zero-shot":
        if x is None:
            raise ConfigError(f"{_rule_line(opened)}; give its samples as x.")
        inputs = as_inputs(x, info, opened.run.folder.preparation())
    if rule == "few-shot":
        if y is None:
            raise ConfigError(f"{_rule_line(opened)}; give their labels as y.")
        labels = as_labels(y, len(inputs), info, opened.class_names, method.uses_unlabelled)
    given = ClientData(name, inputs, labels, info)
    facts = opened.run.folder.facts()
    with opened.run.folder.reading() as last, one_thread():
        serving = serving_after(last, opened.run.config, info, int(facts["members"]), rule)
        params = serving.personal(method, OneNewcomer(given), ClientTask(name, None))
    who = Who("newcomer", "", len(inputs))
    if keep:
        with opened.run.folder.locked():
            keep_joined(opened.path, opened.full_index(), name, who, params, serving.server.shared)
        opened.forget_index()
    return opened.made(name, who, last.round, params)


def _check_name(opened: OpenedRun, name: str, keep: bool) -> None:
    if not name:
        raise ConfigError("A newcomer needs a name; give it one that no client of the run has.")
    is_joined = opened.index is not None and name in opened.index.joined
    is_member = name in opened.clients and opened.clients[name].role == "member"
    # A newcomer of the run may be made anew, to look at it; only one of them can have the name.
    if is_member or (keep and (is_joined or name in opened.clients)):
        raise ConfigError(
            f"{opened.path} has a client {name!r} already; choose another name for the newcomer."
        )


def _rule_line(opened: OpenedRun) -> str:
    return f"Newcomers of {opened.path} give {RULES[opened.rule]} ({opened.rule})"


def as_labels(
    y: Labels, samples: int, info: DataInfo, names: tuple[str, ...] | None, may_lack: bool = False
) -> Tensor:
    """Return labels as methods want them.

    Args:
        y: Numbers, or names of classes.
        samples: How many there must be.
        info: The form of the data.
        names: What the classes are called.
        may_lack: Whether a label may be missing: :data:`NO_LABEL`, or NaN for regression.

    Raises:
        DataError: They do not fit.
    """
    values = np.asarray(y.detach().cpu() if isinstance(y, Tensor) else y)
    if values.shape != (samples,):
        raise DataError(f"y has shape {values.shape}; expected is one label for {samples} samples.")
    if info.task == "regression":
        if not (
            np.issubdtype(values.dtype, np.floating) or np.issubdtype(values.dtype, np.integer)
        ):
            raise DataError(f"y is {values.dtype}; this run learns numbers.")
        targets = torch.from_numpy(values.astype(np.float32))
        wrong = torch.isinf(targets) if may_lack else ~torch.isfinite(targets)
        if bool(wrong.any()):
            raise DataError("y holds NaN or infinite values; every sample needs a number.")
        return targets
    if values.dtype.kind in "UO":
        known = list(names or map(str, range(info.outputs)))
        for value in values:
            if str(value) not in known:
                raise DataError(
                    f"Unknown label {str(value)!r}.{did_you_mean(str(value), known)} The run's "
                    f"classes are: {', '.join(known)}."
                )
        values = np.array([known.index(str(value)) for value in values], np.int64)
    if not np.issubdtype(values.dtype, np.integer):
        raise DataError(f"y is {values.dtype}; this run's labels are classes, given as integers.")
    least = NO_LABEL if may_lack else 0
    if values.min() < least or values.max() >= info.outputs:
        worst = values.min() if values.min() < least else values.max()
        raise DataError(f"Unknown label {worst}; the run's classes are 0 to {info.outputs - 1}.")
    return torch.from_numpy(values.astype(np.int64))


def read_labelled(path: Path, info: DataInfo) -> tuple[Samples, Labels | None]:
    """Return the samples of a folder or an npz file, with their labels if it has them.

    Args:
        path: A folder ``CLASS/*.png``, a folder or file of images without labels, or an npz file
            with ``x`` and, for labels, ``y``.
        info: The form of the data.

    Raises:
        DataError: It is missing, or holds something else.
    """
    if path.suffix == ".npz":
        arrays = read_arrays(path, _NEWCOMER)
        if "x" not in arrays:
            raise DataError(f"{path} has no array x; a newcomer's file has x and, if needed, y.")
        return arrays["x"], arrays.get("y")
    if not path.exists():
        raise DataError(f"{path}: there is no such file or folder.")
    found = sorted(path.iterdir()) if path.is_dir() else []
    classes = [folder for folder in found if folder.is_dir() and folder.name[0] != "."]
    if not classes:
        return path, None
    files = [(file, folder.name) for folder in classes for file in image_files(folder)]
    return [file for file, _ in files], [label for _, label in files]
