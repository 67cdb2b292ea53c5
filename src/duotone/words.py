"""Words that the command line and written results have in common; importing them costs nothing."""

from __future__ import annotations

RULES = {"zero-shot": "nothing", "label-free": "inputs", "few-shot": "labels"}
"""What newcomers start from, in a word."""


def span_text(seconds: float) -> str:
    """Return a duration for people.

    >>> span_text(12.3), span_text(95), span_text(5400)
    ('12 s', '2 min', '1 h 30 min')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
