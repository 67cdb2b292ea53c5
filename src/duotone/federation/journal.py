"""The journal: which of a run's rounds each client's state is of, one line per commit.

A line has three columns: clients, rounds and checksums. A commit adds a line of the clients that
were drawn, so it costs the same however many ever took part; a resume reads whole columns. The
manifest says how long the journal is: what stands behind that is of a round that was never
committed, and nobody reads it. A round that was committed earlier is a shorter piece of the same
file. When most entries are out of date the next commit begins a new journal.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from duotone.errors import CheckpointError
from duotone.files import read_regular

_SPARE = 1_000  # entries out of date and not worth a new journal
STATES = ".safetensors"


class Kept(NamedTuple):
    """One state of a client.

    Attributes:
        round: The round in which it arose.
        crc: The checksum of its file; ``None`` if the client keeps it itself.
    """

    round: int
    crc: int | None


def state_file(client: str, round: int) -> str:
    """Return the name of the file of a client's state."""
    return f"clients/{file_stem(client)}-{round:05d}{STATES}"


def file_stem(client: str) -> str:
    """Return a file name for a client, whatever its own name is made of."""
    is_plain = client.isascii() and client.isalnum()  # as most are, and quoting a million is slow
    name = client if is_plain else quote(client, safe="")
    if len(name) <= 100:
        return name
    return name[:80] + hashlib.sha256(client.encode()).hexdigest()[:16]


def journal_file(round: int) -> str:
    """Return the name of a journal that begins with a round."""
    return f"clients-{round:05d}.journal"


def line(states: Iterable[tuple[str, Kept]]) -> bytes:
    """Return the line of some clients' states; nothing if there are none.

    Sorted, because workers finish in any order and equal rounds must give equal files.
    """
    rows = [(client, *kept) for client, kept in sorted(states)]
    return _line([*zip(*rows, strict=True)]).encode() + b"\n" if rows else b""


_line = json.JSONEncoder(separators=(",", ":")).encode


def is_worn(entries: int, clients: int) -> bool:
    """Say whether most entries of a journal are out of date."""
    return entries > 2 * clients + _SPARE


def read_journal(path: Path, size: int, crc: int, ends: Iterable[int]) -> list[dict[str, Kept]]:
    """Return the states of all clients at some lengths of a journal, the first of them shortest.

    Args:
        path: The journal.
        size: How much of it is committed.
        crc: The checksum of that.
        ends: At which lengths.

    Raises:
        CheckpointError: It is missing or damaged.
    """
    restore = "nothing was changed. Restore it from a copy, or start the run anew."
    try:
        content = read_regular(path)[:size]
        if len(content) < size or zlib.crc32(content) != crc:
            raise CheckpointError(f"{path} is damaged (its checksum differs); {restore}")
        found, begin = [dict[str, Kept]()], 0
        for end in ends:
            found.append({**found[-1], **_parsed(content[begin:end])})
            begin = end
        return found[1:]
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}; {restore}") from error
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged ({error}); {restore}") from error


def _parsed(content: bytes) -> dict[str, Kept]:
    if not content:
        return {}
    # One call for all lines: a line break inside of a name would be written as \\n.
    found = json.loads(b"[" + content.rstrip(b"\n").replace(b"\n", b",") + b"]")
    # In format 3 a line was a single client's.
    pieces = ([[value] for value in row] if isinstance(row[0], str) else row for row in found)
    clients, rounds, crcs = ([*chain.from_iterable(column)] for column in zip(*pieces, strict=True))
    kinds = [{*map(type, column)} for column in (clients, rounds, crcs)]
    if kinds[0] != {str} or kinds[1] != {int} or not kinds[2] <= {int, type(None)}:
        raise ValueError("a line does not name clients, rounds and checksums")
    states = map(partial(tuple.__new__, Kept), zip(rounds, crcs, strict=True))
    return dict(zip(clients, states, strict=True))


def state_names(folder: Path) -> Iterator[str]:
    """Yield the names of the files of states and journals in a folder, whether they count or not.

    One by one, so that asking whether there are any is quick among a million.
    """
    for start, suffixes in (("", (STATES, ".journal")), ("clients/", (STATES,))):
        if not (folder / start).is_dir():
            continue
        with os.scandir(folder / start) as found:
            yield from (start + file.name for file in found if file.name.endswith(suffixes))


def changed(old: Mapping[str, Kept], new: Mapping[str, Kept]) -> Iterator[tuple[str, Kept]]:
    """Yield the clients whose state is another one, with the new one."""
    return ((client, kept) for client, kept in new.items() if old.get(client) != kept)
