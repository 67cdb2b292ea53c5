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
from typing import Any

from duotone.config import (
    RunConfig,
    flat,
    merged,
    placed,
    read_toml,
    validated,
)
from duotone.data import lasting_name, load_dataset
from duotone.data.dataset import Dataset
from duotone.errors import ConfigError, DuotoneError, RunError
from duotone.registry import check_file, own_code
from duotone.runs import Plan, RunFolder, plan_run, with_tables
from duotone.runs.pooled import choose_reference, differing, identity
from duotone.runs.result_files import read_json
from duotone.runs.result_tables import choice_text
from duotone.runs.study_file import SAME_FOR_ALL, StudyConfig, mistakes, slug


@dataclass(frozen=True, slots=True)
class Choice:
    """One combination of searched values for an entry.

    Attributes:
        searched: The values; empty where nothing is searched.
        values: All settings given, without the seed.
        config: All settings resolved, with the study's first seed.
        is_default: Whether these are the values that the entry has without a search.
    """

    searched: Mapping[str, Any]
    values: Mapping[str, Any]
    config: RunConfig
    is_default: bool = True


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """One row of a study.

    Attributes:
        name: What tables call it.
        slug: The name of its folder.
        choices: What is tried; a single one where nothing is searched.
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
        return sum(map(self.runs_of, self.entries))

    def runs_of(self, entry: StudyEntry) -> int:
        """Return how many runs an entry has, searching included."""
        if not entry.choices[0].searched:
            return len(self.config.seeds)
        searched_with = self.config.searched_with
        others = [seed for seed in self.config.seeds if seed not in searched_with]
        return len(entry.choices) * len(searched_with) + len(others)


def plan_study(source: Mapping[str, Any] | str | Path, out: Path | None = None) -> StudyPlan:
    """Check a study as a whole: every entry is planned with the first seed.

    Args:
        source: The study as nested tables, or the path of its TOML file.
        out: The study's folder; by default ``runs/`` and the name of the file, or the title.

    Raises:
        ConfigError: Settings are wrong; the message has all problems of all entries.
        RunError: The folder holds runs made with other settings.
    """
    if isinstance(source, Mapping):
        values = source
        own_code(values)
    else:
        values = read_toml(Path(source))
        check_file(values)
    config = validated(StudyConfig, values, owner="a study")
    problems = mistakes(config)
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
        default: RunConfig | None = None
        for searched in [*([{}] if config.search else []), *_combinations(config.search)]:
            values = merged(with_tables(config.settings), _tables_given(own))
            for key, value in searched.items():
                values = merged(values, placed(key, value))
            try:
                plan = _planned({**values, "seed": config.seeds[0]}, datasets)
            except DuotoneError as error:
                for line in map(str, error.args):
                    problems.setdefault(line, []).append(name)
            else:
                default = default or plan.config
                if searched or not config.search:
                    is_default = plan.config == default
                    choices.append(Choice(searched, values, plan.config, is_default))
        entries.append(StudyEntry(name, slug(name), tuple(choices)))
    if problems:
        raise ConfigError(
            *(_of_entries(line, names, len(entries)) for line, names in problems.items())
        )
    return tuple(entries)


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
