"""A report as data, and the one file it becomes.

The page carries everything it needs, Plotly's JavaScript included, and forbids itself to fetch
anything.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import plotly.graph_objects as go
import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from duotone.report.verdict import Sentence
from duotone.runs.result_tables import PlainTable


@dataclass(frozen=True, slots=True)
class View:
    """One way to look at a panel.

    Attributes:
        choices: What the reader has chosen to see it: a word for each of the panel's questions.
        figure: What is seen then.
    """

    choices: tuple[str, ...]
    figure: go.Figure

    @property
    def json(self) -> Markup:
        """The figure, safe within a page: no sign in it can end the element that holds it."""
        return Markup(self.figure.to_json().replace("<", "\\u003c"))

    @property
    def height(self) -> int:
        """Its height in pixels, known before it is drawn, so that the page does not jump."""
        return int(self.figure.layout.height)


@dataclass(frozen=True, slots=True)
class Panel:
    """A figure with what to look for, how it can mislead, and the data behind it.

    Attributes:
        key: Its name in the page, unique.
        title: What it shows.
        views: One figure, or several to choose from.
        look: What to look for.
        mislead: How it can mislead.
        data: The table behind it.
        questions: What the reader chooses between views by.
        min_width: Narrower screens scroll sideways.
    """

    key: str
    title: str
    views: tuple[View, ...]
    look: str
    mislead: str
    data: pl.DataFrame
    questions: tuple[str, ...] = ()
    min_width: int = 0
    kind: ClassVar[str] = "panel"

    @property
    def controls(self) -> list[tuple[str, list[str]]]:
        """Each question with its answers; a question with one answer is not asked."""
        answers = [
            list(dict.fromkeys(view.choices[place] for view in self.views))
            for place in range(len(self.questions))
        ]
        return list(zip(self.questions, answers, strict=True))

    @property
    def csv(self) -> str:
        """The data as an address that holds the file itself."""
        return data_uri(self.data.write_csv())


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text.

    Attributes:
        key: Its name in the page, unique.
        table: The table.
        is_folded: Whether the reader must open it.
    """

    key: str
    table: PlainTable
    is_folded: bool = False
    kind: ClassVar[str] = "grid"

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """Headings, and whether each is aligned to the right."""
        return [(c.removeprefix(">"), c.startswith(">")) for c in self.table.columns]

    @property
    def csv(self) -> str:
        """The table as an address that holds the file itself."""
        file = io.StringIO()
        csv.writer(file).writerows([[name for name, _ in self.columns], *self.table.rows])
        return data_uri(file.getvalue())


@dataclass(frozen=True, slots=True)
class Picture:
    """Images with the same remarks as a figure.

    Attributes:
        title: What they show.
        images: The caption of each, and the image itself.
        look: What to look for.
        mislead: How they can mislead.
    """

    title: str
    images: tuple[tuple[str, str], ...]
    look: str
    mislead: str
    kind: ClassVar[str] = "picture"


@dataclass(frozen=True, slots=True)
class Note:
    """A remark in a line."""

    text: str
    kind: ClassVar[str] = "note"


@dataclass(frozen=True, slots=True)
class Code:
    """Something to copy."""

    title: str
    text: str
    is_folded: bool = False
    kind: ClassVar[str] = "code"


Block = Panel | Grid | Picture | Note | Code


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        key: Its address in the page.
        title: Its heading.
        intro: A sentence or two below it.
        blocks: What it holds.
    """

    key: str
    title: str
    intro: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Tile:
    """One number at the top of the page; ``part`` says whose ink it wears."""

    label: str
    value: str
    note: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str
    verdict: Sequence[Sentence]
    sections: Sequence[Section]
    tiles: Sequence[Tile] = field(default=())


def data_uri(text: str) -> str:
    """Return text as an address that holds a CSV file.

    >>> data_uri("a,b")
    'data:text/csv;charset=utf-8;base64,YSxi'
    """
    return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


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
