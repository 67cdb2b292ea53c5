"""A report as data, and the one file it becomes.

The page carries everything it needs, Plotly's JavaScript included, and forbids itself to fetch
anything. Plotly and the figures are packed, which makes the page less than half as large.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from duotone.measures.panels import Panel, Picture, Section, Sentence, Tile
from duotone.report.plotly_code import plotly_code


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report.

    Attributes:
        title: What it is about.
        subtitle: The same in one more line.
        verdict: What it says in sentences.
        sections: Everything else.
        tiles: A few numbers.
        headline: What the reader got, in a sentence or two.
        leads: Pictures for the first screen.
        inks: How many parameters are shared and local, where it is about one run.
    """

    title: str
    subtitle: str
    verdict: Sequence[Sentence]
    sections: Sequence[Section]
    tiles: Sequence[Tile] = field(default=())
    headline: str = ""
    leads: Sequence[Picture] = field(default=())
    inks: tuple[int, int] | None = None

    @property
    def shared_share(self) -> float:
        """How much of a client's parameters is shared, in percent."""
        shared, local = self.inks or (0, 0)
        return 100 * shared / max(1, shared + local)

    @property
    def kinds(self) -> frozenset[str]:
        """What kinds of traces its figures have."""
        panels = [
            block
            for section in self.sections
            for block in section.blocks
            if isinstance(block, Panel)
        ]
        return frozenset(
            trace.type for panel in panels for view in panel.views for trace in view.figure.data
        )


def packed(text: str) -> Markup:
    """Return a text compressed and written in signs that a page may hold."""
    content = gzip.compress(text.encode(), 9, mtime=0)
    # "<" would begin a tag; the slash is not among the 85 signs.
    return Markup(base64.b85encode(content).decode().replace("<", "/"))


@lru_cache(maxsize=4)
def packed_plotly(kinds: frozenset[str]) -> Markup:
    """Return Plotly's JavaScript for some kinds of traces, packed."""
    return packed(plotly_code(kinds))


def render(page: Page) -> str:
    """Return the page as one HTML file."""
    place = Path(__file__).parent / "template"
    environment = Environment(
        loader=FileSystemLoader(place),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["packed"] = packed
    style, script = ((place / name).read_text("utf-8") for name in ("page.css", "page.js"))
    plotly = packed_plotly(page.kinds) if page.kinds else ""
    return environment.get_template("page.html.j2").render(
        page=page, style=Markup(style), script=Markup(script), plotly=plotly
    )
