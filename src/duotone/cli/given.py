"""Settings as the command line gives them: from a file, from options and from --set."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from duotone.errors import ConfigError, Problems


def gather(
    config: Path | None,
    given: Mapping[str, Any],
    assignments: list[str] | None,
    problems: Problems,
) -> dict[str, Any]:
    """Join settings from a file, from options and from --set; the last one wins.

    Args:
        config: The file.
        given: What options say.
        assignments: What --set says.
        problems: Told what cannot be read.
    """
    from duotone.config import merged, parse_assignment, read_toml
    from duotone.runs import with_tables

    read = problems.checked(lambda: read_toml(config)) if config else None
    values: dict[str, Any] = with_tables(read or {})
    values = merged(values, {key: value for key, value in given.items() if value is not None})
    for text in assignments or []:
        values = merged(values, problems.checked(partial(parse_assignment, text)) or {})
    return values


def described(partition: str | None, clients: int | None) -> dict[str, Any] | None:
    """Return the partition table that two options give."""
    given = {"scheme": partition, "clients": clients}
    return {key: value for key, value in given.items() if value is not None} or None


def parse_seeds(text: str) -> list[int]:
    """Turn "0-2" or "0,3,5" into numbers.

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            numbers.extend(range(int(first), int(last if dash else first) + 1))
    except ValueError:
        numbers = []
    if not numbers or len(set(numbers)) != len(numbers):
        raise ConfigError(f"--seeds takes different numbers such as 0-2 or 0,3,5. Got {text!r}.")
    return numbers
