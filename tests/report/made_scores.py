"""Scores made by hand."""

from __future__ import annotations

from duotone.federation.method import Part
from duotone.measures.score import Key, Score
from duotone.types import Unit


def probe(
    question: str, part: Part, mlp: float, chance: float, untrained: float, unit: Unit = "share"
) -> dict[Key, Score]:
    """Return a probe with its references, every interval 0.04 wide."""
    key = Key("probe", question, part=part)
    values = {"": mlp, "linear": mlp - 0.1, "control": chance, "untrained": untrained}
    values |= {"control95": chance + 0.03, "bar": chance + 0.04, "linear.bar": chance + 0.04}
    scores = {
        key.beside(variant): Score(value, 0.01, "lower", 400, unit, value - 0.02, value + 0.02)
        for variant, value in values.items()
    }
    return {**scores, key.beside("chance"): Score(chance, 0.0, "reference", 400, unit)}
