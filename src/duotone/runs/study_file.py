"""What the file of a study says, and what may be wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from duotone.config import NAME_OF_TABLE, Settings, flat
from duotone.registry import did_you_mean
from duotone.types import Role

SAME_FOR_ALL = ("data", "style", "partition")
"""What entries must have in common, so that a difference in scores is one of the methods."""


class StudyConfig(Settings):
    """What a study runs: entries × seeds."""

    title: str = ""
    """What the study is about, in a line."""
    seeds: list[Annotated[int, Field(ge=0)]] = Field([0, 1, 2], min_length=1)
    """The seeds every entry is run with."""
    methods: list[str] = Field(default_factory=list)
    """Methods to run, one entry each, called by the method's name."""
    reference: str | None = None
    """The entry the others are compared with; by default fedavg if there, else the first."""
    primary: dict[Role, list[str]] = Field(default_factory=dict)
    """Comparisons with the reference that get a verdict: entries, for member and newcomer."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What all runs share: any setting of a run."""
    entries: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Further entries by name: the settings in which they differ from the shared ones."""
    search: dict[str, Any] = Field(default_factory=dict)
    """Values to try for every entry, as with --set; validation samples choose."""
    search_seeds: list[Annotated[int, Field(ge=0)]] = Field(default_factory=list)
    """The seeds to search with; by default the first two of the study."""

    @property
    def searched_with(self) -> list[int]:
        """The seeds that a search tries everything with."""
        return self.search_seeds or self.seeds[:2]


def mistakes(config: StudyConfig) -> list[str]:
    """Return what is wrong with a study, apart from the settings of its runs."""
    return [*_entry_mistakes(config), *_search_mistakes(config)]


def _entry_mistakes(config: StudyConfig) -> Iterator[str]:
    """Yield what is wrong with the study itself."""
    names = [*config.methods, *config.entries]
    if not names:
        yield "The study has no entries: name methods = […], or add tables [entries.NAME]."
    for what, given in (
        ("entry", names),
        ("seed", list(map(str, config.seeds))),
        ("search seed", list(map(str, config.search_seeds))),
    ):
        twice = dict.fromkeys(item for item in given if given.count(item) > 1)
        if twice:
            yield f"The study has the {what} {', '.join(twice)} more than once; leave one."
    folders: dict[str, str] = {}
    for name in dict.fromkeys(names):
        other = folders.setdefault(slug(name), name)
        if not slug(name):
            yield f"The entry {name!r} needs a name with letters or digits: it becomes a folder."
        elif other != name:
            folder = slug(name)
            yield f"The entries {other!r} and {name!r} would share the folder {folder!r}; rename."
    if config.reference is not None and config.reference not in names:
        hint = did_you_mean(config.reference, names) or f" There are: {', '.join(names)}."
        yield f"reference = {config.reference!r} is not an entry of the study.{hint}"
    yield from _primary_mistakes(config, names)
    for where, table in [("settings", config.settings), *config.entries.items()]:
        if "seed" in table:
            yield f"{where!r} holds a seed; a study's seeds are given once, as seeds = […]."
        for key, word in NAME_OF_TABLE.items():
            if not isinstance(table.get(key, ""), str | Mapping):
                yield f"{key} = {table[key]!r} in {where!r} is wrong: it is a {word} or a table."


def _primary_mistakes(config: StudyConfig, names: Sequence[str]) -> Iterator[str]:
    known = [name for name in names if name in (*config.methods, *config.entries)]
    for role, declared in config.primary.items():
        for name in declared:
            if name not in known:
                yield (
                    f"primary.{role} names {name!r}, which is not an entry of the study."
                    f"{did_you_mean(name, known)}"
                )
        if len(set(declared)) < len(declared):
            yield f"primary.{role} names an entry twice; leave one."


def _search_mistakes(config: StudyConfig) -> Iterator[str]:
    for key, values in flat(config.search):
        if not isinstance(values, list) or not values:
            yield f"search.{key} = {values!r} is wrong: it should be a list of values to try."
        elif len({str(value) for value in values}) < len(values):
            yield f"search.{key} = {values!r} is wrong: a value is there twice; leave one."
        if key.split(".")[0] in (*SAME_FOR_ALL, "seed"):
            yield (
                f"search.{key} cannot be searched: all entries must have the same data, style, "
                "partition and seeds."
            )


def slug(name: str) -> str:
    """Return a name for a folder.

    >>> slug("FedAvg, no BatchNorm")
    'fedavg-no-batchnorm'
    """
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")
