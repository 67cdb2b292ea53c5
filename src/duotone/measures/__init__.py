"""Measures: one file per question asked of a trained federation.

Beside them stand the tools they share: judges, attackers, codes, figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duotone.registry import Registry

if TYPE_CHECKING:
    from duotone.measures.measure import Measure

MEASURES = Registry(
    "measure",
    {
        "holdings": "duotone.measures.holdings:Holdings",
        "accuracy": "duotone.measures.accuracy:Accuracy",
        "fairness": "duotone.measures.fairness:Fairness",
        "calibration": "duotone.measures.calibration:Calibration",
        "answers": "duotone.measures.client_answers:Answers",
        "curve": "duotone.measures.curve:Curve",
        "concepts": "duotone.measures.concepts:ConceptsFound",
        "probes": "duotone.measures.probes:Probes",
        "factors": "duotone.measures.factors:Factors",
        "groups": "duotone.measures.groups:Groups",
        "swaps": "duotone.measures.swaps:Swaps",
        "generation": "duotone.measures.generation:Generation",
        "restyling": "duotone.measures.restyling:Restyling",
        "maps": "duotone.measures.maps:Maps",
        "refusals": "duotone.measures.refusals:RefusalsFound",
        "waiting": "duotone.measures.waiting:Waiting",
        "traffic": "duotone.measures.traffic:Traffic",
    },
)
"""All measures, in the order in which a report shows them."""


def all_measures() -> list[Measure]:
    """Return every measure, those of other packages last."""
    return [MEASURES.load(name)() for name in MEASURES]
