from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import pytest
from federations import make_population
from scenes import make_scene

from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.serving import Serving
from duotone.federation.store import Shelf
from duotone.measures.curve import curve_points, newcomer_curve
from duotone.measures.evaluation import evaluate
from duotone.methods import METHODS
from duotone.networks.classifiers import cnn_bn

FEW, FREE, ZERO = "few-shot", "label-free", "zero-shot"


@pytest.mark.parametrize(
    ("rules", "points"),
    [
        ((ZERO,), {"0": (ZERO, None), "1": (ZERO, None), "5": (ZERO, None), "all": (ZERO, None)}),
        (
            (FREE,),
            {"1": (FREE, 1), "5": (FREE, 5), "all": (FREE, None), "unlabelled": (FREE, None)},
        ),
        ((FEW,), {"1": (FEW, 1), "5": (FEW, 5), "all": (FEW, None)}),
        (
            (FREE, ZERO),
            {
                **{"0": (ZERO, None), "1": (FREE, 1), "5": (FREE, 5), "all": (FREE, None)},
                "unlabelled": (FREE, None),
            },
        ),
        (
            (FEW, ZERO),
            {"0": (ZERO, None), "1": (FEW, 1), "5": (FEW, 5), "all": (FEW, None)},
        ),
        (
            (FEW, FREE),
            {"1": (FEW, 1), "5": (FEW, 5), "all": (FEW, None), "unlabelled": (FREE, None)},
        ),
        (
            (FEW, FREE, ZERO),
            {
                **{"0": (ZERO, None), "1": (FEW, 1), "5": (FEW, 5), "all": (FEW, None)},
                "unlabelled": (FREE, None),
            },
        ),
    ],
)
def test_the_points_are_those_the_rules_can_serve(rules, points):
    # Neither the order of the rules nor that of the numbers matters, nor a number given twice.
    assert curve_points(rules, [5, 1, 0, 1]) == points
    assert curve_points(rules[::-1], [0, 1, 5]) == points
    assert list(curve_points(rules, [5, 1, 0])) == list(points)


def test_every_combination_of_rules_has_a_point_for_all_samples():
    known = (FEW, FREE, ZERO)
    for size in (1, 2, 3):
        for rules in combinations(known, size):
            assert curve_points(rules, [])["all"] == (rules[0], None)


@dataclass
class Watched:
    """Computes in this process, and remembers which points were asked for."""

    inner: Serial
    asked: list[tuple[str, int | None, tuple[str, ...]]] = field(default_factory=list)
    level: str = "simulation"

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def map_clients(self, job, tasks):
        tasks = list(tasks)
        names = tuple(task.client for task in tasks)
        self.asked.append((job.serving.rule, job.serving.shots, names))
        return self.inner.map_clients(job, tasks)


def curve_of(name, shots, *, rule=None, shots_of_last=None, shelf=None):
    """Return method, the last evaluation, the curve after it and the points computed for it."""
    population = make_population(members=2, newcomers=2, samples=8)
    kind = METHODS.load(name)
    method = kind(kind.Config(epochs=1), cnn_bn)
    states = MemoryStates()
    (last,) = federate(method, population, rounds=1, states=states)
    serving = Serving(
        last.server, last.info, rule or method.newcomer_rules[0], shots_of_last, shelf=shelf
    )
    backend = Watched(Serial(method, population))
    rows = evaluate(serving, list(population.partition), population, states, backend)
    backend.asked.clear()
    scene = make_scene(
        method, population, serving, states=states, backend=backend, rows=rows, curve=shots
    )
    curve = newcomer_curve(scene, scene.last("newcomer"))
    return method, rows, [row for point in curve.values() for row in point], backend.asked


@pytest.mark.parametrize("name", sorted(METHODS))
def test_newcomers_of_every_method_are_scored_from_a_single_sample_on(name):
    method, rows, curve, asked = curve_of(name, [0, 1])
    points = curve_points(method.newcomer_rules, [0, 1])
    assert "1" in points
    assert [(row.metric, row.client) for row in curve] == [
        (f"accuracy@{point}", client) for point in points for client in ("c2", "c3")
    ]
    assert all(row.role == "newcomer" and 0 <= row.value <= 1 for row in curve)
    final = {row.client: row.value for row in rows if row.metric == "accuracy"}
    assert [row.value for row in curve if row.metric == "accuracy@all"] == [
        final["c2"],
        final["c3"],
    ]
    known = {(method.newcomer_rules[0], None)}
    assert {(rule, count) for rule, count, _ in asked} == set(points.values()) - known


def test_a_method_that_learns_nothing_from_samples_is_evaluated_once():
    _, rows, curve, asked = curve_of("fedavg", [0, 1, 5])
    assert asked == []
    final = {row.client: row.value for row in rows if row.metric == "accuracy"}
    assert len(curve) == 8
    assert all(row.value == final[row.client] for row in curve)


def test_the_last_evaluation_may_have_been_any_point_of_the_curve():
    _, rows, curve, asked = curve_of("fedbn", [1, 3], rule=FEW, shots_of_last=3)
    assert asked == [(FEW, 1, ("c2", "c3")), (FEW, None, ("c2", "c3")), (FREE, None, ("c2", "c3"))]
    final = {row.client: row.value for row in rows if row.metric == "accuracy"}
    assert {r.client: r.value for r in curve if r.metric == "accuracy@3"} == {
        client: final[client] for client in ("c2", "c3")
    }


def test_what_was_kept_of_the_last_evaluation_is_not_taken_for_another_point(tmp_path):
    _, _, plain, _ = curve_of("fedavg-ft", [1], rule=FEW)
    _, _, shelved, _ = curve_of("fedavg-ft", [1], rule=FEW, shelf=Shelf(tmp_path))
    assert shelved == plain
    assert {row.value for row in plain if row.metric == "accuracy@1"} != {
        row.value for row in plain if row.metric == "accuracy@all"
    }
