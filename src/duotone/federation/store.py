"""What a run remembers on disk: a sequence of committed rounds.

A round is written to new files and to the end of the journal; replacing ``manifest.json`` commits
it. Whatever happens before that single rename — a kill, a full disk, a power cut — leaves the round
before intact, and what was written for the unfinished one is cleared away by the next writer::

    checkpoints/
      manifest.json                      the last committed round, how much of the journal is its
      clients-00001.journal              which state of each client counts: a line for every commit
      server-00012.safetensors           the server's state
      clients/7-00011.safetensors        client 7 was last drawn in round 11

Two rounds are kept: the last one, and the one that validation data would choose. A commit removes
the files that belong to neither, so a run takes at most twice the disk of one round.

One writer, many readers. :class:`FolderStore` writes; only the holder of the run's lock may open
it. :func:`reading` shows one committed round, whole, and changes nothing: while somebody reads, the
writer commits as usual but leaves old files where they are until the reader is done.

Every file's checksum is in the manifest or the journal, so damage is noticed, not averaged. Nothing
is pickled.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from duotone.errors import CheckpointError
from duotone.federation.backends.codec import stays
from duotone.federation.journal import (
    STATES,
    Kept,
    changed,
    file_stem,
    is_worn,
    journal_file,
    line,
    state_file,
    state_names,
)
from duotone.federation.manifest import Journal, Manifest, Snapshot, Which, read_manifest
from duotone.federation.state_files import packed_state, read_state, unpacked_state
from duotone.files import (
    append_durably,
    disk_errors,
    exclusive_after,
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
        snapshot: The round.
        states: Finds out which state of each client counts; called when first needed.
    """

    def __init__(
        self, folder: Path, snapshot: Snapshot, states: Callable[[], Mapping[str, Kept]]
    ) -> None:
        self.folder = folder
        self.snapshot = snapshot
        self._find = states

    @property
    def round(self) -> int:
        """Which round it is."""
        return self.snapshot.round

    @property
    def notes(self) -> Mapping[str, Any]:
        """What was committed together with it."""
        return self.snapshot.notes

    @cached_property
    def states(self) -> Mapping[str, Kept]:
        """Which state of each client counts."""
        return self._find()

    def get(self, client: str) -> ClientState | None:
        """Return a client's state, or ``None`` if it has none."""
        return _state_of(self.folder, client, self.states.get(client))

    def server(self) -> ServerState:
        """Return the server's state.

        Raises:
            CheckpointError: No round is committed yet, or the file is damaged.
        """
        if not self.snapshot.server:
            raise CheckpointError(f"{self.folder} holds no committed round yet.")
        return ServerState(*read_state(self.folder, self.snapshot.server, self.snapshot.crc))


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
        snapshot = manifest.snapshot(which)
        yield CommittedRound(folder, snapshot, lambda: manifest.states(folder, which)[0])


class FolderStore:
    """Server and client states of one run, in a folder, to be written.

    Use as the ``states`` of :func:`~duotone.federation.engine.federate`; call :meth:`commit` after
    every round. Only the holder of the run's lock may open it: what a writer that died has left
    behind is removed.

    Raises:
        CheckpointError: The manifest is missing though states are there, or it or the journal is
            damaged. Nothing is removed then.
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
        self._states, self._older = self._read_states()
        self._staged: dict[str, Kept] = {}
        self._unneeded: set[str] = set()
        self._clear()

    @property
    def last(self) -> CommittedRound:
        """The last committed round, until the next one is."""
        return CommittedRound(self.folder, self.manifest.last, lambda: self._states)

    @property
    def selected(self) -> CommittedRound | None:
        """The committed round that validation data would choose, if there is one."""
        chosen = self.manifest.selected
        return None if chosen is None else CommittedRound(self.folder, chosen, self._selected)

    def get(self, client: str) -> ClientState | None:
        """Return a client's newest state, or ``None`` if it has none."""
        kept = self._staged.get(client) or self._states.get(client)
        return _state_of(self.folder, client, kept)

    def put(self, round: int, client: str, state: ClientState) -> None:
        """Write a client's new state; it counts from the next commit on.

        A state that its client keeps is only named.
        """
        if isinstance(state, FarState):
            self._staged[client] = Kept(state.round, None)
            return
        crc = self._write(state_file(client, round), state.local, state.extra)
        self._staged[client] = Kept(round, crc)

    def commit(
        self, round: int, server: ServerState, notes: Mapping[str, Any], *, selects: bool = False
    ) -> None:
        """Make a round the one that counts; the cost is that of the clients with new states.

        Args:
            round: Its number.
            server: The server's state.
            notes: Small facts to be committed with it.
            selects: Whether it is the best so far by validation data, and to be kept.
        """
        name = f"server-{round:05d}{STATES}"
        crc = self._write(name, server.shared, server.extra)
        self._replace(Snapshot(round, name, crc, dict(notes)), selects)

    def note(self, **notes: Any) -> None:
        """Add facts to the last committed round."""
        last = self.manifest.last
        self._replace(replace(last, notes={**last.notes, **notes}), False)

    def close(self) -> None:
        """Remove the files that no kept round needs, when readers are done with them."""
        self._unneeded |= set(_files(self._staged.items()))
        with exclusive_after(self.folder, _PATIENCE_SECONDS) as is_alone:
            if is_alone:
                self._remove()

    def _read_states(self) -> tuple[dict[str, Kept], dict[str, Kept | None]]:
        """Return the last state of each client, and the selected round's where it is another."""
        if self.manifest.selected is None:
            return dict(*self.manifest.states(self.folder, "last")), {}
        selected, last = self.manifest.states(self.folder, "selected", "last")
        older = {client: selected.get(client) for client, _ in changed(selected, last)}
        return dict(last), older

    def _selected(self) -> dict[str, Kept]:
        both = {**self._states, **self._older}
        return {client: kept for client, kept in both.items() if kept is not None}

    def _replace(self, last: Snapshot, selects: bool) -> None:
        """Write down the states that are new and replace the manifest, which commits."""
        manifest = self._journalled(last, selects)
        for folder in (self.folder / "clients", self.folder):
            sync_folder(folder)
        write_atomically(self.folder / "manifest.json", manifest.as_json())
        before, self.manifest = self.manifest, manifest
        self._unneeded |= _heads(before) - _heads(manifest)
        self._take_up(selects)
        with exclusive_after(self.folder, 0.0) as is_alone:
            if is_alone:  # else there is a reader: the files go with a later commit
                self._remove()

    def _journalled(self, last: Snapshot, selects: bool) -> Manifest:
        """Add the new states to the journal; return the manifest that will count them."""
        before, journal, selected = self.manifest, self.manifest.journal, self.manifest.selected
        name, alive = journal_file(last.round), len(self._states) + len(self._older)
        if journal.file:
            is_new = is_worn(journal.lines, alive) and name != journal.file
        else:  # no client had a state, or an older version listed them in the manifest
            is_new = bool(self._staged or self._states)
        if is_new:
            kept = {} if selected is None or selects else self._selected()
            new = [*changed(kept, {**self._states, **self._staged})]
            first = line(kept.items())
            content = first + line(new)
            write_durably(self.folder / name, content)
            journal = Journal(name, len(kept) + len(new), zlib.crc32(content))
            last = replace(last, bytes=len(content))
            selected = selected and replace(selected, bytes=len(first))
        else:
            content, size = line(self._staged.items()), before.last.bytes
            if content:
                append_durably(self.folder / journal.file, content, size)
            grown = journal.lines + len(self._staged)
            journal = Journal(journal.file, grown, zlib.crc32(content, journal.crc))
            last = replace(last, bytes=size + len(content))
        return Manifest(last, last if selects else selected, journal)

    def _take_up(self, selects: bool) -> None:
        """Count the staged states as committed; find the files that nobody needs any more."""
        replaced = {client: self._states.get(client) for client in self._staged}
        self._states.update(self._staged)
        self._staged = {}
        outdated = [*replaced.items()]
        if selects:  # the round that was selected before is given up
            outdated += self._older.items()
            self._older = {}
        elif self.manifest.selected is not None:
            outdated = [pair for pair in outdated if pair[0] in self._older]
            for client, kept in replaced.items():
                self._older.setdefault(client, kept)
        needed = _files((client, self._states.get(client)) for client, _ in outdated)
        self._unneeded |= {*_files(outdated)} - {*needed}

    def _remove(self) -> None:
        for name in self._unneeded:
            (self.folder / name).unlink(missing_ok=True)
        self._unneeded = set()

    def _clear(self) -> None:
        """Remove what belongs to no committed round."""
        found = {*state_names(self.folder)} - _heads(self.manifest)
        if found:
            found -= {*_files(self._states.items()), *_files(self._older.items())}
        for name in found:
            (self.folder / name).unlink()
        for path in self.folder.glob("*.part"):
            path.unlink()

    def _write(self, name: str, first: Params, extra: Params) -> int:
        content = packed_state(first, extra)
        write_durably(self.folder / name, content)
        return zlib.crc32(content)


def _heads(manifest: Manifest) -> set[str]:
    """Return the files that a manifest names."""
    snapshots = [manifest.last] if manifest.selected is None else [manifest.last, manifest.selected]
    return {manifest.journal.file, *(snapshot.server for snapshot in snapshots)} - {""}


def _files(states: Iterable[tuple[str, Kept | None]]) -> Iterator[str]:
    """Yield the files of some clients' states, for those that are kept here."""
    for client, kept in states:
        if kept is not None and kept.crc is not None:
            yield state_file(client, kept.round)


def _state_of(folder: Path, client: str, kept: Kept | None) -> ClientState | None:
    if kept is None:
        return None
    if kept.crc is None:
        return FarState(round=kept.round)
    return ClientState(*read_state(folder, state_file(client, kept.round), kept.crc))


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
