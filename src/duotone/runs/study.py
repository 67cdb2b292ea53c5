"""Run a study: entries × seeds, one folder, continued where it stopped, compared at the end.

runs/mnist-shift/
  study.json              scores over seeds, the search, comparisons: everything for machines
  study.md                the same as tables
  fedavg/lr=0.1/seed0/    an ordinary run; ``lr=0.1`` only where values are searched
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import polars as pl

from duotone.errors import DuotoneError, TrainingError
from duotone.files import disk_errors
from duotone.measures.metrics import DIRECTIONS, Direction
from duotone.runs import Interrupted, Run, RunFolder, RunObserver, prepare, resume
from duotone.runs.execute import execute
from duotone.runs.result_tables import choice_text
from duotone.runs.stopping import stop_requests
from duotone.runs.study_plan import Choice, StudyEntry, StudyPlan, plan_study
from duotone.runs.study_results import Record, read_results, write_results
from duotone.runs.study_search import choose
from duotone.types import ROLES


@dataclass(frozen=True, slots=True)
class RunEnded:
    """One run of a study is done, or has failed.

    Attributes:
        entry: The entry's name.
        searched: The searched values it was made with.
        seed: Its seed.
        path: Its folder.
        error: Why it failed; ``None`` if it is finished.
        was_finished: Whether it was finished before the study was called.
        scores: Mean headline metric of members and newcomers.
        done: How many runs of the study are over.
        total: How many there are.
        seconds_left: About how long the others will take.
    """

    entry: str
    searched: Mapping[str, Any]
    seed: int
    path: Path
    error: str | None
    was_finished: bool
    scores: dict[str, float]
    done: int
    total: int
    seconds_left: float


@runtime_checkable
class StudyObserver(RunObserver, Protocol):
    """Watches a study and its runs."""

    def run_ended(self, ended: RunEnded) -> None:
        """Be told that a run of the study is over."""
        ...


@dataclass(frozen=True)
class Study:
    """A study on disk, as an object.

    Attributes:
        path: Its folder.
    """

    path: Path

    @property
    def results(self) -> dict[str, Any]:
        """The content of ``study.json``."""
        return read_results(self.path)

    @property
    def failed(self) -> dict[str, str]:
        """Why runs failed, by "entry, seed 0"."""
        return {
            f"{entry['name']}, seed {seed}": error
            for entry in self.results["entries"]
            for seed, error in entry["failed"].items()
        }


def run_study(
    source: Mapping[str, Any] | str | Path,
    out: str | Path | None = None,
    observers: Sequence[RunObserver] = (),
) -> Study:
    """Run a study, or continue it: finished runs are kept, unfinished ones resumed.

    Args:
        source: The study as nested tables, or the path of its TOML file.
        out: Its folder; by default ``runs/`` and the name of the file, or the title.
        observers: Told what happens in each run; a :class:`StudyObserver` also how each ended.

    Returns:
        The study. A run that failed stops no other; :attr:`Study.failed` says which did.

    Raises:
        ConfigError: Settings are wrong; the message has all problems of all entries.
        RunError: The folder holds runs made with other settings, or is in use.
        Interrupted: Ctrl-C was pressed; calling again continues.
    """
    return execute_study(plan_study(source, None if out is None else Path(out)), observers)


def execute_study(plan: StudyPlan, observers: Sequence[RunObserver] = ()) -> Study:
    """Carry out a planned study; see :func:`run_study`."""
    with disk_errors(plan.out):
        plan.out.mkdir(parents=True, exist_ok=True)
    with RunFolder(plan.out).locked(), stop_requests() as stop_requested:
        execution = _Execution(plan, observers, stop_requested)
        # Seed by seed, so that a first comparison of all entries is there early.
        for seed in plan.config.seeds:
            for entry in plan.entries:
                execution.make(entry, seed)
    return Study(plan.out)


class _Execution:
    """The state of a study while it runs."""

    def __init__(
        self,
        plan: StudyPlan,
        observers: Sequence[RunObserver],
        stop_requested: Callable[[], bool],
    ) -> None:
        self._plan = plan
        self._observers = observers
        self._stop_requested = stop_requested
        self._records = {entry.name: Record() for entry in plan.entries}

    def make(self, entry: StudyEntry, seed: int) -> None:
        """Make an entry's run with a seed; before the first one, search."""
        record = self._records[entry.name]
        is_search = bool(entry.choices[0].searched)
        if not is_search:
            record.chosen = entry.choices[0]
        elif seed == self._plan.config.seeds[0]:
            self._search(entry, record)
        was_tried = is_search and seed in self._plan.config.searched_with
        if record.chosen is None:
            record.done += not was_tried
            record.failed[seed] = "; ".join(dict.fromkeys(record.errors.values()))
        elif was_tried:
            record.runs.append(Run(self._plan.place(entry, record.chosen, seed)))
        else:
            found = self._carry_out(entry, record.chosen, seed)
            if isinstance(found, Run):
                record.runs.append(found)
            else:
                record.failed[seed] = found
        write_results(self._plan, self._records)

    def _search(self, entry: StudyEntry, record: Record) -> None:
        """Try every choice with every seed of the search; validation samples choose."""
        direction: Direction = "higher"
        for place, choice in enumerate(entry.choices):
            for seed in self._plan.config.searched_with:
                found = self._carry_out(entry, choice, seed)
                try:
                    if isinstance(found, str):
                        raise TrainingError(found)
                    score, direction = validation_score(found)
                except TrainingError as error:
                    record.errors[place] = str(error)
                else:
                    record.scores.setdefault(place, {})[seed] = score
        able = {place: own for place, own in record.scores.items() if place not in record.errors}
        if able:
            defaults = [place for place in able if entry.choices[place].is_default]
            place = choose(able, defaults[0] if defaults else None, direction)
            record.chosen = entry.choices[place]

    def _carry_out(self, entry: StudyEntry, choice: Choice, seed: int) -> Run | str:
        """Bring one run to its end; return it, or why it failed."""
        if self._stop_requested():  # in the last round of the run before, which then finished
            raise Interrupted
        path = self._plan.place(entry, choice, seed)
        record = self._records[entry.name]
        was_finished = is_finished(path)
        error: str | None = None
        try:
            if (path / "run.json").exists():
                resume(path, observers=self._observers)
            else:
                plan = self._plan.plan(choice, seed)
                execute(prepare(plan, path), plan, self._observers)
        except DuotoneError as problem:
            error = str(problem)
        record.done += 1
        run = Run(path)
        scores: dict[str, float] = {}
        if error is None:
            record.seconds.append(float(run.folder.facts()["seconds"]))
            scores = headline_of(run)
        ended = RunEnded(
            entry.name,
            choice.searched,
            seed,
            path,
            error,
            was_finished,
            scores,
            sum(known.done for known in self._records.values()),
            self._plan.total,
            self._seconds_left(),
        )
        for observer in self._observers:
            if isinstance(observer, StudyObserver):
                observer.run_ended(ended)
        return run if error is None else error

    def _seconds_left(self) -> float:
        """Return how long the rest will take: each entry as long as it took so far."""
        known = [second for record in self._records.values() for second in record.seconds]
        left = 0.0
        for entry in self._plan.entries:
            record = self._records[entry.name]
            own = record.seconds or known or [0.0]
            runs = self._plan.runs_of(entry) - record.done
            left += runs * sum(own) / len(own)
        return left


def planned_runs(plan: StudyPlan) -> list[dict[str, Any]]:
    """Return the runs of a study in their order, and how far each is.

    What a search will choose is not known before; such runs have no folder yet.
    """
    rows: list[dict[str, Any]] = []

    def add(entry: StudyEntry, seed: int, searched: str, path: Path | None) -> None:
        is_begun = path is not None and (path / "run.json").exists()
        rows.append(
            {
                "entry": entry.name,
                "searched": searched,
                "seed": seed,
                "status": Run(path).status if path is not None and is_begun else "to do",
                "run": None if path is None else str(path),
            }
        )

    for seed in plan.config.seeds:
        for entry in plan.entries:
            is_search = bool(entry.choices[0].searched)
            own = [seed]
            if is_search:
                is_first = seed == plan.config.seeds[0]
                own = plan.config.searched_with if is_first else []
            for choice in entry.choices:
                for tried in own:
                    path = plan.place(entry, choice, tried)
                    add(entry, tried, choice_text(choice.searched), path)
            if is_search and seed not in plan.config.searched_with:
                paths = [plan.place(entry, choice, seed) for choice in entry.choices]
                begun = [(c, p) for c, p in zip(entry.choices, paths, strict=True) if p.exists()]
                for choice, path in begun:
                    add(entry, seed, choice_text(choice.searched), path)
                if not begun:
                    add(entry, seed, "as chosen", None)
    return rows


def is_finished(path: Path) -> bool:
    """Return whether a folder holds a finished run."""
    return (path / "run.json").exists() and RunFolder.open(path).facts()["status"] == "finished"


def headline_of(run: Run) -> dict[str, float]:
    """Return the mean headline metric of a finished run's members and newcomers."""
    metric, scores = run.summary["headline"], run.summary["scores"]
    names = [f"{role}.{metric}" for role in ROLES]
    return {name: scores[name]["value"] for name in names if name in scores}


def validation_score(run: Run) -> tuple[float, Direction]:
    """Return the members' mean validation headline metric at the last round, and its direction.

    Raises:
        TrainingError: It is not a number, so nothing can be chosen by it.
    """
    metric = str(run.summary["headline"])
    found = run.metrics.filter(
        (pl.col("round") == run.summary["rounds"])
        & (pl.col("kind") == "member")
        & (pl.col("metric") == f"val_{metric}")
    )["value"].to_list()
    score = math.fsum(found) / len(found) if found else math.nan
    if not math.isfinite(score):
        raise TrainingError(f"{run.path} has no finite validation {metric} of its members.")
    return score, DIRECTIONS[metric]
