"""Carry out a run: train, evaluate, commit, round by round, until it is finished or stopped."""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import polars as pl

from duotone.federation.backends import Backend
from duotone.federation.election import vote
from duotone.federation.engine import (
    RoundResult,
    Start,
    federate,
    size_in_bytes,
)
from duotone.federation.protocols import Generates, Monitors, Warns
from duotone.federation.serving import Serving
from duotone.federation.store import FolderStore, Shelf
from duotone.measures.clients import Row, choose_clients, evaluate
from duotone.measures.concepts import concept_sheet
from duotone.measures.curve import newcomer_curve
from duotone.measures.metrics import DIRECTIONS
from duotone.measures.separation import separation_scores
from duotone.measures.sheets import Sheet, sample_tiles
from duotone.measures.summary import (
    Score,
    best_validation,
    headline,
    is_better,
    mean_validation,
    selected_round,
    summarise,
)
from duotone.runs.backend import make_backend
from duotone.runs.folder import RunFolder
from duotone.runs.plan import Plan
from duotone.runs.separation import (
    measure_concepts,
    measure_latents,
    measure_made,
    separation_rows,
)
from duotone.runs.served import keep_served
from duotone.runs.serving import last_election, last_serving
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


def execute(folder: RunFolder, plan: Plan, observers: Sequence[RunObserver] = ()) -> None:
    """Bring a run to its end, from wherever it stands.

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
                _train(folder, plan, store, observers, stop_requested)
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

    with make_backend(plan, say) as backend, folder.scratch() as scratch:
        shelf = Shelf(scratch)
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
                if isinstance(plan.method, Generates) and population.info.is_image:
                    folder.write_samples(sample_tiles(serving, population, store, backend), (0, 1))
                scores = headline_scores(found)
                best, is_best = _selection(found, number, best)
                if number == config.rounds and config.curve:
                    found += newcomer_curve(
                        plan.method, serving, config.curve, found, population, store, backend
                    )
                rows += found
            size, crc = folder.append_metrics(rows, crc)
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


def _finish(
    folder: RunFolder,
    plan: Plan,
    store: FolderStore,
    clients: Sequence[str],
    backend: Backend,
    shelf: Shelf,
) -> None:
    """Write what is known at the end; doing it again changes nothing."""
    config, last = plan.config, store.last
    folder.cut_metrics(last.notes["metrics_bytes"])
    table = folder.metrics()
    scores = summarise(table)
    elected = last_election(last)
    is_scored = (pl.col("round") == last.round) & (pl.col("metric") == headline(table["metric"]))
    scored = set(table.filter(is_scored)["client"])
    unscored = [client for client in clients if client not in scored]
    clients = [client for client in clients if client in scored]
    if config.latents and clients:
        serving = replace(last_serving(plan, last), shelf=shelf)
        latents = measure_latents(plan, serving, clients, store, backend)
        folder.write_latents(latents)
        found = separation_scores(latents, data_name=config.data, seed=config.seed)
        sheets: list[Sheet] = []
        made = measure_made(plan, serving, store, backend)
        if made is not None:
            found |= made.scores
            sheets += made.sheets
            folder.write_made(made.swaps, made.generation, made.restyled)
        placed = measure_concepts(plan, serving, clients, store, backend)
        if placed is not None:
            concepts, told = placed
            found |= told
            folder.write_concepts(concepts)
            if plan.population.info.is_image:
                sheets.append(concept_sheet(concepts, plan.population))
        if sheets:
            folder.write_sheets(sheets)
        folder.append_metrics(separation_rows(found, last.round))
        scores |= found
    if isinstance(plan.method, Monitors):
        members, units = len(plan.population.partition.members), plan.method.monitor_units
        scores |= {
            name: Score(value, 0.0, "reference", members, units.get(name, "number"))
            for name, value in plan.method.monitors(last.server()).items()
        }
    keep_served(folder, plan, store, backend, shelf)
    folder.write_summary(
        {
            "scores": {name: score.as_json() for name, score in scores.items()},
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


def headline_scores(rows: Sequence[Row]) -> dict[str, float]:
    """Return the mean headline metric of members and newcomers."""
    metric = headline(row.metric for row in rows)
    scores: dict[str, float] = {}
    for role in ("member", "newcomer"):
        values = [row.value for row in rows if row.metric == metric and row.role == role]
        if values:
            scores[f"{role}.{metric}"] = sum(values) / len(values)
    return scores


def _selection(
    rows: Sequence[Row], round: int, best: tuple[int, float] | None
) -> tuple[tuple[int, float] | None, bool]:
    """Return the best round so far by members' validation scores, and whether it is this one."""
    metric = headline(row.metric for row in rows)
    values = [r.value for r in rows if r.metric == f"val_{metric}" and r.role == "member"]
    if not values:
        return best, False
    value = mean_validation(values)
    if best is None or is_better(value, best[1], metric):
        return (round, value), True
    return best, False


class _StopRequest:
    """A signal handler: the first signal is a request, a second one stops at once."""

    def __init__(self) -> None:
        self.is_made = False
        self.outer: list[_StopRequest] = []

    def __call__(self, number: int, frame: object) -> None:
        if self.is_made:
            raise KeyboardInterrupt
        for request in (self, *self.outer):
            request.is_made = True


@contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C into a request; a second one stops at once.

    May be nested: a request within a run also reaches the study around it. Outside the main thread
    Python delivers no signals, and nothing changes.
    """
    request = _StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield lambda: request.is_made
        return
    handled = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, request) for number in handled]
    if isinstance(before[0], _StopRequest):
        request.outer = [before[0], *before[0].outer]
    try:
        yield lambda: request.is_made
    finally:
        for number, handler in zip(handled, before, strict=True):
            signal.signal(number, handler)
