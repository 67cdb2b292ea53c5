"""What did stragglers and drop-out cost? Simulated time and lost work, by speed class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import polars as pl

from duotone.federation.system import ABSENCES, System, system_of
from duotone.measures.measure import Entry, Findings, Measure, Record, Scene
from duotone.measures.panels import NOTHING, Grid, PlainTable, Section, count_text
from duotone.measures.score import Key, Score

LOST, SLOWDOWN = Key("waiting", "lost"), Key("waiting", "slowdown")
TIME = Key("waiting", "time")


def by_round(metrics: pl.DataFrame) -> dict[int, dict[str, str]]:
    """Return for each round who was drawn and what became of it; who answered has "answered"."""
    found: defaultdict[int, dict[str, str]] = defaultdict(dict)
    rows = metrics.filter(pl.col("metric").is_in(["bytes_up", "refused", *ABSENCES]))
    for number, client, metric in rows.select("round", "client", "metric").iter_rows():
        found[number][client] = metric if metric in ABSENCES else "answered"
    return dict(found)


def class_table(system: System, rounds: dict[int, dict[str, str]]) -> list[dict[str, Any]]:
    """Return for each speed class how often its members were drawn, and what became of it."""
    table = []
    for speed in sorted(set(system.speed.values())):
        own = {client for client, its in system.speed.items() if its == speed}
        ends = [end for told in rounds.values() for client, end in told.items() if client in own]
        worked = sum(
            system.time[client]
            for told in rounds.values()
            for client, end in told.items()
            if client in own and end == "answered"
        )
        table.append(
            {
                "speed": speed,
                "members": len(own),
                "drawn": len(ends),
                **{end: ends.count(end) for end in ("answered", *ABSENCES)},
                "time": worked,
            }
        )
    return table


def total_times(system: System, rounds: dict[int, dict[str, str]]) -> tuple[float, float]:
    """Return how long all rounds took, and how long with everybody present and at speed 1."""
    took = fastest = 0.0
    for told in rounds.values():
        answered = [client for client, end in told.items() if end == "answered"]
        took += system.lasted(answered, told.keys() - set(answered))
        fastest += max(system.fastest[client] for client in told)
    return took, fastest


class Waiting(Measure):
    """Simulated time of a run with slow or absent members, and whose work was lost."""

    name = "waiting"
    file = "waiting"
    level = "scores"

    def applies(self, scene: Scene) -> bool:
        """Ask where members' devices differ."""
        return scene.config.system is not None

    def measure(self, scene: Scene) -> Findings:
        """Count by speed class, and add the times of all rounds."""
        system = system_of(scene.config.system, scene.population, scene.seed)
        assert system is not None
        rounds = by_round(scene.metrics)
        classes = class_table(system, rounds)
        drawn = sum(row["drawn"] for row in classes)
        lost = sum(row[end] for row in classes for end in ABSENCES)
        took, fastest = total_times(system, rounds)
        scores = {
            LOST: Score(lost / max(1, drawn), 0.0, "lower", drawn, "share"),
            TIME: Score(took, 0.0, "lower", len(rounds), "number"),
            SLOWDOWN: Score(took / fastest if fastest else 1.0, 0.0, "lower", len(rounds), "index"),
        }
        table = {
            "classes": classes,
            "time": took,
            "fastest": fastest,
            "speed": dict(system.speed),
            "absent": {
                str(number): {client: end for client, end in told.items() if end in ABSENCES}
                for number, told in rounds.items()
            },
        }
        return Findings(scores, scene.rows(scores), table)

    def section(self, record: Record) -> Section | None:
        """Return a line for each speed class."""
        table = record.tables.get("waiting")
        if table is None:
            return None
        took, fastest = table["time"], table["fastest"]
        lost = sum(row[end] for row in table["classes"] for end in ABSENCES)
        drawn = sum(row["drawn"] for row in table["classes"])
        intro = (
            f"Simulated, the run took {took:.1f} units of time, {took / max(fastest, 1e-9):.1f} "
            f"times as long as with all members present and at speed 1 ({fastest:.1f}). Of "
            f"{count_text(drawn, 'request')} to train, {lost} brought nothing."
        )
        rows = tuple(
            (
                f"{row['speed']:g}",
                *(str(row[name]) for name in ("members", "drawn", "answered", *ABSENCES)),
                f"{100 * row['answered'] / row['drawn']:.0f} %" if row["drawn"] else NOTHING,
                f"{row['time']:.1f}",
            )
            for row in table["classes"]
        )
        grid = PlainTable(
            "By speed class",
            (
                "speed",
                ">members",
                ">drawn",
                ">answered",
                ">dropped out",
                ">late",
                ">counted",
                ">time at work",
            ),
            rows,
            "A unit of time is a round of a member of speed 1 with the mean number of training "
            "samples. Who was absent when is in waiting.json.",
        )
        return Section("waiting", "Slow and absent members", intro, [Grid("waiting", grid)])

    def compared(self, entries: Sequence[Entry]) -> Section | None:
        """Return what waiting cost each entry."""
        rows = []
        for entry in entries:
            known = [record.scores for record in entry.records if TIME in record.scores]
            cells = [NOTHING] * 3
            if known:
                time, slowdown, lost = (
                    sum(scores[key].value for scores in known) / len(known)
                    for key in (TIME, SLOWDOWN, LOST)
                )
                cells = [f"{time:.1f}", f"{slowdown:.1f}×", f"{100 * lost:.0f} %"]
            rows.append((entry.name, *cells))
        if all(cell == NOTHING for _, *cells in rows for cell in cells):
            return None
        heads = ("entry", ">simulated time", ">of that at speed 1", ">work lost")
        grid = PlainTable("Slow and absent members", heads, tuple(rows), "Mean over seeds.")
        intro = "What waiting for members cost."
        return Section("waiting", "Slow and absent members", intro, [Grid("waiting", grid)])
