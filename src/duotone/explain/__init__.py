"""Answers about one prediction and one client of a finished run.

run.client("b").explain(x, against="a")     why b says so, and why a says something else
run.card("b")                               what is typical of b
run.card()                                  what all answers are made of
"""

from __future__ import annotations

from duotone.explain.card import Card
from duotone.explain.overview import FederationCard, federation_card
from duotone.explain.policy import Policy, PolicyCard, policy_card, read_policy
from duotone.explain.portrait import ClientCard, client_card
from duotone.explain.prediction import explain
from duotone.explain.witnesses import Federation

__all__ = [
    "Card",
    "ClientCard",
    "Federation",
    "FederationCard",
    "Policy",
    "PolicyCard",
    "client_card",
    "explain",
    "federation_card",
    "policy_card",
    "read_policy",
]
