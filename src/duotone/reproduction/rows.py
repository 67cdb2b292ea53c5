"""The papers' list: every table, figure and numeric claim, as one row each. No torch in here.

A row says what a paper claims and prints, what is run for it, and which numbers decide::

    [[row]]
    key = "thesis-table-6.1"
    name = "Thesis Table 6.1"
    method = "fedvc"
    claim = "FedVC has the best accuracy of nine methods."
    study = "thesis-6-mnist"

    [row.printed]
    rounds = "not printed"
    epochs = 2

    [row.table]
    columns = ["accuracy"]
    scores = ["member.accuracy"]
    judged = [["FedVC", "FedBN"], ["FedVC"]]
    rows."FedBN" = [98.43]
    rows."FedVC" = [98.56]

The entries of a row's study are called as the paper calls its methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from duotone.config import Settings, parse_toml, validated
from duotone.errors import ConfigError
from duotone.registry import did_you_mean

PAPERS = ("feddva", "thesis", "padpaf", "content-style")
"""The files of the list, in the order of the page."""
OURS = "duotone"
"""What an entry is called that is no row of the paper: the method made to work."""
SILENT: Final = "not printed"


class Printed(Settings):
    """The setting as the paper prints it."""

    data: str = SILENT
    """Data set, and how it is dealt out."""
    clients: str = SILENT
    """How many clients, and how many of them take part in a round."""
    rounds: int | Literal["not printed"] = SILENT
    """Communication rounds."""
    epochs: int | float | Literal["not printed"] = SILENT
    """Local epochs in a round."""
    batch: int | Literal["not printed"] = SILENT
    """Samples per local step."""
    rate: str = SILENT
    """Learning rate, and how it falls."""
    network: str = SILENT
    """The network."""


class Result(Settings):
    """One number that a row is judged by."""

    name: str
    """What it is, in the paper's words."""
    label: str
    """The entry it belongs to."""
    score: str
    """The entry's score."""
    minus: str | None = None
    """Another entry: the number is the difference of the two."""
    minus_score: str | None = None
    """Another score, of the same entry unless another is named: likewise."""
    published: float | None = None
    """The published number; without it only its side of `nothing` is claimed."""
    nothing: float | None = None
    """Where the claim would turn into its opposite: 0 for a difference, or chance."""
    direction: Literal["higher", "lower"] = "higher"
    """Which way is better."""
    percent: bool = True
    """Whether shares are shown in percent."""


class Table(Settings):
    """A table as the paper prints it; the first column is the one that is judged."""

    columns: list[str]
    """What the paper calls its columns."""
    scores: list[str]
    """The score that each column is."""
    rows: dict[str, list[float | None]]
    """The published numbers, by the paper's names of its rows."""
    spreads: dict[str, list[float | None]] = Field(default_factory=dict)
    """Standard deviations in the paper's brackets, likewise."""
    judged: list[list[str]] = Field(default_factory=list)
    """What decides: a row's number, or its difference from another row, most important first."""
    direction: Literal["higher", "lower"] = "higher"
    """Which way is better."""
    percent: bool = True
    """Whether the numbers are percent."""
    first: str = "method"
    """What the paper calls the first column."""


class Earlier(Settings):
    """Numbers from a run with other settings than the printed ones."""

    file: str
    """The file in ``docs/results``."""
    entries: dict[str, str] = Field(default_factory=dict)
    """Which entry of a study's file stands for which of the paper's names."""
    label: str = ""
    """Of another kind of file: the name of the paper's that it stands for."""
    paths: dict[str, str] = Field(default_factory=dict)
    """Where its scores are: keys with " / " between them; * for all, ``seed*`` for all seeds."""


class Row(Settings):
    """A table, a figure or a claim of a paper."""

    key: str
    """What the command calls it."""
    name: str
    """What the paper calls it."""
    method: str
    """The method whose page lists it."""
    claim: str
    """What it shows or says, in a line."""
    study: str | None = None
    """The study that runs it, a file of ``duotone/reproduction/studies``."""
    script: str | None = None
    """The module of a checkout that runs it, with its arguments; OUT is the row's folder."""
    shows: Literal["table", "curves", "codes", "sheets", "clients", "numbers"] = "table"
    """What is drawn: a table, curves by group, maps of codes, pictures, who holds what, numbers."""
    printed: Printed = Printed()
    """The setting as printed."""
    differs: str = ""
    """What the setting used differs in."""
    not_comparable: str = ""
    """Why the published number cannot be compared with ours."""
    results: list[Result] = Field(default_factory=list)
    """What decides, most important first."""
    table: Table | None = None
    """The paper's table."""
    earlier: list[Earlier] = Field(default_factory=list)
    """Where numbers are taken from until the row's study has been run, the best first."""
    duotone: bool = False
    """Whether its study also has an entry ``duotone``: the method made to work."""
    hours: float | None = None
    """About how many hours the longest run of its study takes on two cores, whole."""

    @property
    def judged(self) -> list[Result]:
        """All numbers that decide, those of the table first; the first is the row's own verdict."""
        table = self.table
        found = [] if table is None else [_cell(table, names) for names in table.judged]
        return [*found, *self.results]

    @property
    def command(self) -> str:
        """The command that runs the row."""
        return f"duotone reproduce {self.key}"


class Paper(Settings):
    """One paper and all it shows."""

    title: str
    """Authors, title, venue, year."""
    short: str
    """What its rows are called by."""
    notes: list[str] = Field(default_factory=list)
    """What holds for all its rows."""
    row: list[Row]
    """Its tables, figures and claims, in its order."""


def _cell(table: Table, names: list[str]) -> Result:
    """Return the number of a row of a table, or its difference from another row."""
    own, *others = names
    other = others[0] if others else None
    published = table.rows[own][0]
    assert published is not None
    if other is not None:
        beside = table.rows[other][0]
        assert beside is not None
        published = round(published - beside, 4)
    column = table.columns[0]
    return Result(
        name=f"{own}, {column}" if other is None else f"{own} minus {other}, {column}",
        label=own,
        minus=other,
        score=table.scores[0],
        published=published,
        nothing=None if other is None else 0.0,
        direction=table.direction,
        percent=table.percent,
    )


@cache
def papers() -> dict[str, Paper]:
    """Return all papers by the name of their file."""
    return {name: _read(name) for name in PAPERS}


def _read(name: str) -> Paper:
    place = files(__package__) / "papers" / f"{name}.toml"
    return validated(Paper, parse_toml(place.read_text(encoding="utf-8")), owner=f"{name}.toml")


def all_rows() -> Iterator[Row]:
    """Yield every row of every paper."""
    for paper in papers().values():
        yield from paper.row


def row_of(key: str) -> Row:
    """Return the row with a key.

    Raises:
        ConfigError: There is none.
    """
    found = {row.key: row for row in all_rows()}
    if key not in found:
        hint = did_you_mean(key, list(found)) or " List them with: duotone reproduce"
        raise ConfigError(f"No table or figure is called {key!r}.{hint}")
    return found[key]


def study_file(name: str) -> Path:
    """Return the file of a study that belongs to the list."""
    return Path(str(files(__package__) / "studies" / f"{name}.toml"))


def study_values(name: str) -> dict[str, Any]:
    """Return a study of the list as tables."""
    return parse_toml(study_file(name).read_text(encoding="utf-8"))
