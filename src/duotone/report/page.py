"""A report as data, and the one file it becomes.

The page carries everything it needs, Plotly's JavaScript included, and forbids itself to fetch
anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from duotone.measures.panels import Section, Sentence, Tile


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str
    verdict: Sequence[Sentence]
    sections: Sequence[Section]
    tiles: Sequence[Tile] = field(default=())


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
    style, script = ((place / name).read_text("utf-8") for name in ("page.css", "page.js"))
    return environment.get_template("page.html.j2").render(
        page=page, style=Markup(style), script=Markup(script), plotly=Markup(get_plotlyjs())
    )
