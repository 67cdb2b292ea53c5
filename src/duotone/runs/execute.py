"""Carry out a run: train, evaluate, commit, round by round, until it is finished or stopped."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import polars as pl

from duotone.config import MANY_CLIENTS
from duotone.federation.backends import Backend
from duotone.federation.backends.choice import make_backend
from duotone.federation.election import vote
from duotone.federation.engine import (
    RoundResult,
    Start,
    federate,
)
from duotone.federation.levels import is_within
from duotone.federation.protocols import Generates, Warns
from duotone.federation.serving import Serving
from duotone.federation.store import FolderStore, Shelf
from duotone.federation.watch import Refusals
from duotone.measures import all_measures
from duotone.measures.accuracy import (
    best_validation,
    headline_scores,
    selected_round,
    selection,
)
from duotone.measures.evaluation import choose_clients, chosen_of_all, evaluate
from duotone.measures.measure import Row, Scene
from duotone.measures.metrics import headline
from duotone.measures.score import Key, Score, scores_json
from duotone.measures.sheet import Sheet
from duotone.measures.sheets import sample_tiles
from duotone.runs.folder import RunFolder
from duotone.runs.last_round import last_election, last_serving
from duotone.runs.own_part import leave_with_clients
from duotone.runs.plan import Plan
from duotone.runs.published import published_share
from duotone.runs.round_rows import counted, counts_of, training_rows
from duotone.runs.served import keep_served
from duotone.runs.stopping import stop_requests


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        round: The round just committed.
        rounds: The last round.
        scores: Headline scores of the last evaluation, such as ``member.accuracy``.
        evaluated: Whether this very round was evaluated.
    """

    round: int
    rounds: int
    scores: dict[str, float]
    evaluated: bool


class RunObserver(Protocol):
    """Watches a run. Observers see; they never change a result."""

    def run_started(self, folder: RunFolder, plan: Plan, round: int) -> None:
        """Be told that a run starts after a committed round (0: from the beginning)."""
        ...

    def round_committed(self, progress: Progress) -> None:
        """Be told that a round is safe on disk."""
        ...

    def message(self, line: str) -> None:
        """Be told something the user should know."""
        ...


class Interrupted(KeyboardInterrupt):
    """The user stopped the run; the last committed round is safe."""


def execute(
    folder: RunFolder,
    plan: Plan,
    observers: Sequence[RunObserver] = (),
    backend: Backend | None = None,
) -> None:
    """Bring a run to its end, from wherever it stands.

    Args:
        folder: The run.
        plan: What it does.
        observers: Told what happens.
        backend: Where clients are computed, if not where the configuration says.

    Raises:
        Interrupted: Ctrl-C was pressed; the round was finished and saved first.
        DuotoneError: The run failed; what was committed stays.
    """
    with folder.locked():
        began = time.monotonic()
        spent = float(folder.facts().get("seconds", 0.0))
        folder.update_facts(status="running", error=None)
        outcome: dict[str, str] = {"status": "finished"}
        try:
            with stop_requests() as stop_requested, folder.writing() as store:
                _Execution(folder, plan, store, observers).carry_out(stop_requested, backend)
        except KeyboardInterrupt:
            outcome = {"status": "interrupted"}
            raise
        except Exception as error:
            outcome = {"status": "failed", "error": str(error)}
            raise
        finally:
            folder.log(" ".join(outcome.values()))
            seconds = round(spent + time.monotonic() - began, 1)
            folder.update_facts(**outcome, seconds=seconds)


class _Execution:
    """A run that is being carried out.

    Args:
        folder: Where everything goes.
        plan: What to do.
        store: The committed rounds.
        observers: Told what happens.
    """

    def __init__(
        self, folder: RunFolder, plan: Plan, store: FolderStore, observers: Sequence[RunObserver]
    ) -> None:
        self.folder, self.plan, self.store, self.observers = folder, plan, store, observers
        self.clients = choose_clients(
            plan.population.partition, plan.config.evaluate_clients, plan.config.seed
        )
        if plan.attack is not None:  # scores are those of the honest clients alone
            self.clients = plan.attack.honest(self.clients)
        self.refused = store.last.notes.get("refused", {})
        self.crc = folder.cut_metrics(store.last.notes.get("metrics_bytes", 0))
        self.scores: dict[str, float] = dict(store.last.notes.get("scores", {}))
        self.best = best_validation(folder.metrics())
        self.elected = last_election(store.last)

    def say(self, line: str) -> None:
        """Tell the user something."""
        self.folder.log(line)
        for observer in self.observers:
            observer.message(line)
        if not self.observers:
            warnings.warn(line, stacklevel=2)

    def carry_out(self, stop_requested: Callable[[], bool], given: Backend | None) -> None:
        """Train round by round from the last committed one, and measure at the end."""
        config, population, store = self.plan.config, self.plan.population, self.store
        done = store.last.round
        for observer in self.observers:
            observer.run_started(self.folder, self.plan, done)
        self.folder.log(f"starting after round {done} of {config.rounds_made}")
        preparation = population.dataset.preparation
        if preparation is not None and preparation.remark and not done:
            self.say(preparation.remark)
        method = self.plan.method
        backend = given or make_backend(method, population, config, self.say)
        backend.say, backend.level = self.say, config.level
        with backend, self.folder.scratch() as scratch:
            shelf = Shelf(scratch)
            backend.ledger.remember(self.folder.cut_ledger(done))
            for result in federate(
                method,
                population,
                rounds=config.rounds_made,
                sampled=config.sampled,
                seed=config.seed,
                backend=backend,
                states=store,
                start=Start(done, store.last.server()) if done else None,
                max_norm=config.max_norm,
                quorum=config.quorum,
                max_bytes=config.max_bytes,
                attack=self.plan.attack,
                refusals=Refusals(config.set_aside, Counter(counts_of(self.refused))),
                watch=self.plan.is_watched,
                system=self.plan.system,
                scratch=scratch,
            ):
                self._commit(result, backend, shelf)
                if stop_requested() and result.info.round < config.rounds_made:
                    raise Interrupted
            # Not in the loop: the rounds of a run that is only read (`align`) are over.
            for line in self._warnings():
                self.say(line)
            self._finish(backend, shelf)

    def _commit(self, result: RoundResult, backend: Backend, shelf: Shelf) -> None:
        """Evaluate a round if that is due, and make it safe on disk."""
        config, number = self.plan.config, result.info.round
        for client, reason in result.refused.items():
            self.say(f"Round {number}: client {client!r} was left out: {reason}.")
        self.refused = counted(self.refused, result)
        for client in sorted(result.set_aside & result.refused.keys()):
            self.say(f"Round {number}: client {client!r} is set aside: it was refused too often.")
        for client, reason in result.dropped.items():
            self.say(f"Round {number}: {reason}; that was dropped, client {client!r} still counts.")
        if result.absent:
            self.folder.log(f"round {number} without {', '.join(result.absent)}")
        rows = training_rows(result, self.plan.population.partition)
        is_best = False
        is_due = number % config.rounds_between == 0 or number == config.rounds_made
        if is_due:
            found = self._evaluate(result, backend, shelf)
            self.scores = {str(key): value for key, value in headline_scores(found).items()}
            self.best, is_best = selection(found, number, self.best)
            rows += found
        size, self.crc = self.folder.append_metrics(rows, self.crc)
        notes = {
            "config": self.store.last.notes["config"],
            "metrics_bytes": size,
            "metrics_crc": self.crc,
            "scores": self.scores,
        }
        if self.elected is not None:
            notes["election"] = self.elected.as_json()
        if self.refused:
            notes["refused"] = self.refused
        self.folder.append_ledger(backend.ledger.lines(number))
        self.store.commit(number, result.server, notes, selects=is_best)
        self.folder.log(f"round {number} committed {self.scores if is_due else ''}")
        for observer in self.observers:
            observer.round_committed(Progress(number, config.rounds_made, self.scores, is_due))

    def _evaluate(self, result: RoundResult, backend: Backend, shelf: Shelf) -> list[Row]:
        """Let members vote, if they are asked, and score the clients."""
        plan, number = self.plan, result.info.round
        is_last = number == plan.config.rounds_made
        serving = Serving(result.server, result.info, plan.rule, plan.config.shots)
        if is_last:  # many more questions follow then
            serving = replace(serving, shelf=shelf)
        if plan.config.personalise != "none":
            partition = plan.population.partition
            members: Sequence[str] = partition.members
            if len(members) > MANY_CLIENTS:
                members = tuple(c for c in self.clients if partition[c].role == "member")
            self.elected = vote(serving, plan.ways, plan.population, self.store, backend, members)
            serving = replace(serving, chosen=self.elected.chosen)
            self.folder.log(f"round {number}: {self.elected.said}")
            if is_last:
                for observer in self.observers:
                    observer.message(f"After round {number} {self.elected.said}.")
        draws = isinstance(plan.method, Generates) and plan.population.info.is_image
        if draws and plan.config.level == "simulation":
            tiles = sample_tiles(self._scene(serving, self.clients, backend))
            self.folder.write_samples(tiles, (0, 1))
        return evaluate(serving, self.clients, plan.population, self.store, backend)

    def _scene(self, serving: Serving, clients: Sequence[str], backend: Backend) -> Scene:
        plan = self.plan
        return Scene(
            plan.method,
            plan.population,
            serving,
            clients,
            self.store,
            backend,
            plan.config,
            self.folder.metrics(),
            self.store.last.notes.get("refused", {}),
        )

    def _finish(self, backend: Backend, shelf: Shelf) -> None:
        """Measure, and write what is known at the end; doing it again changes nothing."""
        folder, last = self.folder, self.store.last
        folder.cut_metrics(last.notes["metrics_bytes"])
        table = folder.metrics()
        metric = headline(table["metric"])
        is_scored = (pl.col("round") == last.round) & (pl.col("metric") == metric)
        scored = set(table.filter(is_scored)["client"])
        serving = replace(last_serving(self.plan, last), shelf=shelf)
        scene = self._scene(serving, [c for c in self.clients if c in scored], backend)
        scores: dict[Key, Score] = {}
        sheets: list[Sheet] = []
        asked = [
            measure
            for measure in all_measures(self.plan.config.measure)
            if is_within(measure, self.plan.config.level) and measure.applies(scene)
        ]
        scene.prepare([thing for measure in asked for thing in measure.ahead])
        for measure in asked:
            found = measure.measure(scene)
            scores.update(found.scores)
            sheets += found.sheets
            folder.append_metrics(found.rows)
            if found.table is not None and measure.file is not None:
                folder.write_table(measure.file, found.table)
            if found.arrays is not None:
                folder.write_latents(found.arrays)
        folder.write_sheets(sheets)
        if self.plan.config.level == "simulation":
            keep_served(folder, self.plan, self.store, backend, shelf, self.clients)
        elif backend.is_far:
            leave_with_clients(self.plan, last, backend)
        folder.write_table("ledger", backend.ledger.table())
        population, limit = self.plan.population, self.plan.config.evaluate_clients
        sampled = chosen_of_all(population.partition, limit)  # as was asked: no cause to warn now
        unscored = [c for c in self.clients if c not in scored]
        gaps = [f"Client {client!r} has no score: it failed." for client in unscored]
        elected = {} if self.elected is None else {"election": self.elected.as_json()}
        folder.write_summary(
            {
                "scores": scores_json(scores),
                "headline": metric,
                "rounds": last.round,
                "scale": self.plan.config.scale,
                "published_share": published_share(self.plan.config),
                "selected_round": selected_round(table),
                "newcomer_rule": self.plan.rule,
                "warnings": [*([sampled] if sampled else []), *self._warnings(), *gaps],
                **elected,
            }
        )

    def _warnings(self) -> list[str]:
        method, attack = self.plan.method, self.plan.attack
        said = method.warnings(self.store.last.server()) if isinstance(method, Warns) else []
        return said if attack is None else [attack.said, *said]
