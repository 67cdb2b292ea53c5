"""What a run remembers on disk: a sequence of committed rounds.

A round is written to new files; replacing ``manifest.json`` commits it. Whatever happens before
that single rename — a kill, a full disk, a power cut — leaves the round before intact, and what was
written for the unfinished one is cleared away by the next writer::

    checkpoints/
      manifest.json                      the last committed round, and which file holds what
      server-00012.safetensors           the server's state
      clients/7-00011.safetensors        client 7 was last drawn in round 11

Two rounds are kept: the last one, and the one that validation data would choose. A commit removes
the files that belong to neither, so a run takes at most twice the disk of one round.

One writer, many readers. :class:`FolderStore` writes; only the holder of the run's lock may open
it. :func:`reading` shows one committed round, whole, and changes nothing: while somebody reads, the
writer commits as usual but leaves old files where they are until the reader is done.

Every file's checksum is in the manifest, so damage is noticed, not averaged. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from duotone.errors import CheckpointError
from duotone.federation.backends.codec import stays
from duotone.federation.manifest import (
    Manifest,
    Snapshot,
    Which,
    read_manifest,
    state_files,
)
from duotone.files import (
    disk_errors,
    exclusive_after,
    read_regular,
    refuse_links,
    sync_folder,
    together,
    write_atomically,
    write_durably,
)
from duotone.types import ClientState, FarState, Params, ServerState

_PATIENCE_SECONDS = 5.0


class CommittedRound:
    """One committed round, to be read.

    Args:
        folder: The checkpoints.
        snapshot: Which files hold what.
        files: Their checksums.
    """

    def __init__(self, folder: Path, snapshot: Snapshot, files: Mapping[str, int]) -> None:
        self.folder = folder
        self.snapshot = snapshot
        self._files = files

    @property
    def round(self) -> int:
        """Which round it is."""
        return self.snapshot.round

    @property
    def notes(self) -> Mapping[str, Any]:
        """What was committed together with it."""
        return self.snapshot.notes

    def get(self, client: str) -> ClientState | None:
        """Return a client's state, or ``None`` if it has none."""
        if client in self.snapshot.far:
            return FarState(round=self.snapshot.far[client])
        name = self.snapshot.clients.get(client)
        return None if name is None else ClientState(*read_state(self.folder, name, self._files))

    def server(self) -> ServerState:
        """Return the server's state.

        Raises:
            CheckpointError: No round is committed yet, or the file is damaged.
        """
        if not self.snapshot.server:
            raise CheckpointError(f"{self.folder} holds no committed round yet.")
        return ServerState(*read_state(self.folder, self.snapshot.server, self._files))


@contextmanager
def reading(folder: Path, which: Which = "last") -> Iterator[CommittedRound]:
    """Read one committed round while a writer may go on. Nothing is changed.

    Raises:
        CheckpointError: There is no such round, or the manifest is missing or damaged.
    """
    refuse_links(folder.parent, folder.name)
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is missing: the run has not begun, or lost its states.")
    with together(folder):
        manifest = read_manifest(folder)
        yield CommittedRound(folder, manifest.snapshot(which), manifest.files)


class FolderStore:
    """Server and client states of one run, in a folder, to be written.

    Use as the ``states`` of :func:`~duotone.federation.engine.federate`; call :meth:`commit` after
    every round. Only the holder of the run's lock may open it: what a writer that died has left
    behind is removed.

    Raises:
        CheckpointError: The manifest is missing though states are there, or is damaged. Nothing is
            removed then.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        refuse_links(folder.parent, folder.name)
        refuse_links(folder, "clients", "manifest.json")
        (folder / "clients").mkdir(parents=True, exist_ok=True)
        if not (folder / "manifest.json").exists():
            # From here on a missing manifest is a lost one; if one was lost, this raises.
            write_atomically(folder / "manifest.json", read_manifest(folder).as_json())
        self.manifest = read_manifest(folder)
        self._staged_files: dict[str, int] = {}
        self._staged_clients: dict[str, str] = {}
        self._staged_far: dict[str, int] = {}
        self._unneeded: set[str] = set()
        self._clear()

    @property
    def last(self) -> CommittedRound:
        """The last committed round."""
        return CommittedRound(self.folder, self.manifest.last, self.manifest.files)

    @property
    def selected(self) -> CommittedRound | None:
        """The committed round that validation data would choose, if there is one."""
        chosen = self.manifest.selected
        return None if chosen is None else CommittedRound(self.folder, chosen, self.manifest.files)

    def get(self, client: str) -> ClientState | None:
        """Return a client's newest state, or ``None`` if it has none."""
        far = {**self.manifest.last.far, **self._staged_far}
        if client in far:
            return FarState(round=far[client])
        name = self._staged_clients.get(client) or self.manifest.last.clients.get(client)
        if name is None:
            return None
        return ClientState(*read_state(self.folder, name, self._known()))

    def put(self, round: int, client: str, state: ClientState) -> None:
        """Write a client's new state; it counts from the next commit on.

        A state that its client keeps is only named.
        """
        if isinstance(state, FarState):
            self._staged_far[client] = state.round
            return
        name = f"clients/{file_stem(client)}-{round:05d}.safetensors"
        self._write(name, state.local, state.extra)
        self._staged_clients[client] = name

    def commit(
        self, round: int, server: ServerState, notes: Mapping[str, Any], *, selects: bool = False
    ) -> None:
        """Make a round the one that counts.

        Args:
            round: Its number.
            server: The server's state.
            notes: Small facts to be committed with it.
            selects: Whether it is the best so far by validation data, and to be kept.
        """
        name = f"server-{round:05d}.safetensors"
        self._write(name, server.shared, server.extra)
        # Sorted, because workers finish in any order and equal rounds must give equal files.
        clients = dict(sorted({**self.manifest.last.clients, **self._staged_clients}.items()))
        far = dict(sorted({**self.manifest.last.far, **self._staged_far}.items()))
        last = Snapshot(round, name, clients, dict(notes), far)
        self._replace(last, last if selects else self.manifest.selected)
        self._staged_clients, self._staged_far = {}, {}

    def note(self, **notes: Any) -> None:
        """Add facts to the last committed round."""
        last = self.manifest.last
        self._replace(
            replace(last, notes={**last.notes, **notes}),
            self.manifest.selected,
        )

    def close(self) -> None:
        """Remove the files that no kept round needs, when readers are done with them."""
        with exclusive_after(self.folder, _PATIENCE_SECONDS) as is_alone:
            if is_alone:
                self._clear()

    def _replace(self, last: Snapshot, selected: Snapshot | None) -> None:
        known = self._known()
        kept = [*last.files(), *(selected.files() if selected is not None else ())]
        manifest = Manifest(last, selected, {file: known[file] for file in dict.fromkeys(kept)})
        for folder in (self.folder / "clients", self.folder):
            sync_folder(folder)
        write_atomically(self.folder / "manifest.json", manifest.as_json())
        self._unneeded |= self.manifest.files.keys() - manifest.files.keys()
        self.manifest, self._staged_files = manifest, {}
        with exclusive_after(self.folder, 0.0) as is_alone:
            if is_alone:  # else there is a reader: the files go with a later commit
                for name in self._unneeded:
                    (self.folder / name).unlink(missing_ok=True)
                self._unneeded = set()

    def _known(self) -> dict[str, int]:
        return {**self.manifest.files, **self._staged_files}

    def _clear(self) -> None:
        """Remove what belongs to no committed round."""
        for path in state_files(self.folder):
            if path.relative_to(self.folder).as_posix() not in self.manifest.files:
                path.unlink()
        for path in self.folder.glob("*.part"):
            path.unlink()

    def _write(self, name: str, first: Params, extra: Params) -> None:
        content = packed_state(first, extra)
        write_durably(self.folder / name, content)
        self._staged_files[name] = zlib.crc32(content)


def read_state(
    folder: Path, name: str, files: Mapping[str, int]
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return the two mappings of tensors that a file holds.

    Raises:
        CheckpointError: It is missing, damaged, or no regular file.
    """
    path = folder / name
    try:
        content = read_regular(path)
        if zlib.crc32(content) != files.get(name):
            raise CheckpointError(
                f"The checkpoint {path} is damaged (its checksum differs); restore it from a "
                "copy, or start the run anew."
            )
        return unpacked_state(content)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The checkpoint {path} cannot be read: {error}.") from error


@stays
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
        return ClientState(*unpacked_state(path.read_bytes())) if path.exists() else None

    def put(self, client: str, state: ClientState) -> None:
        """Keep a client's state."""
        path = self._path(client)
        part = path.with_suffix(".part")
        with disk_errors(path):
            part.write_bytes(packed_state(state.local, state.extra))
            part.replace(path)

    def _path(self, client: str) -> Path:
        return self.folder / f"{file_stem(client)}.safetensors"


def packed_state(first: Params, extra: Params) -> bytes:
    """Return two mappings of tensors as the content of a file."""
    # Safetensors wants contiguous tensors that own their memory, and two names may share one.
    parts = {"main": first, "extra": extra}
    tensors = {
        f"{part}/{key}": tensor.clone(memory_format=torch.contiguous_format)
        for part, params in parts.items()
        for key, tensor in params.items()
    }
    content: bytes = save_tensors(tensors)
    return content


def unpacked_state(content: bytes) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return the two mappings that :func:`packed_state` made a file of."""
    tensors = load_tensors(content)
    main, extra = (
        {key.removeprefix(part): tensor for key, tensor in tensors.items() if key.startswith(part)}
        for part in ("main/", "extra/")
    )
    return main, extra


def file_stem(client: str) -> str:
    """Return a file name for a client, whatever its own name is made of."""
    name = quote(client, safe="")
    if len(name) <= 100:
        return name
    return name[:80] + hashlib.sha256(client.encode()).hexdigest()[:16]
