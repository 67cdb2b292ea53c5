"""Answers about one prediction and one client of a finished run.

run.client("b").explain(x, against="a")     why b says so, and why a says something else
run.card("b")                               what is typical of b
"""

from __future__ import annotations

from duotone.explain.card import Card
from duotone.explain.prediction import explain
from duotone.explain.witnesses import Federation

__all__ = ["Card", "Federation", "explain"]
