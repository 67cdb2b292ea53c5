"""Names for things: look one up, and import it only when it is used.

A registry maps a name to ``"module:attribute"``. Looking at the names imports nothing, so the
command line can list forty methods without loading torch. Plug-ins add names through the entry
point groups ``duotone.methods``, ``duotone.networks`` and so on.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from duotone.errors import ConfigError, UnknownNameError

_IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class Registry(Mapping[str, str]):
    """The known names of one sort of thing.

    Args:
        noun: The word for one entry, as a user says it: "method", "model".
        entries: Name to ``"module:attribute"``.
        listing: The command that lists the names, quoted in error messages; without one the
            names themselves are.
    """

    def __init__(self, noun: str, entries: Mapping[str, str], *, listing: str = "") -> None:
        self.noun = noun
        self.listing = listing
        self._entries = dict(entries)
        self._plugins_loaded = False

    def _names(self) -> dict[str, str]:
        if not self._plugins_loaded:
            # Built-in names win: a plug-in cannot silently replace FedAvg.
            for point in entry_points(group=f"duotone.{self.noun.replace(' ', '_')}s"):
                self._entries.setdefault(point.name, point.value)
            self._plugins_loaded = True
        return self._entries

    def __getitem__(self, name: str) -> str:
        return self._names()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def load(self, name: str) -> Any:
        """Import and return the object called ``name``.

        ``"package.module:Name"`` is accepted as well and imported as it stands.

        Raises:
            UnknownNameError: Nobody knows the name; the message suggests the nearest one.
            ConfigError: It is Python code that the user has not named himself.
        """
        if name in self:
            return import_object(self[name])
        if _IMPORT_PATH.fullmatch(name):
            check_trusted(self.noun, name)
            try:
                return import_object(name)
            except (ImportError, AttributeError) as error:
                raise UnknownNameError(
                    f"The {self.noun} {name!r} cannot be imported: {error}."
                ) from error
        known = f"List them with: {self.listing}" if self.listing else f"Known: {', '.join(self)}."
        raise UnknownNameError(f"Unknown {self.noun} {name!r}.{did_you_mean(name, self)} {known}")


_typed: Collection[str] | None = None
"""What the user typed on the command line; ``None`` in a program of the user's own."""
_own: set[str] = set()
_all_allowed = False
_NAME_IN = {"method": "name", "partition": "scheme"}
"""Where tables have the name of what they set."""


def trust_only(typed: Collection[str] | None) -> None:
    """Import no Python code by its path but what stands in one of some texts.

    The command line gives what the user typed, so that a file from somebody else cannot name code
    that then runs. In a program of the user's own (``None``) names that it gives are followed.
    """
    global _typed
    _typed = typed


def allow_code(allowed: bool = True) -> None:
    """Follow the names of Python code in files, as ``--allow-code`` does on the command line.

    A configuration, a run folder or an exported client may name a model or method as
    ``"package.module:Name"``. Importing it runs code: allow that for files that you trust.

    Args:
        allowed: Whether, from now on.
    """
    global _all_allowed
    _all_allowed = allowed


def own_code(values: Mapping[str, Any]) -> None:
    """Take the names of code in a run's settings for the user's own: his program gave them."""
    _own.update(name for _, name in _code_in(values))


def check_file(values: Mapping[str, Any]) -> None:
    """Make sure that the settings in a file name no Python code that the user has not named.

    Raises:
        ConfigError: They do.
    """
    for noun, name in _code_in(values):
        if not _is_trusted(name):
            raise _untrusted(noun, name)


def check_trusted(noun: str, name: str) -> None:
    """Make sure that, on the command line, the user himself has named some Python code.

    Raises:
        ConfigError: A file has.
    """
    if _typed is not None and not _is_trusted(name):
        raise _untrusted(noun, name)


def _is_trusted(name: str) -> bool:
    typed = (text.rpartition("=")[2] for text in _typed or ())
    return _all_allowed or name in _own or name in typed


def _untrusted(noun: str, name: str) -> ConfigError:
    return ConfigError(
        f"A file names Python code as its {noun}, {name!r}, which would run on this machine. If "
        "you trust it, add --allow-code, or in Python call duotone.allow_code()."
    )


def _code_in(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield where settings name code, and its path; tables of a study lie inside one another."""
    for key, value in values.items():
        if isinstance(value, list):
            for each in value:
                yield from _code_in({key: each})
        elif isinstance(value, Mapping):
            for name, given in value.items():
                yield from _code_in({key if name == _NAME_IN.get(key) else str(name): given})
        elif (
            key in ("method", "model", "data", "partition")
            and isinstance(value, str)
            and _IMPORT_PATH.fullmatch(value)
            and not value.startswith("object:")  # one of a program: there is nothing to import
        ):
            yield key, value


def import_object(path: str) -> Any:
    """Import ``"package.module:Name"``, or a whole ``"package.module"``."""
    module, _, attribute = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return found


def did_you_mean(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """Return " Did you mean 'x'?" with the nearest known name, or an empty string."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""
