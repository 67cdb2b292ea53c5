"""Does each part, and each dimension, stand for its own factors? Disentanglement scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from duotone.measures.codes import PARTS, CodeTable, code_table
from duotone.measures.disentanglement import hsic, total_correlation
from duotone.measures.factor_tables import measure_dimensions, measure_parts, part_scores
from duotone.measures.measure import Findings, Measure, Record, Scene
from duotone.measures.panels import Grid, PlainTable, Section, score_text
from duotone.measures.readings import Readings, readings
from duotone.measures.score import Aim, Key, Score
from duotone.seeding import derive, stream
from duotone.types import Unit


def factor_scores(table: CodeTable, read: Readings) -> dict[Key, Score]:
    """Score single dimensions of all codes, and the parts as wholes, against the factors."""
    rows, factors = table.members, table.factors()
    if not factors:
        return {}
    codes = np.concatenate(list(table.parts.values()), axis=1)
    seed = derive(table.seed, "separation", "factors")
    fold = rows.folds[0]
    known = [asking.at(fold.train) for asking in factors]
    asked = [a.at(fold.test).about_known(k) for a, k in zip(factors, known, strict=True)]
    dimensions = measure_dimensions(codes[fold.train], known, codes[fold.test], asked, seed)
    found = {Key("dims", name): value for name, value in dimensions.scores().items()}
    if len(table.parts) == len(PARTS):
        names = [asking.name for asking in factors]
        chance = [Key("probe", name, part="shared", variant="chance") for name in names]
        parts = measure_parts(
            [[read.scores[Key("probe", name, part=part)] for name in names] for part in PARTS],
            [read.scores[key].value for key in chance],
            [[read.answers[part][name] for name in names] for part in PARTS],
            table.asked(factors),
        )
        wholes = part_scores(parts, [table.owners[name] for name in names])
        found |= {Key("parts", name): value for name, value in wholes.items()}
    return {
        key: Score(value, 0.0, "higher", len(rows.test), "index") for key, value in found.items()
    }


def dependence_scores(table: CodeTable) -> dict[Key, Score]:
    """Score how much one part tells about the other; beside it the same for shuffled samples."""
    if len(table.parts) < len(PARTS):
        return {}
    rows = table.members.test
    shared, local = table.parts["shared"][rows], table.parts["local"][rows]
    rng = stream(table.seed, "separation", "dependence")
    shuffled = local[rng.permutation(len(rows))]
    values: dict[Key, tuple[float, Aim, Unit]] = {
        Key("parts", "hsic"): (hsic(shared, local, rng), "lower", "index"),
        Key("parts", "hsic", variant="control"): (
            hsic(shared, shuffled, rng),
            "reference",
            "index",
        ),
        Key("parts", "total_correlation"): (total_correlation(shared, local), "lower", "nats"),
        Key("parts", "total_correlation", variant="control"): (
            total_correlation(shared, shuffled),
            "reference",
            "nats",
        ),
    }
    return {
        key: Score(value, 0.0, direction, len(rows), unit)
        for key, (value, direction, unit) in values.items()
    }


class Factors(Measure):
    """Disentanglement of parts and dimensions, and how much one part tells about the other."""

    name = "factors"
    ahead = (readings,)

    _words: ClassVar[Mapping[str, str]] = {
        "mig": "MIG",
        "sap": "SAP",
        "modularity": "modularity",
        "disentanglement": "disentanglement (DCI)",
        "completeness": "completeness (DCI)",
        "informativeness": "informativeness (DCI)",
    }

    def applies(self, scene: Scene) -> bool:
        """Say whether codes are kept and there is something to ask about them."""
        if not scene.config.latents or not scene.clients:
            return False
        table = scene.once(code_table)
        return bool(table.parts and table.questions and len(table.members.test))

    def measure(self, scene: Scene) -> Findings:
        """Score the codes of the members."""
        table = scene.once(code_table)
        with threadpool_limits(1):  # more threads change the order of sums
            scores = factor_scores(table, scene.once(readings)) | dependence_scores(table)
        return Findings(scores, scene.rows(scores))

    def section(self, record: Record) -> Section | None:
        """Return disentanglement over parts and over dimensions."""
        scores = record.scores
        over = {
            measure: words
            for measure, words in (("parts", "parts"), ("dims", "dimensions"))
            if any(Key(measure, name) in scores for name in self._words)
        }
        if not over:
            return None
        rows = tuple(
            (words, *(score_text(scores.get(Key(measure, name))) for measure in over))
            for name, words in self._words.items()
            if any(Key(measure, name) in scores for measure in over)
        )
        dependence = [
            f"{words} {score_text(scores[key])}"
            for key, words in (
                (Key("parts", "hsic"), "HSIC"),
                (Key("parts", "total_correlation"), "total correlation"),
            )
            if key in scores
        ]
        note = "From 0 to 1, higher is better, against all known factors: the two parts taken as "
        note += "two dimensions, and every dimension for itself."
        if dependence:
            note += f" Dependence between the parts (0: none): {', '.join(dependence)}."
        heads = ("score", *(f">{words}" for words in over.values()))
        table = PlainTable("Disentanglement", heads, rows, note)
        intro = "Whether each part, and each dimension, stands for factors of its own."
        return Section("factors", "Disentanglement", intro, [Grid("factors", table)])
