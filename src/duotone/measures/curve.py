"""The newcomer curve: how good a newcomer's model is after so many labelled samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from duotone.federation.backends import Backend
from duotone.federation.engine import ClientStates
from duotone.federation.method import Method
from duotone.federation.personalise import Wish, rules_with
from duotone.federation.serving import Serving
from duotone.measures.clients import Row, evaluate
from duotone.measures.summary import headline
from duotone.partition.partition import Population
from duotone.types import NewcomerRule


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


def newcomer_curve(
    method: Method,
    serving: Serving,
    shots: Sequence[int],
    last: Sequence[Row],
    population: Population,
    states: ClientStates,
    backend: Backend,
) -> list[Row]:
    """Score newcomers at every point of the curve; metrics are called ``accuracy@5``.

    Args:
        method: What was trained.
        serving: How clients got their models in the last evaluation.
        shots: Numbers of labelled samples.
        last: The rows of that evaluation, which may hold one of the points already.
        population: Every client's samples.
        states: Where client states are kept.
        backend: Where clients are computed.
    """
    metric = headline(row.metric for row in last)
    known = [row for row in last if row.role == "newcomer" and row.metric == metric]
    newcomers = [row.client for row in known]
    scored: dict[tuple[NewcomerRule, int | None], Sequence[Row]] = {
        (serving.rule, None if serving.rule == "zero-shot" else serving.shots): known
    }
    rows: list[Row] = []
    wish: Wish = "none" if serving.chosen is None else "auto"
    rules = rules_with(wish, method.rules(method.config))
    for name, point in curve_points(rules, shots).items():
        if point not in scored:
            rule, count = point
            there = replace(serving, rule=rule, shots=count, shelf=None)
            found = evaluate(there, newcomers, population, states, backend)
            scored[point] = [row for row in found if row.metric == metric]
        rows += [replace(row, metric=f"{metric}@{name}") for row in scored[point]]
    return rows
