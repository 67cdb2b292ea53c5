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
    └── TrainingError           training cannot go on (a client failed, every update was refused)

A message says what is wrong, what was given and what to do, in one line.
"""

from __future__ import annotations


class DuotoneError(Exception):
    """Base of all errors raised on purpose; catch this one to catch them all."""

    exit_code = 1


class ConfigError(DuotoneError):
    """A setting is wrong."""

    exit_code = 2

    @classmethod
    def together(cls, problems: list[str]) -> ConfigError:
        """Join several problems into one error, so that a user sees all of them at once."""
        if len(problems) == 1:
            return cls(problems[0])
        lines = "\n".join(f"  - {problem}" for problem in problems)
        return cls(f"{len(problems)} settings are wrong:\n{lines}")


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


class TrainingError(DuotoneError):
    """Training cannot go on."""
