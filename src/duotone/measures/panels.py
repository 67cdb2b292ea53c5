"""What a section of a report is made of: figures, tables, pictures, remarks.

Everything here is data; :mod:`duotone.report` turns it into a page.
"""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from markupsafe import Markup

from duotone.measures.score import Key, Score, Scores

if TYPE_CHECKING:
    import plotly.graph_objects as go
    import polars as pl

NOTHING = "–"
"""A cell without a value."""


@dataclass(frozen=True, slots=True)
class PlainTable:
    """A table of text.

    Attributes:
        title: What it shows.
        columns: Their headings; one that starts with ">" is aligned to the right.
        rows: The cells.
        note: How to read it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """Return the table as a section of a Markdown page."""
        names = [column.removeprefix(">") for column in self.columns]
        heads, *cells = ([cell.replace("|", "\\|") for cell in row] for row in (names, *self.rows))
        widths = [max(3, *map(len, column)) for column in zip(heads, *cells, strict=True)]
        right = [column.startswith(">") for column in self.columns]

        def line(row: Sequence[str]) -> str:
            padded = (
                cell.rjust(width) if is_right else cell.ljust(width)
                for cell, width, is_right in zip(row, widths, right, strict=True)
            )
            return f"| {' | '.join(padded)} |"

        rule = [
            "-" * (width - 1) + (":" if is_right else "-")
            for width, is_right in zip(widths, right, strict=True)
        ]
        body = "\n".join([line(heads), line(rule), *map(line, cells)])
        return f"## {self.title}\n\n{body}\n" + (f"\n{self.note}\n" if self.note else "")


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
class StoredPicture:
    """A picture of a run folder.

    Attributes:
        section: Where it belongs.
        title: What it is.
        look: What to look for.
        mislead: How it can mislead.
        uri: The picture itself.
    """

    section: str
    title: str
    look: str
    mislead: str
    uri: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """One thing the verdict says.

    Attributes:
        topic: What it is about, in a word or two.
        text: The sentence.
        part: Whose ink marks it, if it is about one part.
    """

    topic: str
    text: str
    part: Literal["shared", "local", ""] = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """One number at the top of the page; ``part`` says whose ink it wears."""

    label: str
    value: str
    note: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page.

    Attributes:
        key: Its address in the page.
        title: Its heading.
        intro: A sentence or two below it.
        blocks: What it holds.
        sentences: What it adds to the verdict at the top of the page.
        caveats: What keeps its numbers from saying more, one clause each.
        tiles: Numbers it shows at the top of the page.
    """

    key: str
    title: str
    intro: str
    blocks: Sequence[Block]
    sentences: Sequence[Sentence] = ()
    caveats: Sequence[str] = ()
    tiles: Sequence[Tile] = ()


def data_uri(text: str) -> str:
    """Return text as an address that holds a CSV file.

    >>> data_uri("a,b")
    'data:text/csv;charset=utf-8;base64,YSxi'
    """
    return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def size_text(count: float) -> str:
    """Return a number of bytes for people.

    >>> size_text(1_690_176)
    '1.69 MB'
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def count_text(number: int, thing: str) -> str:
    """Return a number of things in words.

    >>> count_text(1, "round"), count_text(1200, "round")
    ('1 round', '1,200 rounds')
    """
    return f"{number:,} {thing}{'s'[: number != 1]}"


def gathered(pictures: Sequence[StoredPicture]) -> list[Picture]:
    """Return pictures as blocks; those whose titles begin alike up to a colon stand together."""
    found: list[Picture] = []
    for title, items in groupby(pictures, key=lambda item: item.title.partition(": ")[0]):
        several = list(items)
        images = tuple((item.title.partition(": ")[2], item.uri) for item in several)
        found.append(Picture(title, images, several[0].look, several[0].mislead))
    return found


def score_text(score: Score | None) -> str:
    """Return a score as a cell of a table, with its interval where it has one."""
    if score is None:
        return NOTHING
    text = f"{score.value:.2f}"
    return text if score.low is None else f"{text} [{score.low:.2f}, {score.high:.2f}]"


def judged_rows(
    scores: Scores, measure: str, words: Mapping[str, str]
) -> tuple[tuple[str, ...], ...]:
    """Return a row for each score that is there, with what stands beside it.

    Args:
        scores: All scores.
        measure: Whose are shown.
        words: What each question is called.
    """
    found = []
    for question, called in words.items():
        key = Key(measure, question)
        if key in scores:
            real = scores.get(key.beside("judge"), scores.get(key.beside("floor")))
            new = scores.get(Key(measure, question, role="newcomer"))
            cells = (scores[key], real, scores.get(key.beside("chance")), new)
            found.append((called, *(score_text(score) for score in cells)))
    return tuple(found)


def listed(
    title: str,
    names: Sequence[str],
    found: Sequence[Mapping[str, Any]],
    words: Mapping[str, str],
    note: str,
) -> PlainTable | None:
    """Return a table with a row for each finding; ``None`` if there is nothing to show."""
    shown = [name for name in words if any(name in row for row in found)]
    if not shown:
        return None
    rows = tuple(
        (name, *(NOTHING if row.get(key) is None else f"{row[key]:.2f}" for key in shown))
        for name, row in zip(names, found, strict=True)
    )
    return PlainTable(title, ("client", *(f">{words[key]}" for key in shown)), rows, note)
