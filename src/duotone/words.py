"""Words that the command line and written results have in common; importing them costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what loads torch
    from duotone.types import Role

ROLES: tuple[Role, ...] = ("member", "newcomer")
"""The roles of clients, in the order in which results name them."""

RULES = {"zero-shot": "nothing", "label-free": "inputs", "few-shot": "labels"}
"""What newcomers start from, in a word."""
