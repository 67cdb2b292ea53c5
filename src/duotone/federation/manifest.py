"""Which files of a run's checkpoints count.

The manifest is small, whatever the number of clients: the server's file and the notes of a round,
and how much of the :mod:`journal <duotone.federation.journal>` belongs to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from duotone.errors import CheckpointError
from duotone.federation.journal import STATES, Kept, read_journal, state_file, state_names
from duotone.files import read_json_file, refuse_links

FORMAT = 4
_SINGLE = 3  # its journal had a line per client
_LISTING = (1, 2)  # these named every client's file in the manifest; the first selected no round
_SERVER_FILE = re.compile(rf"server-\d{{5,}}{STATES}")
_CLIENT_FILE = re.compile(rf"clients/[^/\\\0]+-(\d{{5,}}){STATES}")
_JOURNAL = re.compile(r"clients-\d{5,}\.journal")

Which: TypeAlias = Literal["last", "selected"]
"""The last committed round, or the one that validation data would choose."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed round.

    Attributes:
        round: Which one; 0 before the first.
        server: The file of the server's state.
        crc: Its checksum.
        notes: Small facts the run wants to be committed together with the round.
        bytes: How much of the journal belongs to it.
    """

    round: int = 0
    server: str = ""
    crc: int = 0
    notes: Mapping[str, Any] = field(default_factory=dict)
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of the clients' states, as far as it is committed.

    Attributes:
        file: Its name; empty if no client has a state.
        lines: How many states it names.
        crc: Its checksum.
    """

    file: str = ""
    lines: int = 0
    crc: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is committed.

    Attributes:
        last: The last round.
        selected: The round that validation data would choose; ``None`` if there is none.
        journal: Which state of each client counts.
        listed: The same, from a version that wrote it into the manifest.
    """

    last: Snapshot = field(default_factory=Snapshot)
    selected: Snapshot | None = None
    journal: Journal = field(default_factory=Journal)
    listed: Mapping[Which, Mapping[str, Kept]] = field(default_factory=dict)

    def as_json(self) -> bytes:
        """Return the content of ``manifest.json``; what is listed belongs into a journal."""
        content = {
            "format": FORMAT,
            **asdict(self.last),
            "journal": asdict(self.journal),
            "selected": None if self.selected is None else asdict(self.selected),
        }
        return json.dumps(content).encode()

    def snapshot(self, which: Which) -> Snapshot:
        """Return a committed round.

        Raises:
            CheckpointError: There is no selected one.
        """
        found = self.last if which == "last" else self.selected
        if found is None:
            raise CheckpointError(
                "No round was selected: the run has no validation samples, or was made by an "
                "older version. Use the last round."
            )
        return found

    def states(self, folder: Path, *which: Which) -> Sequence[Mapping[str, Kept]]:
        """Return which state of each client counts, for ``selected`` before ``last``.

        Raises:
            CheckpointError: The journal is missing or damaged.
        """
        if self.listed or not self.journal.file:
            return [self.listed.get(one, {}) for one in which]
        refuse_links(folder, self.journal.file)
        ends = [self.snapshot(one).bytes for one in which]
        return read_journal(folder / self.journal.file, self.last.bytes, self.journal.crc, ends)


def read_manifest(folder: Path) -> Manifest:
    """Return what is committed in a folder of checkpoints.

    Raises:
        CheckpointError: The manifest is missing, damaged, of another version, or names files
            outside of the folder.
    """
    path = folder / "manifest.json"
    # A writer makes the manifest before any state: without states there is nothing to know yet.
    if not path.exists() and not any(state_names(folder)):
        return Manifest()
    try:
        content = read_json_file(path)
        version = content.pop("format")
        if version in _LISTING:
            return _from_listing(path, content)
        if version not in (_SINGLE, FORMAT):
            raise CheckpointError(
                f"{path} was written by another version of duotone; open it with that version."
            )
        manifest = _Manifest.validate_python(
            {
                "journal": content.pop("journal"),
                "selected": content.pop("selected"),
                "last": content,
            }
        )
    except FileNotFoundError:
        raise CheckpointError(
            f"{path} is missing, so nobody knows which states count; nothing was changed. Restore "
            "it from a copy, or start the run anew in another folder."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = "a value of the wrong form" if isinstance(error, ValidationError) else error
        raise CheckpointError(
            f"{path} is damaged and cannot be read ({reason}); nothing was changed. Restore it "
            "from a copy, or start the run anew in another folder."
        ) from error
    for snapshot in (manifest.last, manifest.selected):
        if snapshot is not None and snapshot.server:
            _checked(path, snapshot.server, _SERVER_FILE)
    if manifest.journal.file:
        _checked(path, manifest.journal.file, _JOURNAL)
    return manifest


@dataclass(frozen=True, slots=True)
class _Listing:
    """A round as older versions wrote it: the file of every client."""

    round: int = 0
    server: str = ""
    clients: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    far: Mapping[str, int] = field(default_factory=dict)


_Manifest = TypeAdapter(Manifest)
_Files = TypeAdapter(dict[str, int])
_Listed = TypeAdapter(_Listing)


def _from_listing(path: Path, content: dict[str, Any]) -> Manifest:
    """Return what a manifest of an older version says."""
    files = _Files.validate_python(content.pop("files"))
    selected = content.pop("selected", None)
    found: dict[Which, _Listing] = {"last": _Listed.validate_python(content)}
    if selected is not None:
        found["selected"] = _Listed.validate_python(selected)
    heads: dict[Which, Snapshot] = {}
    for which, one in found.items():
        crc = 0
        if one.server:
            crc = files[_checked(path, one.server, _SERVER_FILE)]
        heads[which] = Snapshot(one.round, one.server, crc, one.notes)
    listed = {which: dict(_kept(path, one, files)) for which, one in found.items()}
    return Manifest(heads["last"], heads.get("selected"), listed=listed)


def _kept(path: Path, listing: _Listing, files: Mapping[str, int]) -> Iterator[tuple[str, Kept]]:
    for client, name in listing.clients.items():
        match = _CLIENT_FILE.fullmatch(name)
        round = int(match[1]) if match else 0
        if name != state_file(client, round):
            _refuse(path, name)
        yield client, Kept(round, files[name])
    for client, round in listing.far.items():
        yield client, Kept(round, None)


def _checked(path: Path, name: str, form: re.Pattern[str]) -> str:
    """Return a name, after making sure that it is that of a file of the manifest's own folder."""
    if not form.fullmatch(name):
        _refuse(path, name)
    return name


def _refuse(path: Path, name: str) -> None:
    raise CheckpointError(
        f"{path} is damaged: it names {name!r}, which is no file of this folder; nothing was "
        "changed."
    )
