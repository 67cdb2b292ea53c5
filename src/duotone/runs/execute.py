"""Carry out a run: train, evaluate, commit, round by round, until it is finished or stopped."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import polars as pl

from duotone.federation.backends import Backend
from duotone.federation.backends.choice import make_backend
from duotone.federation.election import vote
from duotone.federation.engine import (
    RoundResult,
    Start,
    federate,
    size_in_bytes,
)
from duotone.federation.levels import is_within
from duotone.federation.protocols import Generates, Warns
from duotone.federation.serving import Serving
from duotone.federation.store import FolderStore, Shelf
from duotone.measures import all_measures
from duotone.measures.accuracy import (
    best_validation,
    headline_scores,
    selected_round,
    selection,
)
from duotone.measures.evaluation import choose_clients, evaluate
from duotone.measures.measure import Row, Scene
from duotone.measures.metrics import DIRECTIONS, headline
from duotone.measures.score import Key, Score, scores_json
from duotone.measures.sheet import Sheet
from duotone.measures.sheets import sample_tiles
from duotone.runs.folder import RunFolder
from duotone.runs.last_round import last_election, last_serving
from duotone.runs.plan import Plan
from duotone.runs.served import keep_served
from duotone.runs.stopping import stop_requests
from duotone.types import ServerState


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
                _train(folder, plan, store, observers, stop_requested, backend)
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


def _train(
    folder: RunFolder,
    plan: Plan,
    store: FolderStore,
    observers: Sequence[RunObserver],
    stop_requested: Callable[[], bool],
    given: Backend | None,
) -> None:
    def say(line: str) -> None:
        folder.log(line)
        for observer in observers:
            observer.message(line)
        if not observers:
            warnings.warn(line, stacklevel=2)

    config, population = plan.config, plan.population
    assert config.rounds is not None
    done, kept = store.last.round, store.last.notes
    crc = folder.cut_metrics(kept.get("metrics_bytes", 0))
    scores: dict[str, float] = dict(kept.get("scores", {}))
    best = best_validation(folder.metrics())
    elected = last_election(store.last)
    clients = choose_clients(population.partition, config.evaluate_clients, config.seed)
    for observer in observers:
        observer.run_started(folder, plan, done)
    folder.log(f"starting after round {done} of {config.rounds}")
    preparation = population.dataset.preparation
    if preparation is not None and preparation.remark and not done:
        say(preparation.remark)

    backend = given or make_backend(plan.method, population, config, say)
    backend.say, backend.level = say, config.level
    with backend, folder.scratch() as scratch:
        shelf = Shelf(scratch)
        backend.ledger.remember(folder.cut_ledger(done))
        for result in federate(
            plan.method,
            population,
            rounds=config.rounds,
            sampled=config.sampled,
            seed=config.seed,
            backend=backend,
            states=store,
            start=Start(done, store.last.server()) if done else None,
            max_norm=config.max_norm,
            quorum=config.quorum,
        ):
            number = result.info.round
            rows = _training_rows(result, plan)
            for client, reason in result.refused.items():
                say(f"Round {number}: client {client!r} was left out: {reason}.")
            for client, reason in result.dropped.items():
                say(f"Round {number}: {reason}; that was dropped, client {client!r} still counts.")
            is_best = False
            is_due = number % config.evaluate_every == 0 or number == config.rounds
            if is_due:
                serving = Serving(result.server, result.info, plan.rule, config.shots)
                if number == config.rounds:  # many more questions follow then
                    serving = replace(serving, shelf=shelf)
                if config.personalise != "none":
                    elected = vote(serving, plan.ways, population, store, backend)
                    serving = replace(serving, chosen=elected.chosen)
                    folder.log(f"round {number}: {elected.said}")
                    if number == config.rounds:
                        for observer in observers:
                            observer.message(f"After round {number} {elected.said}.")
                found = evaluate(serving, clients, population, store, backend)
                draws = isinstance(plan.method, Generates) and population.info.is_image
                if draws and config.level == "simulation":
                    scene = _scene(folder, plan, serving, clients, store, backend)
                    folder.write_samples(sample_tiles(scene), (0, 1))
                scores = {str(key): value for key, value in headline_scores(found).items()}
                best, is_best = selection(found, number, best)
                rows += found
            size, crc = folder.append_metrics(rows, crc)
            folder.append_ledger(backend.ledger.lines(number))
            notes = {
                "config": store.last.notes["config"],
                "metrics_bytes": size,
                "metrics_crc": crc,
                "scores": scores,
            }
            if elected is not None:
                notes["election"] = elected.as_json()
            store.commit(number, result.server, notes, selects=is_best)
            folder.log(f"round {number} committed {scores if is_due else ''}")
            for observer in observers:
                observer.round_committed(Progress(number, config.rounds, scores, is_due))
            if stop_requested() and number < config.rounds:
                raise Interrupted
        # Not in the loop: the rounds of a run that is only read (`align`) are over.
        for line in _warnings(plan, store.last.server()):
            say(line)
        _finish(folder, plan, store, clients, backend, shelf)


def _scene(
    folder: RunFolder,
    plan: Plan,
    serving: Serving,
    clients: Sequence[str],
    store: FolderStore,
    backend: Backend,
) -> Scene:
    return Scene(
        plan.method,
        plan.population,
        serving,
        clients,
        store,
        backend,
        plan.config,
        folder.metrics(),
    )


def _finish(
    folder: RunFolder,
    plan: Plan,
    store: FolderStore,
    clients: Sequence[str],
    backend: Backend,
    shelf: Shelf,
) -> None:
    """Measure, and write what is known at the end; doing it again changes nothing."""
    last = store.last
    folder.cut_metrics(last.notes["metrics_bytes"])
    table = folder.metrics()
    elected = last_election(last)
    is_scored = (pl.col("round") == last.round) & (pl.col("metric") == headline(table["metric"]))
    scored = set(table.filter(is_scored)["client"])
    unscored = [client for client in clients if client not in scored]
    serving = replace(last_serving(plan, last), shelf=shelf)
    scored_clients = [client for client in clients if client in scored]
    scene = _scene(folder, plan, serving, scored_clients, store, backend)
    scores: dict[Key, Score] = {}
    sheets: list[Sheet] = []
    for measure in all_measures():
        if not (is_within(measure, plan.config.level) and measure.applies(scene)):
            continue
        found = measure.measure(scene)
        scores.update(found.scores)
        sheets += found.sheets
        folder.append_metrics(found.rows)
        if found.table is not None and measure.file is not None:
            folder.write_table(measure.file, found.table)
        if found.arrays is not None:
            folder.write_latents(found.arrays)
    folder.write_sheets(sheets)
    if plan.config.level == "simulation":
        keep_served(folder, plan, store, backend, shelf)
    folder.write_table("ledger", backend.ledger.table())
    folder.write_summary(
        {
            "scores": scores_json(scores),
            "headline": headline(table["metric"]),
            "rounds": last.round,
            "selected_round": selected_round(table),
            "newcomer_rule": plan.rule,
            "warnings": [
                *_warnings(plan, last.server()),
                *(f"Client {client!r} has no score: it failed." for client in unscored),
            ],
            **({} if elected is None else {"election": elected.as_json()}),
        }
    )


def _warnings(plan: Plan, server: ServerState) -> list[str]:
    return plan.method.warnings(server) if isinstance(plan.method, Warns) else []


def _training_rows(result: RoundResult, plan: Plan) -> list[Row]:
    """Return what training itself says, and the ledger: what left each client, and what came."""
    facts = [
        (
            update.client,
            {
                **{name: value for name, value in update.metrics.items() if _is_own(name)},
                "bytes_down": result.sent_bytes,
                "bytes_up": size_in_bytes(update.shared) + size_in_bytes(update.extra),
            },
        )
        for update in result.updates
    ]
    collected: Counter[str] = Counter()
    for update in result.collected:
        collected[update.client] += size_in_bytes(update.extra)
    facts += [(client, {"bytes_collected": size}) for client, size in collected.items()]
    partition = plan.population.partition
    return [
        Row(
            result.info.round,
            client,
            partition[client].group,
            partition[client].role,
            "shared",
            name,
            value,
        )
        for client, found in facts
        for name, value in sorted(found.items())
    ]


def _is_own(metric: str) -> bool:
    """Say whether a client may call a number so: what evaluation measures is not its to say."""
    return metric.removeprefix("val_").partition("@")[0] not in DIRECTIONS
