"""What a run remembers on disk: a sequence of committed rounds.

A round is written to new files; replacing ``manifest.json`` commits it. Whatever happens before
that single rename — a kill, a full disk, a power cut — leaves the round before intact, and what was
written for the unfinished one is cleared away when the run is opened again::

    checkpoints/
      manifest.json                      the last committed round, and which file holds what
      server-00012.safetensors           the server's state
      clients/7-00011.safetensors        client 7 was last drawn in round 11

Every file's checksum is in the manifest, so damage is noticed, not averaged. Nothing is pickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from duotone.errors import CheckpointError
from duotone.types import ClientState, Params, ServerState

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a committed round consists of.

    Attributes:
        round: The committed round; 0 before the first.
        files: File name to checksum, for every file that belongs to the round.
        server: The file of the server's state.
        clients: Client to the file of its state, for clients that have one.
        notes: Small facts the run wants to be committed together with the round.
    """

    round: int = 0
    files: Mapping[str, int] = field(default_factory=dict)
    server: str = ""
    clients: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)


class FolderStore:
    """Server and client states of one run, in a folder.

    Use as the ``states`` of :func:`~duotone.federation.engine.federate`; call :meth:`commit` after
    every round.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "clients").mkdir(parents=True, exist_ok=True)
        self.manifest = _read_manifest(folder / "manifest.json")
        self._staged_files: dict[str, int] = {}
        self._staged_clients: dict[str, str] = {}
        self._clear()

    def get(self, client: str) -> ClientState | None:
        """Return a client's newest state, or ``None`` if it has none."""
        name = self._staged_clients.get(client) or self.manifest.clients.get(client)
        if name is None:
            return None
        return ClientState(*self._read(name))

    def server(self) -> ServerState:
        """Return the server's state as of the committed round."""
        return ServerState(*self._read(self.manifest.server))

    def put(self, round: int, client: str, state: ClientState) -> None:
        """Write a client's new state; it counts from the next commit on."""
        name = f"clients/{_file_stem(client)}-{round:05d}.safetensors"
        self._write(name, state.local, state.extra)
        self._staged_clients[client] = name

    def commit(self, round: int, server: ServerState, notes: Mapping[str, Any]) -> None:
        """Make a round the one that counts."""
        name = f"server-{round:05d}.safetensors"
        self._write(name, server.shared, server.extra)
        # Sorted, because workers finish in any order and equal rounds shall be equal files.
        clients = dict(sorted({**self.manifest.clients, **self._staged_clients}.items()))
        known = {**self.manifest.files, **self._staged_files}
        files = {file: known[file] for file in [name, *clients.values()]}
        manifest = Manifest(round, files, name, clients, dict(notes))
        content = {"format": FORMAT, **asdict(manifest)}
        for folder in (self.folder / "clients", self.folder):
            _sync_folder(folder)
        write_atomically(self.folder / "manifest.json", json.dumps(content).encode())
        for old in self.manifest.files.keys() - files.keys():
            (self.folder / old).unlink(missing_ok=True)
        self.manifest = manifest
        self._staged_files, self._staged_clients = {}, {}

    def _clear(self) -> None:
        """Remove what a writer that died has left behind."""
        for path in [*self.folder.glob("*.safetensors"), *self.folder.glob("clients/*")]:
            if path.relative_to(self.folder).as_posix() not in self.manifest.files:
                path.unlink()
        for path in self.folder.glob("*.part"):
            path.unlink()

    def _write(self, name: str, first: Params, extra: Params) -> None:
        content = _packed(first, extra)
        with disk_errors(self.folder / name), open(self.folder / name, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self._staged_files[name] = zlib.crc32(content)

    def _read(self, name: str) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        path = self.folder / name
        try:
            content = path.read_bytes()
            expected = self._staged_files.get(name, self.manifest.files.get(name))
            if zlib.crc32(content) != expected:
                raise CheckpointError(
                    f"The checkpoint {path} is damaged (its checksum differs); restore it from a "
                    "copy, or start the run anew."
                )
            return _unpacked(content)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"The checkpoint {path} cannot be read: {error}.") from error


@dataclass(frozen=True, slots=True)
class Shelf:
    """Client states that were costly to compute and are needed more than once.

    In a folder, so that workers share them and memory does not grow with the number of clients.

    Attributes:
        folder: An empty folder of its own, such as a temporary one.
    """

    folder: Path

    def get(self, client: str) -> ClientState | None:
        """Return the state a client put here, or ``None``."""
        path = self._path(client)
        return ClientState(*_unpacked(path.read_bytes())) if path.exists() else None

    def put(self, client: str, state: ClientState) -> None:
        """Keep a client's state."""
        path = self._path(client)
        part = path.with_suffix(".part")
        with disk_errors(path):
            part.write_bytes(_packed(state.local, state.extra))
            os.replace(part, path)

    def _path(self, client: str) -> Path:
        return self.folder / f"{_file_stem(client)}.safetensors"


def _packed(first: Params, extra: Params) -> bytes:
    # Safetensors wants contiguous tensors that own their memory, and two names may share one.
    parts = {"main": first, "extra": extra}
    tensors = {
        f"{part}/{key}": tensor.clone(memory_format=torch.contiguous_format)
        for part, params in parts.items()
        for key, tensor in params.items()
    }
    content: bytes = save_tensors(tensors)
    return content


def _unpacked(content: bytes) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    tensors = load_tensors(content)
    main, extra = (
        {key.removeprefix(part): tensor for key, tensor in tensors.items() if key.startswith(part)}
        for part in ("main/", "extra/")
    )
    return main, extra


def _read_manifest(path: Path) -> Manifest:
    if not path.exists():
        return Manifest()
    try:
        content = json.loads(path.read_bytes())
        if content.pop("format") != FORMAT:
            raise CheckpointError(
                f"{path} was written by another version of duotone; resume it with that version."
            )
        return Manifest(**content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is damaged and cannot be read ({error}); restore it from a copy, or start "
            "the run anew."
        ) from error


def _file_stem(client: str) -> str:
    """Return a file name for a client, whatever its own name is made of."""
    name = quote(client, safe="")
    if len(name) <= 100:
        return name
    return name[:80] + hashlib.sha256(client.encode()).hexdigest()[:16]


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never a part of it."""
    part = path.with_name(path.name + ".part")
    with disk_errors(path):
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder survive a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a failed write into an error that says what to do."""
    try:
        yield
    except OSError as error:
        problem = f"{error.strerror}; choose another place."
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            problem = "the disk is full. The last committed round is safe; make room, then resume."
        raise CheckpointError(f"{path} cannot be written: {problem}") from error
