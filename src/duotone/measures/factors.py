"""What is known of the true factors of data: whose they are, and which of them are angles."""

from __future__ import annotations

from duotone.data.planted import FACTORS
from duotone.data.styles import STYLE_FACTORS
from duotone.federation.method import Part

ANGLES = ("phase",)
"""Factors in radians: values near both ends are alike, so they are read as cosine and sine."""


def part_of(question: str, data: str | None) -> Part | None:
    """Return the part that should know the answer to a question, where that is known.

    Args:
        question: ``client``, ``group``, ``label``, or the name of a factor.
        data: Name of the data set, which says whose its factors are.
    """
    factors = FACTORS.get(data or "", {})
    # A look belongs to a client or its group.
    if question in ("client", "group", *STYLE_FACTORS, *factors.get("local", ())):
        return "local"
    return "shared" if question in ("label", *factors.get("shared", ())) else None
