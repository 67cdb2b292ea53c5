"""From a study's file to the runs it asks for: check everything before anything is trained.

A file names what differs, and once what is shared::

    title = "Target shift on MNIST"
    seeds = [0, 1, 2]
    methods = ["local", "fedavg"]

    [primary]                      # declared before anything is run
    member = ["local"]

    [settings]
    data = "mnist"
    rounds = 20

    [entries."fedavg, no BatchNorm"]
    method = "fedavg"
    model = "cnn"

    [search]
    lr = [0.03, 0.1, 0.3]
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from duotone.config import (
    NAME_OF_TABLE,
    RunConfig,
    Settings,
    flat,
    merged,
    placed,
    read_toml,
    validated,
)
from duotone.data import lasting_name, load_dataset
from duotone.data.dataset import Dataset
from duotone.errors import ConfigError, DuotoneError, RunError
from duotone.registry import did_you_mean
from duotone.runs import Plan, RunFolder, plan_run, with_tables
from duotone.runs.pooled import choose_reference, differing, identity
from duotone.runs.result_files import read_json
from duotone.runs.result_tables import choice_text
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
    """Values to try for every entry, as with --set: the best on validation samples is used."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One combination of searched values for an entry.

    Attributes:
        searched: The values; empty where nothing is searched.
        values: All settings given, without the seed.
        config: All settings resolved, with the study's first seed.
    """

    searched: Mapping[str, Any]
    values: Mapping[str, Any]
    config: RunConfig


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """One row of a study.

    Attributes:
        name: What tables call it.
        slug: The name of its folder.
        choices: What is tried with the first seed; a single one where nothing is searched.
    """

    name: str
    slug: str
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """A study that can start.

    Attributes:
        config: What the file says.
        out: The study's folder.
        reference: The entry the others are compared with.
        entries: What is run.
        datasets: Data sets read so far, by name: each is read once.
    """

    config: StudyConfig
    out: Path
    reference: str
    entries: tuple[StudyEntry, ...]
    datasets: dict[str, Dataset]

    def place(self, entry: StudyEntry, choice: Choice, seed: int) -> Path:
        """Return the folder of one run."""
        return self.out / entry.slug / _folder_of(choice.searched) / f"seed{seed}"

    def plan(self, choice: Choice, seed: int) -> Plan:
        """Return one run, ready to start."""
        return _planned({**choice.values, "seed": seed}, self.datasets)

    @property
    def total(self) -> int:
        """How many runs the study has, searching included."""
        return sum(len(entry.choices) + len(self.config.seeds) - 1 for entry in self.entries)


def plan_study(source: Mapping[str, Any] | str | Path, out: Path | None = None) -> StudyPlan:
    """Check a study as a whole: every entry is planned with the first seed.

    Args:
        source: The study as nested tables, or the path of its TOML file.
        out: The study's folder; by default ``runs/`` and the name of the file, or the title.

    Raises:
        ConfigError: Settings are wrong; the message has all problems of all entries.
        RunError: The folder holds runs made with other settings.
    """
    values = source if isinstance(source, Mapping) else read_toml(Path(source))
    config = validated(StudyConfig, values, owner="a study")
    problems = [*_mistakes(config), *_search_mistakes(config)]
    if problems:
        raise ConfigError(*problems)
    datasets: dict[str, Dataset] = {}
    entries = _planned_entries(config, datasets)
    problems = [*_unequal(entries), *_unsearchable(entries)]
    if problems:
        raise ConfigError(*problems)
    name = slug(config.title) if isinstance(source, Mapping) else Path(source).stem
    place = out or Path("runs") / (name or "study")
    reference = choose_reference([entry.name for entry in entries], config.reference)
    if any(reference in declared for declared in config.primary.values()):
        raise ConfigError(
            f"primary names {reference!r}, which the others are compared with; leave it out."
        )
    plan = StudyPlan(config, place, reference, entries, datasets)
    _refuse_other_runs(plan)
    return plan


def _planned_entries(config: StudyConfig, datasets: dict[str, Dataset]) -> tuple[StudyEntry, ...]:
    """Plan every choice of every entry; report the problems of all together."""
    given: dict[str, Mapping[str, Any]] = {name: {"method": name} for name in config.methods}
    given |= config.entries
    problems: dict[str, list[str]] = {}
    entries: list[StudyEntry] = []
    for name, own in given.items():
        choices: list[Choice] = []
        for searched in _combinations(config.search):
            values = merged(with_tables(config.settings), _tables_given(own))
            for key, value in searched.items():
                values = merged(values, placed(key, value))
            try:
                plan = _planned({**values, "seed": config.seeds[0]}, datasets)
            except DuotoneError as error:
                for line in map(str, error.args):
                    problems.setdefault(line, []).append(name)
            else:
                choices.append(Choice(searched, values, plan.config))
        entries.append(StudyEntry(name, slug(name), tuple(choices)))
    if problems:
        raise ConfigError(
            *(_of_entries(line, names, len(entries)) for line, names in problems.items())
        )
    return tuple(entries)


def slug(name: str) -> str:
    """Return a name for a folder.

    >>> slug("FedAvg, no BatchNorm")
    'fedavg-no-batchnorm'
    """
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")


def _folder_of(searched: Mapping[str, Any]) -> str:
    return re.sub(r"[^\w.,=+-]+", "-", choice_text(searched))


def _tables_given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry's settings with tables for names; a table it lacks stays away."""
    return {key: value for key, value in with_tables(values).items() if key in values}


def _planned(values: Mapping[str, Any], datasets: dict[str, Dataset]) -> Plan:
    """Plan a run on a data set that may have been read already."""
    name = values.get("data", RunConfig.model_fields["data"].default)
    try:
        if name not in datasets:
            datasets[name] = load_dataset(name)
    except (DuotoneError, TypeError):
        return plan_run(values)  # which says so, after all that is wrong with the settings
    plan = plan_run(values, data=datasets[name])
    return replace(plan, config=plan.config.model_copy(update={"data": lasting_name(name)}))


def _mistakes(config: StudyConfig) -> Iterator[str]:
    """Yield what is wrong with the study itself."""
    names = [*config.methods, *config.entries]
    if not names:
        yield "The study has no entries: name methods = […], or add tables [entries.NAME]."
    for what, given in (("entry", names), ("seed", list(map(str, config.seeds)))):
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


def _combinations(search: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every combination of searched values; a single empty one without a search."""
    lists = dict(flat(search))
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]


def _of_entries(line: str, names: Sequence[str], entries: int) -> str:
    """Say whose problem it is, unless everybody has it."""
    different = dict.fromkeys(names)
    if len(different) == entries:
        return line
    return f"{', '.join(different)}: {line}"


def _unequal(entries: Sequence[StudyEntry]) -> Iterator[str]:
    first = entries[0]
    for entry in entries[1:]:
        for what in SAME_FOR_ALL:
            a, b = (getattr(item.choices[0].config, what) for item in (first, entry))
            if a != b:
                yield (
                    f"{first.name!r} and {entry.name!r} differ in {what} ({a} against {b}), so "
                    "their scores could not be compared; make it a study of its own."
                )


def _unsearchable(entries: Sequence[StudyEntry]) -> Iterator[str]:
    choice = entries[0].choices[0]
    if choice.searched and choice.config.partition.get("validation") == 0:
        yield (
            "A search needs validation samples, but partition.validation is 0; raise it, or leave "
            "[search] out."
        )


def _refuse_other_runs(plan: StudyPlan) -> None:
    """Runs that are there already must be those of this study."""
    if (plan.out / "run.json").exists():
        raise RunError(f"{plan.out} is the folder of a run, not of a study; choose another --out.")
    _refuse_other_primary(plan)
    for entry in plan.entries:
        for choice in entry.choices:
            planned = identity(choice.config)
            for seed in plan.config.seeds:
                path = plan.place(entry, choice, seed)
                if (path / "run.json").exists():
                    _refuse_other_run(path, planned, seed)


def _refuse_other_primary(plan: StudyPlan) -> None:
    """What is primary is declared before the first result is known."""
    path = plan.out / "study.json"
    if not path.exists():
        return
    results = read_json(path)
    was, now = results.get("primary", {}), plan.config.primary
    if was != now and any(entry["runs"] for entry in results["entries"]):
        raise RunError(
            f"{plan.out} has results, and declared primary = {was or 'nothing'} before them; the "
            f"study now says {dict(now) or 'nothing'}. Restore it, or choose another --out."
        )


def _refuse_other_run(path: Path, planned: Mapping[str, Any], seed: int) -> None:
    config = RunFolder.open(path).config()
    was, now = {**identity(config), "seed": config.seed}, {**planned, "seed": seed}
    changed = differing([was, now])
    if changed:
        before, after = (
            ", ".join(f"{name} = {found.get(name, 'nothing')}" for name in changed)
            for found in (was, now)
        )
        raise RunError(
            f"{path} was made with {before}, but the study now says {after}; restore the setting, "
            "or choose another --out."
        )
