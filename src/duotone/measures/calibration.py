"""Do clients' models know how sure they may be? Expected calibration error, with its picture.

A model that says 90 % should be right in 90 of 100 such answers. Answers are sorted into bins by
their confidence; the expected calibration error is the mean distance between confidence and
accuracy of the bins, weighted by their answers (Guo, Pleiss, Sun, Weinberger: *On Calibration of
Modern Neural Networks*, ICML 2017). Where clients adjust their models to their inputs, the same is
measured without that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import plotly.graph_objects as go
import polars as pl
import torch
from numpy.typing import NDArray

from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.screening import Refused
from duotone.federation.serving import Serving
from duotone.measures.inks import GREY, ROLE, ROLE_SYMBOL, figure
from duotone.measures.measure import Entry, Findings, Measure, Record, Scene
from duotone.measures.panels import NOTHING, Grid, Panel, PlainTable, Section, View
from duotone.measures.score import Key, Score
from duotone.networks.reading import in_batches
from duotone.partition.partition import Population
from duotone.seeding import stream
from duotone.types import ROLES

BINS = 15
_DRAWS = 200
_VARIANTS = {"": "as served", "unadjusted": "without adjustment to inputs"}

Counts = NDArray[np.float64]
"""For each bin: answers, sum of confidences, right answers ``(3, bins)``."""


def reliability(probabilities: NDArray[np.float64], y: NDArray[np.int64]) -> Counts:
    """Count answers by confidence in equal bins.

    Args:
        probabilities: ``(samples, classes)``.
        y: True classes.
    """
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == y
    place = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    return np.stack(
        [np.bincount(place, weights, minlength=BINS) for weights in (None, confidence, right)]
    ).astype(np.float64)


def expected_error(counts: Counts) -> float:
    """Return the expected calibration error of counted answers: 0 to 1, 0 at best."""
    answers, confidence, right = counts
    return float(np.abs(confidence - right).sum() / answers.sum())


@travels
@dataclass(frozen=True, slots=True)
class CalibrationJob:
    """Count a client's answers to its test samples by their confidence."""

    level: ClassVar[Level] = "scores"
    sends: ClassVar[str] = "confidence counts"

    serving: Serving

    def __call__(self, method: Method, population: Population, task: ClientTask) -> Counts:
        """Return the counts."""
        model = self.serving.model(method, population, task)
        data = population.data(task.client, "test")
        with torch.inference_mode():
            output = in_batches(lambda x: method.predict(model, x.to(method.device)), data.x)
        return reliability(output.cpu().double().softmax(dim=1).numpy(), data.labels.numpy())

    def screened(self, answer: Any, client: str, population: Population) -> Counts:
        """Return the counts, if they can be those of a client's test samples.

        Raises:
            Refused: They cannot.
        """
        is_form = isinstance(answer, np.ndarray) and answer.shape == (3, BINS)
        if not is_form or answer.dtype.kind != "f" or not np.isfinite(answer).all():
            raise Refused("its confidence counts have another form")
        answers, *parts = answer
        most = population.partition.size(client, "test")
        if (
            answer.min() < 0
            or answers.sum() > most
            or any((p > answers + 1e-6).any() for p in parts)
        ):
            raise Refused(f"its confidence counts are not those of {most} answers")
        found: Counts = answer
        return found


class Calibration(Measure):
    """Confidence against accuracy, over the test samples of members and of newcomers."""

    name = "calibration"
    level = "scores"
    file = "calibration"

    def applies(self, scene: Scene) -> bool:
        """Say whether there are classes to be sure of."""
        return scene.population.info.task == "classes"

    def measure(self, scene: Scene) -> Findings:
        """Score members and newcomers, with and without adjustment where there is one."""
        servings = {"": scene.serving}
        chosen = scene.serving.chosen
        if chosen is not None and chosen.way != "none":
            servings["unadjusted"] = replace(scene.serving, chosen=None)
        scores: dict[Key, Score] = {}
        kept: list[dict[str, Any]] = []
        for variant, serving in servings.items():
            counted = scene.ask(CalibrationJob(serving))
            for role in ROLES:
                own = {
                    c: n for c, n in counted.items() if scene.population.partition[c].role == role
                }
                if own:
                    key = Key("calibration", "ece", variant=variant, role=role)
                    scores[key] = _score(list(own.values()), scene.seed)
                    kept += [
                        {"client": c, "kind": role, "variant": variant, "counts": n.tolist()}
                        for c, n in own.items()
                    ]
        return Findings(scores, scene.rows(scores), {"clients": kept})

    def section(self, record: Record) -> Section | None:
        """Return the reliability picture and the errors."""
        found = record.of("calibration")
        if not found:
            return None
        curves = _curves(record.tables["calibration"]["clients"])
        views = tuple(
            View((words,), _figure(curves.filter(pl.col("variant") == variant)))
            for variant, words in _VARIANTS.items()
            if (curves["variant"] == variant).any()
        )
        panel = Panel(
            "reliability",
            "How sure models are, and how often they are right",
            views,
            "Marks below the line: models are surer than they may be. Above it: they are too "
            "modest. Large marks are bins with many answers.",
            "Answers of all clients are put together: one client's excess and another's modesty "
            "cancel out. Bins with few answers stray by chance. Confidence is the largest "
            "probability a model gives, whatever the other classes get.",
            curves,
            ("models",),
        )
        rows = tuple(
            (
                words,
                *(_cell(found.get(Key("calibration", "ece", variant=v, role=r))) for r in ROLES),
            )
            for v, words in _VARIANTS.items()
            if any(key.variant == v for key in found)
        )
        table = PlainTable(
            "Expected calibration error",
            ("models", ">members", ">newcomers"),
            rows,
            f"{BINS} bins of equal width; 0 is best. ± is the standard error over clients.",
        )
        return Section(
            "calibration",
            "Calibration",
            "Whether a confidence can be taken at its word.",
            [panel, Grid("calibration", table)],
        )

    def compared(self, entries: Sequence[Entry]) -> Section | None:
        """Return the errors of all entries beside each other, as means over seeds."""
        rows = []
        for entry in entries:
            cells = []
            for role in ROLES:
                key = Key("calibration", "ece", role=role)
                known = [r.scores[key].value for r in entry.records if key in r.scores]
                cells.append(f"{sum(known) / len(known):.3f}" if known else NOTHING)
            rows.append((entry.name, *cells))
        if all(cell == NOTHING for _, *cells in rows for cell in cells):
            return None
        heads = ("entry", ">members", ">newcomers")
        table = PlainTable("Expected calibration error", heads, tuple(rows), "Lower is better.")
        intro = "Whether a confidence can be taken at its word."
        return Section("calibration", "Calibration", intro, [Grid("calibration", table)])


def _keys(variant: str) -> list[Key]:
    return [Key("calibration", "ece", variant=variant, role=role) for role in ROLES]


def _score(counts: Sequence[Counts], seed: int) -> Score:
    """Return the error over all answers, with its standard error over clients."""
    table = np.stack(counts)
    rng = stream(seed, "calibration", "bootstrap")
    drawn = rng.integers(len(table), size=(_DRAWS, len(table)))
    spread = float(np.std([expected_error(table[rows].sum(axis=0)) for rows in drawn]))
    answers = int(table[:, 0].sum())
    return Score(expected_error(table.sum(axis=0)), spread, "lower", answers, "index")


def _curves(clients: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return ``variant, kind, confidence, accuracy, answers``, a row for each bin with answers."""
    totals: dict[tuple[str, str], Counts] = {}
    for own in clients:
        name = (own["variant"], own["kind"])
        totals[name] = totals.get(name, np.zeros((3, BINS))) + np.array(own["counts"])
    return pl.DataFrame(
        [
            {
                "variant": variant,
                "kind": role,
                "confidence": confidence / answers,
                "accuracy": right / answers,
                "answers": int(answers),
            }
            for (variant, role), counts in totals.items()
            for answers, confidence, right in counts.T
            if answers
        ]
    )


def _figure(curves: pl.DataFrame) -> go.Figure:
    result = figure(
        380,
        xaxis={"title": {"text": "confidence"}, "range": [0, 1.03], "tickformat": ".0%"},
        yaxis={
            "title": {"text": "share of right answers"},
            "range": [0, 1.03],
            "tickformat": ".0%",
        },
    )
    line = {"color": GREY, "dash": "dot", "width": 1.5}
    result.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line=line, name="calibrated")
    most = max(curves["answers"])
    for role, ink in ROLE.items():
        own = curves.filter(pl.col("kind") == role).sort("confidence")
        if own.is_empty():
            continue
        result.add_scatter(
            x=own["confidence"].to_numpy(),
            y=own["accuracy"].to_numpy(),
            mode="lines+markers",
            line={"color": ink, "width": 1.5},
            marker={
                "symbol": ROLE_SYMBOL[role],
                "size": 6 + 12 * np.sqrt(own["answers"].to_numpy() / most),
            },
            name=f"{role}s",
            customdata=own["answers"].to_numpy(),
            hovertemplate="said %{x:.0%}, right %{y:.0%} of %{customdata}<extra></extra>",
        )
    return result


def _cell(score: Score | None) -> str:
    return NOTHING if score is None else f"{score.value:.3f} ± {score.std:.3f}"
