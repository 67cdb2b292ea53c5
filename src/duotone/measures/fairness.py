"""How unequal are clients? The gap between groups, and the Gini coefficient of their scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from duotone.measures.accuracy import last_values
from duotone.measures.inks import natural
from duotone.measures.measure import Entry, Findings, Measure, Record, Scene
from duotone.measures.metrics import UNITS, value_text
from duotone.measures.panels import NOTHING, Grid, PlainTable, Section
from duotone.measures.score import Key, Score
from duotone.types import ROLES, Role

_WORDS = {
    "gini": "Gini coefficient of clients (0: all alike)",
    "group_gap": "best group's mean minus worst group's",
}


def gini(values: Sequence[float]) -> float:
    """Return the Gini coefficient: half the mean difference of two clients over their mean.

    Range 0 to 1; 0 if all clients have the same.

    >>> gini([1.0, 1.0]), gini([0.0, 1.0])
    (0.0, 0.5)
    """
    ordered = np.sort(np.asarray(values, np.float64))
    total = ordered.sum()
    if total <= 0:
        return 0.0
    ranks = np.arange(1, len(ordered) + 1)
    return float((2 * ranks - len(ordered) - 1) @ ordered / (len(ordered) * total))


def group_means(values: pl.DataFrame) -> dict[str, float]:
    """Return the mean over the clients of each group, in the order of their names."""
    means = dict(values.group_by("group").agg(pl.col("value").mean()).iter_rows())
    return {name: means[name] for name in sorted(means, key=natural)}


class Fairness(Measure):
    """Differences between clients and between groups, at the last round."""

    name = "fairness"
    level = "scores"

    def measure(self, scene: Scene) -> Findings:
        """Score members and newcomers apart; a single client or group has no difference."""
        scores: dict[Key, Score] = {}
        for role in ROLES:
            rows = scene.last(role)
            if len(rows) < 2:
                continue
            metric = rows[0].metric
            values = [row.value for row in rows]
            scores[Key("fairness", "gini", role=role)] = Score(
                gini(values), 0.0, "lower", len(values), "index"
            )
            table = pl.DataFrame({"group": [r.group for r in rows], "value": values})
            groups = list(group_means(table).values())
            if 1 < len(groups) < len(rows):
                gap = max(groups) - min(groups)
                scores[Key("fairness", "group_gap", role=role)] = Score(
                    gap, 0.0, "lower", len(groups), UNITS[metric]
                )
        return Findings(scores, scene.rows(scores))

    def section(self, record: Record) -> Section | None:
        """Return the scores, and the mean of every group."""
        found = record.of("fairness")
        if not found:
            return None
        worst = record.scores
        rows = [
            (words, *(_cell(record, found.get(Key("fairness", name, role=role))) for role in ROLES))
            for name, words in _WORDS.items()
        ]
        rows += [
            (
                words,
                *(_cell(record, worst.get(Key("accuracy", question, role=role))) for role in ROLES),
            )
            for question, words in (("worst_decile", "worst tenth"), ("worst", "worst client"))
        ]
        scores = PlainTable(
            "Fairness",
            ("score", ">members", ">newcomers"),
            tuple(rows),
            "Means hide who is left behind. Groups differ in their classes and sizes, so a gap is "
            "not all the method's doing: compare it with that of another method on the same "
            "partition.",
        )
        return Section(
            "fairness",
            "Fairness",
            "How unequal clients are served.",
            [Grid("fairness", scores), *_group_grid(record)],
        )

    def compared(self, entries: Sequence[Entry]) -> Section | None:
        """Return the scores of all entries beside each other, as means over seeds."""
        columns = [(name, role) for role in ROLES for name in _WORDS]
        rows = []
        for entry in entries:
            cells = []
            for name, role in columns:
                key = Key("fairness", name, role=role)
                known = [r.scores[key].value for r in entry.records if key in r.scores]
                cells.append(f"{sum(known) / len(known):.3f}" if known else NOTHING)
            rows.append((entry.name, *cells))
        if all(cell == NOTHING for _, *cells in rows for cell in cells):
            return None
        heads = [f">{role}s, {name.replace('_', ' ')}" for name, role in columns]
        table = PlainTable("Fairness", ("entry", *heads), tuple(rows), "Lower is more equal.")
        return Section(
            "fairness", "Fairness", "How unequal clients are.", [Grid("fairness", table)]
        )


def _cell(record: Record, score: Score | None) -> str:
    if score is None:
        return NOTHING
    return f"{score.value:.3f}" if score.unit == "index" else value_text(score.value, record.metric)


def _group_grid(record: Record) -> list[Grid]:
    last = last_values(record.metrics, record.metric, record.rounds)
    means: dict[Role, dict[str, float]] = {
        role: group_means(last.filter(pl.col("kind") == role)) for role in ROLES
    }
    groups = sorted({*means["member"], *means["newcomer"]}, key=natural)
    if not 1 < len(groups) < last.height:
        return []
    rows = tuple(
        (
            group,
            *(
                value_text(means[role][group], record.metric) if group in means[role] else NOTHING
                for role in ROLES
            ),
        )
        for group in groups
    )
    table = PlainTable("Mean of every group", ("group", ">members", ">newcomers"), rows)
    return [Grid("group-means", table, is_folded=len(groups) > 12)]
