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
from plotly.offline import get_plotlyjs

from duotone.measures.panels import Picture, Section, Sentence, Tile


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


def packed(text: str) -> Markup:
    """Return a text compressed and written in signs that a page may hold."""
    content = gzip.compress(text.encode(), 9, mtime=0)
    # "<" would begin a tag; the slash is not among the 85 signs.
    return Markup(base64.b85encode(content).decode().replace("<", "/"))


@lru_cache(maxsize=1)
def packed_plotly() -> Markup:
    """Return Plotly's JavaScript, packed."""
    return packed(get_plotlyjs())


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
    return environment.get_template("page.html.j2").render(
        page=page, style=Markup(style), script=Markup(script), plotly=packed_plotly()
    )
