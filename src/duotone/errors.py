"""Every error duotone raises on purpose.

    DuotoneError
    ├── ConfigError             a setting is wrong; nothing has been trained yet
    │   ├── UnknownNameError    a method, data set, partition … nobody has heard of
    │   ├── PartitionError      the requested partition cannot be made from this data
    │   └── MissingExtraError   an optional package is not installed
    ├── DataError               samples that are missing, damaged or of the wrong form
    ├── NewcomerError           the method cannot serve a client it has never seen this way
    ├── RunError                a run folder that is missing, busy or foreign
    │   └── CheckpointError     a saved state that cannot be read back
    ├── ClientError             one client cannot be computed; the others go on without it
    ├── DisclosureError         a question that would tell the server more than it may learn
    └── TrainingError           training cannot go on (too few clients sent a usable update)

A message says what is wrong, what was given and what to do, in one line.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


class DuotoneError(Exception):
    """Base of all errors raised on purpose; catch this one to catch them all."""

    exit_code = 1


class ConfigError(DuotoneError):
    """One or more settings are wrong; each argument is a problem in one line."""

    exit_code = 2

    def __str__(self) -> str:
        if len(self.args) == 1:
            return str(self.args[0])
        return f"{len(self.args)} settings are wrong:" + "".join(f"\n  - {p}" for p in self.args)


class UnknownNameError(ConfigError):
    """A name that is not in a registry."""


class PartitionError(ConfigError):
    """The requested partition is impossible for this data."""


class MissingExtraError(ConfigError):
    """An optional package is needed and not installed."""


class DataError(DuotoneError):
    """Samples are missing, damaged or of the wrong form."""

    exit_code = 2


class NewcomerError(DuotoneError):
    """The method has no way to serve a newcomer with what was given."""


class RunError(DuotoneError):
    """A run folder is missing, busy, or was made by something else."""


class CheckpointError(RunError):
    """A saved state cannot be read back."""


class ClientError(DuotoneError):
    """One client cannot be computed; it is left out, and the others go on."""


class DisclosureError(DuotoneError):
    """A question to clients whose answers would tell the server more than it may learn."""


class TrainingError(DuotoneError):
    """Training cannot go on."""


class Problems:
    """Collects what is wrong, so that a user hears of all of it at once."""

    def __init__(self) -> None:
        self._found: list[DuotoneError] = []

    def checked(self, step: Callable[[], Any]) -> Any:
        """Return what a step returns, or ``None`` and keep the error if a setting is wrong."""
        try:
            return step()
        except (ConfigError, DataError) as error:
            self._found.append(error)
            return None

    def add(self, lines: Iterable[str]) -> None:
        """Keep problems that are known already, each in one line."""
        self._found += [ConfigError(line) for line in lines]

    def report(self) -> None:
        """Raise what was found, if anything: a single error as it is, several as one.

        Raises:
            ConfigError: With all problems, each once.
            DataError: If that is the only one.
        """
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise ConfigError(*dict.fromkeys(line for error in self._found for line in error.args))


_INSTALLED = ("stdlib", "purelib", "platlib", "scripts")
_NOT_THE_USERS = (str(Path(__file__).parent), *map(sysconfig.get_path, _INSTALLED), "<frozen")


def own_frame(error: BaseException) -> str | None:
    """Return where in the user's own code an error arose: file, line, function and statement.

    ``None`` if no code of the user's took part.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith(_NOT_THE_USERS)]
    if not own:
        return None
    last = own[-1]
    statement = f": {last.line}" if last.line else ""
    return f"{Path(last.filename).name}, line {last.lineno}, in {last.name}{statement}"
