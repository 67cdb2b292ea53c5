"""Columns of text, one entry per client, in a few flat arrays.

A million Python strings and tuples of them weigh more than the samples of a million clients. Here
an entry is made when somebody asks for it. A column equals any sequence with the same entries.
"""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Positions: TypeAlias = "NDArray[np.int64] | range"
W = TypeVar("W", bound=str)


class Column(Sequence[W], Generic[W]):
    """Text, one entry per client."""

    @abstractmethod
    def at(self, position: int) -> W:
        """Return one entry, counted from the beginning."""

    @overload
    def __getitem__(self, position: int) -> W: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[W, ...]: ...
    def __getitem__(self, position: int | slice) -> W | tuple[W, ...]:
        places = range(len(self))[position]  # raises beyond the ends
        return tuple(map(self.at, places)) if isinstance(places, range) else self.at(places)

    def __iter__(self) -> Iterator[W]:
        return map(self.at, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return self is other or all(map(str.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(self[:]) if len(self) <= 10 else f"({', '.join(map(repr, self[:3]))}, …)"


class Words(Column[W]):
    """Entries of which most occur often, such as roles and groups.

    Args:
        codes: Which word each entry is.
        words: The words, each once.
    """

    def __init__(self, codes: NDArray[Any], words: Sequence[W]) -> None:
        self.codes = codes.astype(np.min_scalar_type(max(len(words) - 1, 0)), copy=False)
        self.words = tuple(words)

    @classmethod
    def of(cls, entries: Sequence[W]) -> Words[W]:
        """Pack entries."""
        if isinstance(entries, Words):
            return entries
        numbers = {word: number for number, word in enumerate(dict.fromkeys(entries))}
        codes = np.fromiter(map(numbers.__getitem__, entries), np.int64, len(entries))
        return cls(codes, [*numbers])

    def at(self, position: int) -> W:
        """Return one entry."""
        return self.words[int(self.codes[position])]

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[W]:
        return map(self.words.__getitem__, self.codes.tolist())

    def __contains__(self, word: object) -> bool:
        return bool(self.is_word(word).any())

    def is_word(self, word: object) -> NDArray[np.bool_]:
        """Return which entries are a word."""
        found: NDArray[np.bool_] = self.codes == (
            self.words.index(word) if word in self.words else -1
        )
        return found

    def distinct(self) -> list[W]:
        """Return the words that occur, in the order of their first entries."""
        used, first = np.unique(self.codes, return_index=True)
        return [self.words[code] for code in used[np.argsort(first)]]


class Names(Column[str]):
    """The names of the clients, each once."""

    @abstractmethod
    def position(self, name: str) -> int:
        """Return which entry a name is.

        Raises:
            KeyError: Nobody is called so.
        """

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str) and self.position(name) >= 0
        except KeyError:
            return False

    def chosen(self, positions: NDArray[np.int64]) -> Names:
        """Return the names at some ascending positions."""
        if len(positions) == len(self):
            return self
        places: Positions = positions
        if len(positions) == 0:
            places = range(0)
        elif positions[-1] - positions[0] + 1 == len(positions):
            places = range(int(positions[0]), int(positions[-1]) + 1)
        return Chosen(self, places)


class Numbered(Names):
    """The names "0", "1", …: nothing has to be remembered of them.

    Args:
        number: How many there are.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def at(self, position: int) -> str:
        """Return one name."""
        return str(position)

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[str]:
        return map(str, range(self._number))

    def position(self, name: str) -> int:
        """Return which entry a name is."""
        if name.isdecimal() and len(name) < 20:
            position = int(name)
            if position < self._number and str(position) == name:
                return position
        raise KeyError(name)


class Listed(Names):
    """Any names, as one long text.

    Args:
        text: All names in UTF-8, one after the other.
        ends: Where each begins; one entry more than names.
    """

    def __init__(self, text: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self.text = text
        self.ends = ends

    @classmethod
    def of(cls, names: Sequence[str]) -> Listed:
        """Pack names."""
        encoded = [*map(_encoded, names)]
        ends = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=ends[1:])
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ends)

    def at(self, position: int) -> str:
        """Return one name."""
        begin, end = self.ends[position], self.ends[position + 1]
        return self.text[begin:end].tobytes().decode("utf-8", "surrogatepass")

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __iter__(self) -> Iterator[str]:
        text = self.text.tobytes()
        pieces = (text[begin:end] for begin, end in pairwise(self.ends.tolist()))
        return (piece.decode("utf-8", "surrogatepass") for piece in pieces)

    @cached_property
    def _by_sum(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """The checksums of all names, ascending, and whose they are.

        A dictionary would be quicker to ask, and weigh a hundred bytes per name.
        """
        sums = np.fromiter(map(_checksum, self), np.uint32, len(self))
        order = np.argsort(sums, kind="stable")
        return sums[order], order

    def _with_sum(self, wanted: np.uint32) -> NDArray[np.int64]:
        sums, order = self._by_sum
        begin, end = np.searchsorted(sums, wanted), np.searchsorted(sums, wanted, "right")
        return order[begin:end]

    def position(self, name: str) -> int:
        """Return which entry a name is."""
        for position in self._with_sum(np.uint32(_checksum(name))).tolist():
            if self.at(position) == name:
                return int(position)
        raise KeyError(name)

    def has_twins(self) -> bool:
        """Say whether two have the same name."""
        sums, _ = self._by_sum
        for shared in np.unique(sums[1:][sums[1:] == sums[:-1]]):
            alike = [self.at(position) for position in self._with_sum(shared).tolist()]
            if len(set(alike)) < len(alike):
                return True
        return False


def _encoded(name: str) -> bytes:
    # A name from a broken file may hold half a character, which still has to come back.
    return name.encode("utf-8", "surrogatepass")


def _checksum(name: str) -> int:
    return zlib.crc32(_encoded(name))


class Chosen(Names):
    """Some of the names, in their order.

    Args:
        names: All names.
        positions: Which of them, ascending.
    """

    def __init__(self, names: Names, positions: Positions) -> None:
        self._names = names
        self._positions = positions

    def at(self, position: int) -> str:
        """Return one name."""
        return self._names.at(int(self._positions[position]))

    def __len__(self) -> int:
        return len(self._positions)

    def position(self, name: str) -> int:
        """Return which entry a name is."""
        overall = self._names.position(name)
        place = (
            overall - self._positions.start
            if isinstance(self._positions, range)
            else int(np.searchsorted(self._positions, overall))
        )
        if 0 <= place < len(self) and self._positions[place] == overall:
            return place
        raise KeyError(name)


def names_of(names: Sequence[str]) -> Names:
    """Pack names; those that are names already, and numbers, take no memory."""
    if isinstance(names, Names):
        return names
    if all(map(str.__eq__, names, map(str, range(len(names))))):
        return Numbered(len(names))
    return Listed.of(names)
