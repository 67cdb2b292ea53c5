"""Words that the command line and written results have in common; importing them costs nothing."""

from __future__ import annotations

RULES = {"zero-shot": "nothing", "label-free": "inputs", "few-shot": "labels"}
"""What newcomers start from, in a word."""
