"""What cards and the explorer are to those who ask a run for them.

:mod:`duotone.explain` and :mod:`duotone.explorer` make them; they stand above runs.
"""

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


class Explorer(Protocol):
    """A page about runs that answers beside this program; in a notebook it shows itself."""

    @property
    def address(self) -> str:
        """Where the page is, with its token."""
        ...

    def stop(self) -> None:
        """End it."""
        ...

    def _repr_html_(self) -> str:
        """Return it as a frame, for notebooks."""
        ...
