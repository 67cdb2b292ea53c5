"""Numbers that a page shows, and whether committed results have them.

A number with a decimal point or a percent sign is looked up in the JSON files of its page, rounded
as it is shown, as a share or in percent. In a row of a table that begins with the name of an entry,
only values of that entry count. A mean with its interval (``95.9 ± 2.8 (3.3)``, ``+1.8 (0.0 to
3.5)``) must be one and the same score. What is a setting, a level or a reference to a paper is no
result: see :data:`NO_RESULTS`.

A single number may be in a large file by chance, so not every mistake is found; one in a mean with
its interval nearly always is.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

_NUMBER = re.compile(r"(?<![\w.,-])[+−-]?(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(?![\w]|\.\d)(\s?%)?")
NO_RESULTS = (
    r"```.*?```",  # commands and settings
    r"`[^`]*`",
    r"<[^>]*>",
    r"\]\([^)]*\)",  # where a link leads
    r"(?i)\b(?:tables?|figs?\.|figures?|eqs?\.|chapters?|appendix|sections?|algorithms?)"
    r" ?[A-Z]?\.?\d+(?:\.\d+)*(?:(?:,| and|–| to) ?\d+(?:\.\d+)*)*",
    r"Python \d+\.\d+",
    r"§+ ?\d+(?:\.\d+)*",
    r"Dirichlet(?: of)? \d+(?:\.\d+)?",
    r"95 % (?:interval|confidence|bootstrap|point)s?",
    r"(?i)(?:learning )?rates? (?:of )?\{?\d+\.\d+(?:(?:,| and| or| to) \d+\.\d+)*\}?",
    r"\{[^}]*\}",  # a grid of settings
    r"[a-zα-ωA-Z_]+ ?= ?\d+(?:\.\d+)?(?: %)?(?:, \d+(?:\.\d+)?)*",  # lr = 0.1
    r"(?:[αβγδεηικλμτ]|lr|gamma|iota|kappa|alpha) (?:of )?"
    r"\d+(?:\.\d+)?(?:(?:,| and| or| to|,? then) \d+(?:\.\d+)?)*",
)


_SIGNED = r"[+−-]?\d+(?:\.\d+)?"
_WITH_HALF = re.compile(rf"({_SIGNED}) ± (\d+(?:\.\d+)?)(?: \((\d+(?:\.\d+)?)\))?")
_WITH_ENDS = re.compile(rf"(?:({_SIGNED}) \(|\(({_SIGNED}), )({_SIGNED}) to ({_SIGNED})\)")


@dataclass(frozen=True)
class Shown:
    """A number on a page, or a mean with what stands around it.

    Attributes:
        text: As it is shown.
        numbers: Its values without signs, each with its decimals: one, or mean, half of the
            interval and deviation, or mean and the ends of the interval.
        line: Where it stands.
        entry: What the row of a table begins with.
        around: What stands around a mean.
    """

    text: str
    numbers: tuple[tuple[float, int], ...]
    line: int
    entry: str | None
    around: Literal["", "half", "ends"] = ""

    def apart(self) -> list[Shown]:
        """Return the numbers with decimals one by one."""
        each = [(number, digits) for number, digits in self.numbers if digits]
        return [replace(self, numbers=(own,), around="") for own in each]

    @classmethod
    def of(
        cls,
        found: re.Match[str],
        texts: Iterable[str | None],
        line: int,
        entry: str | None,
        around: Literal["", "half", "ends"] = "",
    ) -> Shown:
        """Read what was found on a page."""
        plain = [text.lstrip("+−-").replace(",", "") for text in texts if text]
        numbers = tuple((float(text), len(text.partition(".")[2])) for text in plain)
        return cls(found.group().strip(), numbers, line, entry, around)


def shown_numbers(page: str) -> Iterator[Shown]:
    """Yield what a page shows as results."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    rest = page
    for number, pattern in enumerate(NO_RESULTS):
        rest = re.sub(pattern, blank, rest, flags=re.DOTALL if number < 3 else 0)
    heads: list[str] = []
    for line, (original, text) in enumerate(zip(page.splitlines(), rest.splitlines(), strict=True)):
        entry = None
        if original.startswith("|"):
            cells = original.split("|")
            heads = heads or cells
            entry = re.sub(r"[`*]", "", cells[1]).strip()
            text = _without_papers(text, heads, entry)
        else:
            heads = []
        for found in _WITH_HALF.finditer(text):
            yield Shown.of(found, found.groups(), line + 1, entry, "half")
        for found in _WITH_ENDS.finditer(text):
            yield Shown.of(found, found.groups(), line + 1, entry, "ends")
        single = _WITH_ENDS.sub(blank, _WITH_HALF.sub(blank, text))
        for found in _NUMBER.finditer(single):
            whole, part, percent = found.groups()
            if part or percent:
                yield Shown.of(found, [whole + (part or "")], line + 1, entry)


def _without_papers(row: str, heads: list[str], entry: str) -> str:
    """Blank what a row says about a paper: it is under such a head, or begins so."""
    if entry.startswith("paper"):
        return ""
    cells = row.split("|")
    printed = [head.strip(" *").startswith(("thesis", "paper")) for head in heads]
    pairs = zip(cells, printed, strict=False)
    return "|".join("" if is_printed else cell for cell, is_printed in pairs)


CLIENTS = 10
"""So many numbers in a row are single clients': a page shows their mean; any number is there."""


def leaves(content: Any) -> Iterator[float]:
    """Yield all numbers of a JSON document, and half the width of each interval in it."""
    if isinstance(content, Mapping):
        low, high = content.get("low"), content.get("high")
        if isinstance(low, float) and isinstance(high, float):
            yield (high - low) / 2
        for value in content.values():
            yield from leaves(value)
    elif isinstance(content, list):
        numbers = [value for value in content if isinstance(value, int | float)]
        if 1 < len(numbers) == len(content):
            yield math.fsum(numbers) / len(numbers)
        if len(numbers) < CLIENTS:
            for value in content:
                yield from leaves(value)
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield float(content)


def scores(content: Any) -> Iterator[tuple[float, float, float, float]]:
    """Yield mean, ends of the interval and deviation of all scores of a JSON document."""
    if isinstance(content, Mapping):
        mean = content.get("mean", content.get("difference"))
        low, high = content.get("low"), content.get("high")
        if isinstance(mean, float) and isinstance(low, float) and isinstance(high, float):
            yield mean, low, high, float(content.get("std") or 0)
    for value in content.values() if isinstance(content, Mapping) else content:
        if isinstance(value, Mapping | list):
            yield from scores(value)


class Values:
    """Numbers that may be shown."""

    def __init__(self, contents: Iterable[Any]) -> None:
        known = list(contents)
        self._sorted = sorted({abs(number) for own in known for number in leaves(own)})
        self._scores = [found for own in known for found in scores(own)]

    def has(self, shown: Shown) -> bool:
        """Say whether numbers round to what is shown, as they are or in percent."""
        if not shown.around:
            return any(self._has(*shown.numbers[0], scale) for scale in (1, 100))
        for mean, low, high, deviation in self._scores:
            own = (
                [mean, low, high] if shown.around == "ends" else [mean, (high - low) / 2, deviation]
            )
            for scale in (1, 100):
                if all(
                    abs(abs(value) * scale - number) <= _half(digits)
                    for value, (number, digits) in zip(own, shown.numbers, strict=False)
                ):
                    return True
        return False

    def _has(self, number: float, digits: int, scale: int) -> bool:
        place = bisect_left(self._sorted, (number - _half(digits)) / scale)
        most = (number + _half(digits)) / scale
        return place < len(self._sorted) and self._sorted[place] <= most


def _half(digits: int) -> float:
    return 0.5 * 10.0**-digits * (1 + 1e-6)


def by_entry(contents: Iterable[Any]) -> dict[str, Values]:
    """Return the values of each entry of some studies, its comparisons included."""
    found: dict[str, list[Any]] = {}
    for content in contents:
        if isinstance(content, Mapping):
            for own in content.get("entries", []):
                found.setdefault(own["name"], []).append(own)
            for own in content.get("comparisons", []):
                found.setdefault(own["entry"], []).append(own)
            for ranks in content.get("mean_ranks", {}).values():
                for name, rank in ranks.items():
                    found.setdefault(name, []).append([rank])
    return {name: Values(own) for name, own in found.items()}


def read(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def unsupported(page: str, contents: Iterable[Any], are_ranges: bool = False) -> list[Shown]:
    """Return the numbers of a page that no result has.

    Args:
        page: Its text.
        contents: The results that it may show.
        are_ranges: Whether its brackets hold the lowest and the highest seed, which are not scores;
            then their numbers are looked up one by one.
    """
    known = list(contents)
    every, entries = Values(known), by_entry(known)
    found = list(shown_numbers(page))
    if are_ranges:
        found = [each for own in found for each in (own.apart() if own.around == "ends" else [own])]
    return [own for own in found if not entries.get(own.entry or "", every).has(own)]


def heading_of(page: str, line: int) -> str:
    """Return the heading that a line stands under."""
    above = [text for text in page.splitlines()[:line] if text.startswith("#")]
    return above[-1].lstrip("# ") if above else ""
