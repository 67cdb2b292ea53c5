"""How good is a newcomer's model after so many labelled samples? The newcomer curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import plotly.graph_objects as go
import polars as pl

from duotone.federation.personalise import Wish, rules_with
from duotone.measures.evaluation import evaluate
from duotone.measures.inks import ROLE, ROLE_SYMBOL, faded, figure, metric_axis, number_format
from duotone.measures.measure import Findings, Measure, Record, Row, Scene
from duotone.measures.metrics import DIRECTIONS, UNITS
from duotone.measures.panels import Panel, Section, View, count_text
from duotone.measures.score import Key, Score
from duotone.types import NewcomerRule
from duotone.words import RULES


def curve_points(
    rules: Sequence[NewcomerRule], shots: Sequence[int]
) -> dict[str, tuple[NewcomerRule, int | None]]:
    """Return the points of the curve by name: the rule a newcomer uses there, and its samples.

    With k labelled samples a newcomer uses the rule of the method that makes most of them; a method
    that learns nothing from samples is as good with them as without. A point the method cannot
    serve is left out. "all" is every training sample, "unlabelled" the same without labels.
    """
    known: tuple[NewcomerRule, ...] = ("few-shot", "label-free", "zero-shot")
    best = next(rule for rule in known if rule in rules)
    points: dict[str, tuple[NewcomerRule, int | None]] = {}
    for count in sorted(set(shots)):
        if count == 0 and "zero-shot" in rules:
            points["0"] = ("zero-shot", None)
        elif count > 0:
            points[str(count)] = (best, None if best == "zero-shot" else count)
    points["all"] = (best, None)
    if "label-free" in rules:
        points["unlabelled"] = ("label-free", None)
    return points


def newcomer_curve(scene: Scene, known: Sequence[Row]) -> dict[str, list[Row]]:
    """Score newcomers at every point of the curve; return rows by point.

    Args:
        scene: The trained federation.
        known: Newcomers' scores of the last evaluation, which may be one of the points.
    """
    serving, metric = scene.serving, known[0].metric
    newcomers = [row.client for row in known]
    scored: dict[tuple[NewcomerRule, int | None], Sequence[Row]] = {
        (serving.rule, None if serving.rule == "zero-shot" else serving.shots): known
    }
    wish: Wish = "none" if serving.chosen is None else "auto"
    rules = rules_with(wish, scene.method.rules(scene.method.config))
    found: dict[str, list[Row]] = {}
    for name, point in curve_points(rules, scene.config.curve).items():
        if point not in scored:
            rule, count = point
            there = replace(serving, rule=rule, shots=count, shelf=None)
            rows = evaluate(there, newcomers, scene.population, scene.states, scene.backend)
            scored[point] = [row for row in rows if row.metric == metric]
        found[name] = [replace(row, metric=f"{metric}@{name}") for row in scored[point]]
    return found


class Curve(Measure):
    """Newcomers' scores by what they give."""

    name = "curve"
    level = "scores"

    def applies(self, scene: Scene) -> bool:
        """Say whether a curve was asked for, and somebody is there to draw it."""
        return bool(scene.config.curve) and bool(scene.last("newcomer"))

    def measure(self, scene: Scene) -> Findings:
        """Score newcomers at every point."""
        known = scene.last("newcomer")
        metric = known[0].metric
        points = newcomer_curve(scene, known)
        scores: dict[Key, Score] = {}
        for point, rows in points.items():
            values = sorted((row.value for row in rows), reverse=DIRECTIONS[metric] == "lower")
            if values:
                key = Key("curve", metric, variant=point, role="newcomer")
                scores[key] = Score.over(values, DIRECTIONS[metric], UNITS[metric])
        return Findings(scores, [row for rows in points.values() for row in rows])

    def section(self, record: Record) -> Section | None:
        """Return how newcomers fare by what they give."""
        found = record.of("curve")
        if not found:
            return None
        points = pl.DataFrame(
            [
                {"point": key.variant, "mean": score.value, "std": score.std, "clients": score.n}
                for key, score in found.items()
            ]
        )
        most = max(score.n for score in found.values())
        panel = Panel(
            "newcomer-curve",
            f"Newcomers' {record.metric} by what they give",
            (View((), newcomer_figure(points, record.metric)),),
            "How many labelled samples it takes to reach the members. “all” is every training "
            "sample, “unlabelled” the same without labels.",
            "A method that learns nothing from newcomers' samples is drawn flat: it is as good "
            "with them as without. Bars are the standard deviation over "
            f"{count_text(most, 'newcomer')}.",
            points,
        )
        intro = (
            "Newcomers join when training is over. In all other numbers of this page they give "
            f"{RULES[record.summary['newcomer_rule']]}."
        )
        return Section("newcomers", "Newcomers", intro, [panel])


def newcomer_figure(points: pl.DataFrame, metric: str) -> go.Figure:
    """Draw how good newcomers are by the labelled samples they give.

    Args:
        points: ``point, mean, std``, in order.
        metric: What was measured.
    """
    result = figure(320, yaxis=metric_axis(metric))
    result.add_scatter(
        x=points["point"].to_list(),
        y=points["mean"].to_numpy(),
        error_y={"array": points["std"].to_numpy(), "color": faded(ROLE["newcomer"], 0.6)},
        mode="markers+lines",
        line={"color": faded(ROLE["newcomer"], 0.5), "dash": "dash"},
        marker={"color": ROLE["newcomer"], "symbol": ROLE_SYMBOL["newcomer"], "size": 9},
        showlegend=False,
        hovertemplate="%{x}: %{y:" + number_format(metric) + "}<extra></extra>",
    )
    result.update_xaxes(type="category", title={"text": "labelled samples per newcomer"})
    return result
