"""The ledger: what every client sent, whatever for, and wherever it was computed.

Whoever asks clients writes down what came back, so all backends keep the same ledger. It counts the
values themselves, without protocol and encryption.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from duotone.federation.levels import Level, level_of
from duotone.types import ClientState

COLUMNS = ("round", "client", "what", "level", "bytes", "names")
_NUMBER = 8  # bytes of a single number
_MOST_NAMES = 5_000  # of one kind: a hostile client may send any number of them
_LONGEST_NAME = 200
_UNREADABLE = "unreadable"


@dataclass(slots=True)
class Entry:
    """What a client sent of one kind in one round.

    Attributes:
        times: How often.
        bytes: All of it together.
    """

    times: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Ledger:
    """What clients sent.

    Attributes:
        entries: By round, client and kind.
        levels: The level of each kind.
        names: The names of the values of each kind.
        round: The round of the last question that named one.
    """

    entries: dict[tuple[int, str, str], Entry] = field(default_factory=dict)
    levels: dict[str, Level] = field(default_factory=dict)
    names: dict[str, dict[str, None]] = field(default_factory=dict)
    round: int = 0
    _told: set[str] = field(default_factory=set)

    def enter(self, job: object, client: str, answer: Any) -> None:
        """Write down an answer of a client to a job."""
        info = getattr(job, "info", None) or getattr(getattr(job, "serving", None), "info", None)
        self.round = getattr(info, "round", self.round)
        what = str(getattr(job, "sends", type(job).__name__))
        self.levels[what] = level_of(job)
        entry = self.entries.setdefault((self.round, client, what), Entry())
        entry.times += 1
        known = self.names.setdefault(what, {})
        try:
            sizes = list(named_sizes(answer))
        except Exception:  # a strange object may raise anything when it is read
            sizes = [(_UNREADABLE, 0)]
        entry.bytes += sum(size for _, size in sizes)
        for name, _ in sizes:
            if len(known) < _MOST_NAMES:
                known.setdefault((name or "values")[:_LONGEST_NAME])

    def lines(self, round: int) -> str:
        """Return the lines of ``ledger.csv`` for a round; names stand where a kind is first met."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for (number, client, what), entry in sorted(self.entries.items()):
            if number == round:
                names = "" if what in self._told else " ".join(self.names[what])
                self._told.add(what)
                writer.writerow((number, client, what, self.levels[what], entry.bytes, names))
        return text.getvalue()

    def remember(self, lines: Iterable[Mapping[str, str]]) -> None:
        """Take up what an earlier part of the run wrote down."""
        for line in lines:
            what = line["what"]
            key = (int(line["round"]), line["client"], what)
            self.entries[key] = Entry(1, int(line["bytes"]))
            self.levels[what] = line["level"]  # type: ignore[assignment]
            self.names.setdefault(what, {}).update(dict.fromkeys(line["names"].split()))
            self._told.add(what)

    def table(self) -> dict[str, Any]:
        """Return the whole as a table: each client's rounds and bytes of every kind."""
        clients: dict[str, dict[str, dict[str, int]]] = {}
        for (_, client, what), entry in sorted(self.entries.items()):
            found = clients.setdefault(client, {}).setdefault(what, {"rounds": 0, "bytes": 0})
            found["rounds"] += 1
            found["bytes"] += entry.bytes
        kinds = {
            what: {"level": self.levels[what], "names": sorted(names)}
            for what, names in sorted(self.names.items())
        }
        return {"kinds": kinds, "clients": clients}


def named_sizes(value: Any, name: str = "") -> Iterator[tuple[str, int]]:
    """Yield the names of everything in an answer, and how many bytes it takes.

    A client's state is no part of an answer: it stays where it is.
    """
    from torch import Tensor

    if isinstance(value, ClientState) or value is None:
        return
    if isinstance(value, Tensor):
        yield name, value.numel() * value.element_size()
    elif isinstance(value, np.ndarray):
        yield name, value.nbytes
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from named_sizes(inner, f"{name}/{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from named_sizes(inner, name)
    elif is_dataclass(value):
        for each in fields(value):
            if each.name != "client":
                inner = f"{name}/{each.name}" if name else each.name
                yield from named_sizes(getattr(value, each.name), inner)
    elif isinstance(value, str):
        yield name, len(value.encode())
    else:
        yield name, _NUMBER
