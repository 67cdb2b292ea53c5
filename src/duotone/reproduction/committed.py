"""Read our numbers from committed files: studies of the list, and earlier ones. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import duotone
from duotone.errors import ConfigError
from duotone.files import read_json_file
from duotone.measures.statistics import estimate
from duotone.reproduction.rows import OURS, Earlier, Result, Row
from duotone.reproduction.verdicts import Value, Verdict, verdict

REPRODUCED = "reproduced"
"""The folder of ``docs/results`` that holds the studies of the list."""


def repository() -> Path | None:
    """Return the checkout this package is in, with its committed results; ``None`` elsewhere."""
    found = Path(duotone.__file__).resolve().parents[2]
    return found if (found / "docs" / "results").is_dir() else None


_FRESH: ContextVar[Mapping[str, dict[str, Any]] | None] = ContextVar("fresh", default=None)


@contextmanager
def with_fresh(files: Mapping[str, dict[str, Any]]) -> Iterator[None]:
    """Take numbers from what was just found, in place of the committed files of these names."""
    token = _FRESH.set(files)
    try:
        yield
    finally:
        _FRESH.reset(token)


def results_file(name: str) -> dict[str, Any] | None:
    """Return a file of results; ``None`` if it is not there."""
    return (_FRESH.get() or {}).get(name) or _committed(name)


@cache
def _committed(name: str) -> dict[str, Any] | None:
    root = repository()
    path = None if root is None else root / "docs" / "results" / name
    if path is None or not path.exists():
        return None
    content = read_json_file(path)
    if not isinstance(content, dict):
        raise ConfigError(f"{name} holds no table of results.")
    return content


class Numbers:
    """The numbers of one entry of a file."""

    def __init__(self, file: str, content: Mapping[str, Any], entry: Mapping[str, Any]) -> None:
        self.file = file
        self.settings: dict[str, Any] = {
            **content.get("settings", {}),
            **entry.get("settings", {}),
        }
        self.seeds: list[int] = list(entry["seeds"])
        self._values: Mapping[str, list[float | None]] = entry.get("values", {})
        self._scores: Mapping[str, Mapping[str, Any]] = entry.get("scores", {})

    @property
    def setting(self) -> dict[str, Any]:
        """What must be the same in two files, so that a difference is one of the methods."""
        names = ("data", "style", "rounds", "scale", "partition.")
        return {name: own for name, own in self.settings.items() if name.startswith(names)}

    @property
    def scale(self) -> float:
        """The share of its own rounds that was made."""
        return float(self.settings.get("scale", 1))

    def by_seed(self, score: str) -> dict[int, float]:
        """Return a score seed by seed; empty where only its mean was kept."""
        found = self._values.get(score, [])
        return {s: v for s, v in zip(self.seeds, found, strict=False) if v is not None}

    def value(self, score: str) -> Value | None:
        """Return a score over all seeds."""
        found = list(self.by_seed(score).values())
        if found:
            mean = estimate(found)
            return Value(mean.mean, mean.low, mean.high, len(found), self.file)
        if score.startswith("all."):
            return self._of_everybody(score.removeprefix("all."))
        kept = self._scores.get(score)
        if kept is None or kept["mean"] is None:
            return None
        return Value(kept["mean"], kept["low"], kept["high"], kept["n"], self.file)

    def _of_everybody(self, metric: str) -> Value | None:
        """Return the mean over members and newcomers; its interval is wide enough for both."""
        parts = [self._scores.get(f"{role}.{metric}") for role in ("member", "newcomer")]
        known = [part for part in parts if part is not None]
        total = sum(part["clients"] for part in known)
        if len(known) < 2:
            return None
        mean, low, high = (
            None
            if any(part[end] is None for part in known)
            else sum(part[end] * part["clients"] for part in known) / total
            for end in ("mean", "low", "high")
        )
        assert mean is not None
        return Value(mean, low, high, known[0]["n"], self.file)

    def share(self, row: Row) -> float | None:
        """Return rounds × local epochs as a share of what the paper prints for a row."""
        rounds, epochs = row.printed.rounds, row.printed.epochs
        if isinstance(rounds, str) or isinstance(epochs, str):
            return None
        own = self.settings
        if "rounds" not in own or "method.epochs" not in own:
            return None
        made = max(1, round(own["rounds"] * self.scale))
        return float(made * own["method.epochs"] / (rounds * epochs))


def numbers_of(row: Row, *labels: str, scores: Sequence[str] = ()) -> list[Numbers] | None:
    """Return the numbers that stand for some of the paper's names, all with the same settings.

    They are those of the row's own study if it has all of them, else those of an earlier file, or
    of several earlier files with the same data, clients and rounds. With the score that is asked of
    each, what does not know it is passed over: a script may know what the row's study does not. The
    method made to work is shown as far as it was trained: a shortened study comes last.
    """
    own = [] if row.study is None else [_entry(own_file(row), label) for label in labels]
    sources = [own, *([_earlier(earlier, label) for label in labels] for earlier in row.earlier)]
    if OURS in labels and any(numbers and numbers.scale < 1 for numbers in own):
        sources = [*sources[1:], own]
    for source in sources:
        found = [numbers for numbers in source if numbers is not None]
        asked = zip(found, scores, strict=False)
        if source and len(found) == len(source) and all(own.value(score) for own, score in asked):
            return found
    mixed = [_first(row, label) for label in labels]
    found = [numbers for numbers in mixed if numbers is not None]
    alike = len({str(numbers.setting) for numbers in found}) == 1
    return found if len(found) == len(labels) and alike else None


def _first(row: Row, label: str) -> Numbers | None:
    found = (_earlier(earlier, label) for earlier in row.earlier)
    return next((numbers for numbers in found if numbers is not None), None)


def own_file(row: Row) -> str:
    """Return the file that holds a row's own study."""
    return f"{REPRODUCED}/{row.study}.json"


def _earlier(earlier: Earlier, label: str) -> Numbers | None:
    if not earlier.paths:
        return _entry(earlier.file, earlier.entries.get(label, ""))
    content = results_file(earlier.file)
    if content is None or label != earlier.label:
        return None
    values = {score: values_at(content, path) for score, path in earlier.paths.items()}
    seeds = list(range(max(map(len, values.values()))))
    return Numbers(earlier.file, {}, {"seeds": seeds, "values": values})


def values_at(content: Any, path: str) -> list[float]:
    """Return the numbers at a path, one for each seed; what * stands for is averaged.

    >>> values_at({"seed1": {"a": 1.0, "b": 3.0}, "seed2": {"a": 5.0}}, "seed* / *")
    [2.0, 5.0]
    """
    key, _, rest = path.partition(" / ")
    found = [value for name, value in content.items() if fnmatchcase(name, key)]
    below = [values_at(value, rest) if rest else [float(value)] for value in found]
    if key == "seed*":
        return [value for values in below for value in values]
    return [sum(values) / len(values) for values in zip(*below, strict=True)]


def _entry(file: str, name: str) -> Numbers | None:
    content = results_file(file)
    if content is None:
        return None
    for entry in content["entries"]:
        if entry["name"] == name:
            return Numbers(file, content, entry) if entry["seeds"] else None
    return None


def value_of(row: Row, result: Result, label: str | None = None) -> Value | None:
    """Return our number for a result: of its own entry, or of another in its place."""
    label = label or result.label
    other = result.minus_score or result.score
    found = numbers_of(row, label, result.minus or label, scores=(result.score, other))
    if found is None:
        return None
    numbers, beside = found
    if result.minus is None and result.minus_score is None:
        return _with_share(numbers.value(result.score), numbers, row)
    return _with_share(_difference(numbers, result.score, beside, other), numbers, row)


def _with_share(value: Value | None, numbers: Numbers, row: Row) -> Value | None:
    if value is None:
        return None
    return replace(value, share=numbers.share(row), scale=numbers.scale)


def _difference(a: Numbers, score: str, b: Numbers, other: str) -> Value | None:
    """Return a difference: seed by seed where seeds are known, else as wide as both intervals."""
    ours, theirs = a.by_seed(score), b.by_seed(other)
    pairs = [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    if pairs and a.file == b.file:
        found = estimate(pairs)
        return Value(found.mean, found.low, found.high, len(pairs), a.file)
    one, two = a.value(score), b.value(other)
    if one is None or two is None:
        return None
    ends = (one.low, one.high, two.low, two.high)
    low = high = None
    if None not in ends:
        assert one.low is not None and one.high is not None  # noqa: PT018
        assert two.low is not None and two.high is not None  # noqa: PT018
        low, high = one.low - two.high, one.high - two.low
    return Value(one.mean - two.mean, low, high, min(one.seeds, two.seeds), a.file)


def result_verdict(row: Row, result: Result) -> Verdict:
    """Return the verdict on one number of a row."""
    value = value_of(row, result)
    if value is None:
        return "not run yet"
    published = result.published
    if row.not_comparable:
        # On other data levels say nothing; which of two is better on the same data still does.
        if result.nothing is None:
            return "not comparable"
        published = None
    factor = 100 if result.percent else 1
    return verdict(
        scaled(value, factor),
        published,
        direction=result.direction,
        nothing=None if result.nothing is None else factor * result.nothing,
    )


def scaled(value: Value, factor: float) -> Value:
    """Return a value in another unit."""
    low, high = (None if end is None else end * factor for end in (value.low, value.high))
    return replace(value, mean=value.mean * factor, low=low, high=high)


def row_verdict(row: Row) -> Verdict:
    """Return the verdict on a row: that of the first number it is judged by."""
    if not row.judged:
        return "not comparable" if row.not_comparable else "not run yet"
    return result_verdict(row, row.judged[0])
