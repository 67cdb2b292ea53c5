"""How good are the predictions? Per client first, members and newcomers apart.

A score is the mean over clients with its standard deviation, never a pooled number in which large
clients hide small ones. The last round is reported, and beside it the round that validation data
would have chosen; never the round that happens to look best on test data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import polars as pl

from duotone.measures.inks import natural, titled
from duotone.measures.learning_figures import (
    MOST_BARS,
    MOST_GROUPS,
    client_figure,
    group_figure,
    hardest_groups,
    learning_figure,
    overlaid_figure,
)
from duotone.measures.measure import Entry, Findings, Measure, Record, Row, Scene
from duotone.measures.metrics import DIRECTIONS, UNITS, headline, number_text, value_text
from duotone.measures.panels import Panel, Section, Sentence, Tile, View
from duotone.measures.score import Key, Score
from duotone.types import ROLES, Role
from duotone.words import RULES

FEW_CLIENTS = 5


# -- selection and summary


def best_validation(table: pl.DataFrame) -> tuple[int, float] | None:
    """Return the evaluated round with the best mean validation score of the members, and that.

    The earliest of equals. ``None`` without validation data.
    """
    metric = headline(table["metric"])
    rows = table.filter((pl.col("metric") == f"val_{metric}") & (pl.col("kind") == "member"))
    best: tuple[int, float] | None = None
    for (number,), found in sorted(rows.group_by("round"), key=lambda item: int(item[0][0])):
        value = mean_validation(found["value"])
        if best is None or is_better(value, best[1], metric):
            best = (int(number), value)
    return best


def selected_round(table: pl.DataFrame) -> int | None:
    """Return the evaluated round that validation data would choose, if there is any."""
    best = best_validation(table)
    return None if best is None else best[0]


def selection(
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


def mean_validation(values: Iterable[float]) -> float:
    """Return the mean of members' validation scores, whatever their order."""
    known = list(values)
    return math.fsum(known) / len(known)


def is_better(value: float, than: float, metric: str) -> bool:
    """Say whether a validation score beats the best one so far."""
    return value > than if DIRECTIONS[metric] == "higher" else value < than


def headline_scores(rows: Sequence[Row]) -> dict[Key, float]:
    """Return the mean headline metric of members and newcomers."""
    metric = headline(row.metric for row in rows)
    scores: dict[Key, float] = {}
    for role in ROLES:
        values = [row.value for row in rows if row.metric == metric and row.role == role]
        if values:
            scores[Key("accuracy", metric, role=role)] = sum(values) / len(values)
    return scores


def summarise(table: pl.DataFrame) -> dict[Key, Score]:
    """Return the scores of a run, such as ``member.accuracy``.

    ``….selected`` is the same at the validation-selected round. ``member.worst_decile`` is the mean
    of the worst tenth of the clients (at least one), ``member.worst`` the worst client.
    """
    evaluated = table.filter(pl.col("metric").is_in(list(DIRECTIONS)))
    if evaluated.is_empty():
        return {}
    main = headline(table["metric"])
    rounds = {"": int(evaluated["round"].max())}  # type: ignore[arg-type]
    chosen = selected_round(table)
    if chosen is not None:
        rounds["selected"] = chosen
    scores: dict[Key, Score] = {}
    for variant, number in rounds.items():
        here = evaluated.filter(pl.col("round") == number)
        for role in ROLES:
            for metric, direction in sorted(DIRECTIONS.items()):
                values = _values(here, role, metric)
                if not values:
                    continue
                found = {metric: values}
                if metric == main:
                    found["worst_decile"] = values[: max(1, len(values) // 10)]
                    found["worst"] = values[:1]
                for question, some in found.items():
                    key = Key("accuracy", question, variant=variant, role=role)
                    scores[key] = Score.over(some, direction, UNITS[metric])
    return scores


def _values(table: pl.DataFrame, role: Role, metric: str) -> list[float]:
    """Return the clients' values of a metric, worst first."""
    rows = table.filter((pl.col("kind") == role) & (pl.col("metric") == metric))
    return sorted(rows["value"].to_list(), reverse=DIRECTIONS[metric] == "lower")


# -- the tables behind the figures


def learning_curves(
    metrics: pl.DataFrame, metric: str, by: Sequence[str] = ("kind",)
) -> pl.DataFrame:
    """Return ``round, *by, mean, std, clients``: a metric over clients, round by round.

    Args:
        metrics: The tidy table of a run.
        metric: Which metric.
        by: What curves are apart by: ``kind``, or ``kind`` and ``group``.
    """
    return (
        metrics.filter(pl.col("metric") == metric)
        .group_by("round", *by)
        .agg(
            pl.col("value").mean().alias("mean"),
            pl.col("value").std(ddof=0).alias("std"),
            pl.len().cast(pl.Int64).alias("clients"),
        )
        .sort(*by, "round")
    )


def last_values(metrics: pl.DataFrame, metric: str, number: int) -> pl.DataFrame:
    """Return ``client, group, kind, value``: what each client reached in a round."""
    return metrics.filter((pl.col("metric") == metric) & (pl.col("round") == number)).select(
        "client", "group", "kind", "value"
    )


def entry_curves(entry: Entry, metric: str) -> pl.DataFrame:
    """Return ``entry, kind, round, mean, std, seeds`` of the rounds that all seeds have."""
    seeds = pl.concat([learning_curves(record.metrics, metric) for record in entry.records])
    return (
        seeds.group_by("kind", "round")
        .agg(
            pl.col("mean").mean(),
            pl.col("mean").std(ddof=0).alias("std"),
            pl.len().cast(pl.Int64).alias("seeds"),
        )
        .filter(pl.col("seeds") == len(entry.records))
        .select(pl.lit(entry.name).alias("entry"), "kind", "round", "mean", "std", "seeds")
        .sort("kind", "round")
    )


def worst_client(last: pl.DataFrame, role: str, metric: str) -> tuple[str, str, float]:
    """Return name, group and value of the worst client of a role; the first of equals by name."""
    sign = 1 if DIRECTIONS[metric] == "higher" else -1
    rows = last.filter(pl.col("kind") == role).select("client", "group", "value").rows()
    client, group, value = min(rows, key=lambda row: (sign * row[2], natural(row[0])))
    return str(client), str(group), float(value)


# -- the measure


class Accuracy(Measure):
    """Scores of the predictions, from what every evaluation left in the tidy table."""

    name = "accuracy"
    level = "scores"

    def measure(self, scene: Scene) -> Findings:
        """Summarise the last and the validation-selected round."""
        return Findings(summarise(scene.metrics))

    def section(self, record: Record) -> Section:
        """Return the curves of members, newcomers and groups, and every client's score."""
        metric = record.metric
        last = last_values(record.metrics, metric, record.rounds)
        curves = learning_curves(record.metrics, metric)
        panels = [
            _learning_panel(curves, record),
            *_group_panel(record),
            _client_panel(last, record),
        ]
        losses = learning_curves(record.metrics, "train_loss")
        intro = "The clients' scores on their own test samples. A mean hides who is left behind."
        if not losses.is_empty():
            first, end = losses["mean"][0], losses["mean"][-1]
            intro += f" The mean training loss went from {first:.3g} to {end:.3g}."
        roles = [role for role in ROLES if (last["kind"] == role).any()]
        return Section(
            "learning",
            "Learning",
            intro,
            panels,
            [_sentence(record, last, role) for role in roles],
            _caveats(last, curves, metric),
            [_tile(record, last, role) for role in roles],
        )

    def compared(self, entries: Sequence[Entry]) -> Section:
        """Return the learning curves over each other."""
        metric = entries[0].records[0].metric
        pooled = pl.concat([entry_curves(entry, metric) for entry in entries])
        views = [
            View((f"{role}s",), overlaid_figure(own, metric))
            for role in ROLES
            if not (own := pooled.filter(pl.col("kind") == role)).is_empty()
        ]
        panel = Panel(
            "curves",
            f"{titled(metric)} by round",
            tuple(views),
            "Which entry learns fast, and which ends high: that need not be the same one.",
            "The shade is one standard deviation over seeds; a single seed has none, which is not "
            "certainty. Overlapping shades do not prove equality, nor separate ones a difference: "
            "see the tests.",
            pooled,
            ("clients",),
        )
        return Section("curves", "Curves", "Mean over clients, then over seeds.", [panel])


def _learning_panel(curves: pl.DataFrame, record: Record) -> Panel:
    metric = record.metric
    return Panel(
        "learning",
        f"{titled(metric)} by round",
        (View((), learning_figure(curves, metric)),),
        "Whether the curves have levelled off, and how far newcomers stay behind members. "
        "The shade is one standard deviation over clients.",
        "The shade is spread between clients, not the uncertainty of the mean. Only evaluated "
        f"rounds are drawn ({curves['round'].n_unique()} of {record.rounds}), each on test "
        "samples: choosing a round by this curve would be choosing on test data.",
        curves,
    )


def _group_panel(record: Record) -> list[Panel]:
    metric = record.metric
    groups = learning_curves(record.metrics, metric, ("kind", "group"))
    if groups["group"].n_unique() < 2:
        return []
    shown = len(hardest_groups(groups, metric))
    cut = f" The {shown} groups that ended worst are drawn." if shown == MOST_GROUPS else ""
    return [
        Panel(
            "groups",
            f"{titled(metric)} by round, group by group",
            (View((), group_figure(groups, metric)),),
            "Groups that learn late, or fall while the mean rises." + cut,
            "A group may be a single client, and then has no shade. Groups differ in their labels, "
            "so equal heights are not equally hard to reach.",
            groups,
            min_width=680,
        )
    ]


def _client_panel(last: pl.DataFrame, record: Record) -> Panel:
    tested = record.tables.get("holdings", {}).get("tested", {})
    if set(last["client"]) <= set(tested):
        last = last.with_columns(pl.Series("test_samples", [tested[c] for c in last["client"]]))
    cut = f" Of {last.height} clients the {MOST_BARS} worst are drawn."
    return Panel(
        "clients",
        f"{titled(record.metric)} of every client at the last round",
        (View((), client_figure(last, record.metric)),),
        "The lower end, and whether newcomers gather there. Vertical lines are the means."
        + (cut if last.height > MOST_BARS else ""),
        "A client with few test samples is high or low by luck; the pointer shows how many it has. "
        "Clients with one or two labels have an easier task.",
        last,
    )


def _sentence(record: Record, last: pl.DataFrame, role: Role) -> Sentence:
    metric = record.metric
    score = record.scores[Key("accuracy", metric, role=role)]
    name, group, worst = worst_client(last, role, metric)
    whose = f" of group {group}" if group not in ("", name) else ""
    given = f", giving {RULES[record.summary['newcomer_rule']]}," if role == "newcomer" else ""
    if score.n == 1:
        text = (
            f"The only {role}, {name}{whose}{given} reaches {value_text(worst, metric)} {metric} "
            "on its own test samples."
        )
    else:
        unit = " points" if metric == "accuracy" else ""
        text = (
            f"The {score.n} {role}s{given} reach {value_text(score.value, metric)} {metric} on "
            f"their own test samples (mean over clients, standard deviation "
            f"{number_text(score.std, metric)}{unit}); the worst is client {name}{whose} with "
            f"{value_text(worst, metric)}."
        )
    return Sentence(f"{role.capitalize()}s", text)


def _tile(record: Record, last: pl.DataFrame, role: Role) -> Tile:
    metric = record.metric
    score = record.scores[Key("accuracy", metric, role=role)]
    client, _, worst = worst_client(last, role, metric)
    note = f"worst: client {client}, {value_text(worst, metric)}"
    return Tile(f"{role}s, {metric}", value_text(score.value, metric), note)


def _caveats(last: pl.DataFrame, curves: pl.DataFrame, metric: str) -> list[str]:
    found = ["one seed, so how much another would differ is unknown"]
    counts = {role: int((last["kind"] == role).sum()) for role in ROLES}
    few = [f"{n} {role}{'s'[: n != 1]}" for role, n in counts.items() if 0 < n < FEW_CLIENTS]
    if few:
        found.append(f"only {' and '.join(few)}, so a mean over clients says little")
    means = curves.filter(pl.col("kind") == "member")["mean"].to_list()[-2:]
    if len(means) == 2:
        gain = means[1] - means[0] if DIRECTIONS[metric] == "higher" else means[0] - means[1]
        if gain > 0.01 * abs(means[1]):
            found.append("members were still improving at the last round")
    return found
