"""Which files of a run's checkpoints count, and what each of them holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from duotone.errors import CheckpointError
from duotone.files import read_json_file

FORMAT = 2
_READABLE = (1, 2)  # the first had no selected round
_STATE_FILE = re.compile(r"(server|clients/[^/\\\0]+)-\d{5,}\.safetensors")

Which: TypeAlias = Literal["last", "selected"]
"""The last committed round, or the one that validation data would choose."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One committed round.

    Attributes:
        round: Which one; 0 before the first.
        server: The file of the server's state.
        clients: Client to the file of its state, for clients that have one.
        notes: Small facts the run wants to be committed together with the round.
        far: Client to the round of its state, for states that their clients keep themselves.
    """

    round: int = 0
    server: str = ""
    clients: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    far: Mapping[str, int] = field(default_factory=dict)

    def files(self) -> list[str]:
        """Return the names of the files it consists of."""
        return [self.server, *self.clients.values()] if self.server else []


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is committed.

    Attributes:
        last: The last round.
        selected: The round that validation data would choose; ``None`` if there is none.
        files: File name to checksum, for every file that belongs to either.
    """

    last: Snapshot = field(default_factory=Snapshot)
    selected: Snapshot | None = None
    files: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> bytes:
        """Return the content of ``manifest.json``."""
        selected = None if self.selected is None else asdict(self.selected)
        content = {**asdict(self.last), "files": dict(self.files), "selected": selected}
        return json.dumps({"format": FORMAT, **content}).encode()

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


def read_manifest(folder: Path) -> Manifest:
    """Return what is committed in a folder of checkpoints.

    Raises:
        CheckpointError: The manifest is missing, damaged, of another version, or names files
            outside of the folder.
    """
    path = folder / "manifest.json"
    # A writer makes the manifest before any state: without states there is nothing to know yet.
    if not path.exists() and not state_files(folder):
        return Manifest()
    try:
        content = read_json_file(path)
        version = content.pop("format")
        if version not in _READABLE:
            raise CheckpointError(
                f"{path} was written by another version of duotone; open it with that version."
            )
        files = _Files.validate_python(content.pop("files"))
        selected = content.pop("selected", None)
        last = _Snapshot.validate_python(content)
        best = None if selected is None else _Snapshot.validate_python(selected)
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
    manifest = Manifest(last, best, files)
    _check_names(path, [last] if best is None else [last, best], files)
    return manifest


_Files = TypeAdapter(dict[str, int])
_Snapshot = TypeAdapter(Snapshot)


def state_files(folder: Path) -> list[Path]:
    """Return the files of states in a folder, whether they count or not."""
    return [*folder.glob("*.safetensors"), *folder.glob("clients/*.safetensors")]


def _check_names(path: Path, snapshots: Iterable[Snapshot], files: Mapping[str, int]) -> None:
    """Make sure that a manifest names files of its own folder, and the checksum of each."""
    for name in files:
        if not _STATE_FILE.fullmatch(name):
            raise CheckpointError(
                f"{path} is damaged: it names {name!r}, which is no file of this folder; nothing "
                "was changed."
            )
    for name in (name for snapshot in snapshots for name in snapshot.files()):
        if name not in files:
            raise CheckpointError(f"{path} is damaged: it lacks the checksum of {name}.")
