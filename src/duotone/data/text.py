"""Text by who wrote or said it: guess the next character from those before it.

A file of roles is JSON, packed or not: a list of ``{"role": …, "play": …, "speeches": [text, …]}``,
one entry for each client. Who speaks is the client and the play its domain; without plays there are
none. This is how the benchmark LEAF divides Shakespeare, with fewer plays.

The first four fifths of what a client says are for training and the rest for the test. A sample is
one character and the :data:`WINDOW` before it; one character in :data:`STRIDE` is taken, so that no
label is trained on or tested twice. What precedes the first test characters are the last training
characters: at that time they have been said.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from duotone.data.canonical import find_file, search_folders, user_cache
from duotone.data.dataset import Array, Dataset
from duotone.data.limits import check_regular, content_of
from duotone.errors import DataError

SHAKESPEARE = "shakespeare_roles.json.gz"
ORIGIN = "Eight plays of Shakespeare by role (public domain), from NLTK's corpora."
WINDOW = 80
"""Characters that are read before one is guessed, as in LEAF."""
STRIDE = 10
"""One character in so many is guessed."""
TRAINING = 0.8
SUFFIXES = (".json", ".json.gz")
NAMES = {" ": "␣", "\n": "↵", "\t": "⇥"}
"""What characters that cannot be seen are called as classes."""


class Speaker(NamedTuple):
    """All that one client says."""

    client: str
    domain: str
    text: str


def shakespeare() -> Dataset:
    """Load the roles of Shakespeare's plays from ``$DUOTONE_DATA`` or the user cache.

    Raises:
        DataError: The file is nowhere, or damaged.
    """
    path = find_file(SHAKESPEARE)
    if path is None:
        folders = " or ".join(map(str, search_folders()))
        raise DataError(
            f"The data set 'shakespeare' needs {SHAKESPEARE}, which is not in {folders}; put it "
            f"into {user_cache()} or set DUOTONE_DATA to its folder."
        )
    return text_dataset("shakespeare", read_roles(path), origin=ORIGIN)


def is_roles_file(path: Path) -> bool:
    """Say whether a file is called as files of roles are."""
    return path.name.lower().endswith(SUFFIXES)


def read_roles(path: Path) -> list[Speaker]:
    """Read a file of roles. One whose name occurs in two plays has the play behind it.

    Raises:
        DataError: It is no such file; the message says what is wrong.
    """
    check_regular(path)
    try:
        content = json.loads(content_of(path))
        found = [
            (str(entry["role"]), str(entry.get("play", "")), _spoken(entry["speeches"]))
            for entry in content
        ]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}: this is no file of roles ({type(error).__name__}: {error}); it must be a "
            'list of {"role": …, "play": …, "speeches": [text, …]}.'
        ) from error
    except ValueError as error:  # no JSON, or no UTF-8
        raise DataError(f"{path}: it cannot be read ({' '.join(str(error).split())}).") from error
    count = Counter(role for role, _, _ in found)
    roles = [
        Speaker(role if count[role] == 1 or not play else f"{role} ({play})", play, text)
        for role, play, text in found
    ]
    doubled = [name for name, times in Counter(role.client for role in roles).items() if times > 1]
    if doubled:
        raise DataError(f"{path}: the role {doubled[0]!r} is there twice; join its speeches.")
    return roles


def _spoken(speeches: Any) -> str:
    if not isinstance(speeches, list) or not all(isinstance(one, str) for one in speeches):
        raise TypeError("speeches are a list of texts")
    return "\n".join(speeches)


def text_dataset(name: str, roles: Sequence[Speaker], *, origin: str = "") -> Dataset:
    """Make a data set of what some clients say.

    Classes are the characters that are labels in training, which are the first of the alphabet;
    nobody could learn another. What else occurs in training texts follows there, to be read.

    Raises:
        DataError: There is too little text.
    """
    if not roles:
        raise DataError(f"{name!r} has no text: its list of roles is empty.")
    places = [_places(role.text) for role in roles]
    pairs = list(zip(roles, places, strict=True))
    labels = sorted({role.text[place] for role, own in pairs for place in own[0]})
    read = {character for role in roles for character in role.text[: _end(role.text)]}
    alphabet = "".join([*labels, *sorted(read.difference(labels))])
    if len(labels) < 2:
        raise DataError(
            f"{name!r} has too little text to learn a character from: one in {STRIDE} is a sample."
        )
    number = {character: place for place, character in enumerate(alphabet, start=1)}
    parts: list[list[Array]] = []
    for split in (0, 1):
        x, y, who = [], [], []
        for role, own in pairs:
            codes = numbered_text(role.text, number)
            is_class = np.isin(codes[own[split]], np.arange(1, len(labels) + 1))
            kept = own[split][is_class]
            padded = np.concatenate([np.zeros(WINDOW, np.uint16), codes])
            x.append(padded[kept[:, None] + np.arange(WINDOW)])
            y.append(codes[kept].astype(np.int64) - 1)
            who += [(role.client, role.domain)] * len(kept)
        client, domain = np.array(who, str).reshape(-1, 2).T
        parts.append([np.concatenate(x), np.concatenate(y), client, domain])
    train, test = parts
    return Dataset.from_arrays(
        name,
        *train[:2],
        *test[:2],
        client=(train[2], test[2]),
        domain=(train[3], test[3]) if any(role.domain for role in roles) else None,
        class_names=[NAMES.get(character, character) for character in labels],
        alphabet=alphabet,
        origin=origin,
    )


def numbered_text(text: str, number: dict[str, int]) -> Array:
    """Return the characters of a text by number; 0 for those without one."""
    return np.array([number.get(character, 0) for character in text], np.uint16)


def windows_of(texts: Sequence[str], alphabet: str, length: int) -> Array:
    """Return the last characters of some texts by number, as a network is given them."""
    number = {character: place for place, character in enumerate(alphabet, start=1)}
    rows = np.zeros((len(texts), length), np.uint16)
    for row, text in zip(rows, texts, strict=True):
        codes = numbered_text(text[-length:], number)
        row[length - len(codes) :] = codes
    return rows


def text_of(codes: Sequence[int] | Array, alphabet: str) -> str:
    """Return the text of some numbers; what is before its beginning is left out.

    >>> text_of([0, 0, 2, 1], "ab")
    'ba'
    """
    known = [int(code) for code in codes if 0 < int(code) <= len(alphabet)]
    return "".join(alphabet[code - 1] for code in known)


def _places(text: str) -> tuple[Array, Array]:
    """Return which characters of a text are labels, in training and in the test."""
    places = np.arange(STRIDE - 1, len(text), STRIDE)
    return places[places < _end(text)], places[places >= _end(text)]


def _end(text: str) -> int:
    """Return how many characters of a text are for training."""
    return round(TRAINING * len(text))
