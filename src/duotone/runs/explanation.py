"""What a card is to those who ask a run for one; :mod:`duotone.explain` makes them."""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

Reference: TypeAlias = Literal["members", "shared"]
"""Whom an answer is compared with."""


class Explanation(Protocol):
    """A card: text when printed, a picture in a notebook, and data for machines."""

    def as_json(self) -> dict[str, Any]:
        """Return its content, for machines."""
        ...

    def html(self) -> str:
        """Return it as a page that needs nothing else."""
        ...

    def _repr_html_(self) -> str:
        """Return it as a part of a page, for notebooks."""
        ...
