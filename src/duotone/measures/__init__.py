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


KNOWN = ("holdings", "accuracy", "fairness", "refusals", "traffic")
"""Measures of what a run knows anyway: always there."""
SLOW = ("probes", "factors", "swaps", "generation", "restyling")
"""Measures that train networks to answer their question."""


def chosen_measures(choice: str) -> list[str]:
    """Return the names of the measures that the setting ``measure`` asks for, in their order.

    Args:
        choice: ``full``, ``fast`` (without the slow ones), ``none`` (only what is known anyway), or
            names with commas between them, beside what is known anyway.

    Raises:
        UnknownNameError: Nobody knows a name; the message suggests the nearest one.
    """
    if choice == "full":
        return list(MEASURES)
    if choice == "fast":
        return [name for name in MEASURES if name not in SLOW]
    asked = [] if choice == "none" else [name.strip() for name in choice.split(",")]
    for name in asked:
        if name not in MEASURES:
            MEASURES.load(name)  # says what is wrong
    return [name for name in MEASURES if name in KNOWN or name in asked]


def all_measures(choice: str = "full") -> list[Measure]:
    """Return every measure, or those that were chosen; those of other packages last."""
    return [MEASURES.load(name)() for name in chosen_measures(choice)]
