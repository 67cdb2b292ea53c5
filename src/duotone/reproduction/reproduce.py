"""Run a row of the list with the printed settings, and put it beside the paper's."""

from __future__ import annotations

import base64
import html
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from duotone.config import merged
from duotone.errors import ConfigError
from duotone.files import read_json_file, write_atomically
from duotone.reproduction.beside import (
    markdown_table,
    ours_text,
    published_text,
    share_words,
    table_beside,
    value_of_ours,
    verdict_text,
)
from duotone.reproduction.committed import own_file, repository, value_of, with_fresh
from duotone.reproduction.drawn import draw_clients, draw_runs
from duotone.reproduction.gathered import clients_csv, gather
from duotone.reproduction.rows import Row, study_values
from duotone.runs.result_files import write_json
from duotone.runs.study_plan import StudyPlan, plan_study
from duotone.runs.study_results import read_results


@dataclass(frozen=True, slots=True)
class Drawn:
    """A row beside the paper, ready to be read.

    Attributes:
        heads: The columns of its table.
        lines: The lines of its table.
        files: What was written.
    """

    heads: list[str]
    lines: list[list[str]]
    files: list[Path]


def default_folder(row: Row, scale: float) -> Path:
    """Return where a row's study is kept: rows that share a study share its runs."""
    name = row.study or row.key
    return Path("runs") / "reproduce" / (name if scale == 1 else f"{name}@{scale:g}")


def plan_row(row: Row, out: Path, scale: float = 1.0) -> StudyPlan:
    """Plan the study of a row.

    Args:
        row: What is run.
        out: The study's folder.
        scale: Share of the rounds to make.

    Raises:
        ConfigError: The row has no study.
    """
    if row.study is None:
        raise ConfigError(f"{row.name} has nothing to run. {row.not_comparable or row.claim}")
    values = study_values(row.study)
    if scale != 1:
        values = merged(values, {"settings": {"scale": scale}})
    return plan_study(values, out)


def draw_row(row: Row, out: Path) -> Drawn:
    """Write a row's table or figure beside the paper's, from the finished runs of its study.

    Args:
        row: What is drawn.
        out: The study's folder; what is written goes there too.
    """
    assert row.study is not None
    files: list[Path] = []
    picture = out / f"{row.key}.png"
    if row.shows == "clients":
        out.mkdir(parents=True, exist_ok=True)
        draw_clients(row, picture)
        return Drawn([], [], [picture])
    content = gather(out)
    write_json(out / f"{row.study}.json", content)
    write_atomically(out / f"{row.study}.csv", clients_csv(out).encode())
    if draw_runs(row, out, picture):
        files.append(picture)
    with with_fresh({own_file(row): content}):
        parts = [_numbers(row), *([table_beside(row)] if row.table is not None else [])]
    sheets = _sheets(out) if row.shows == "sheets" else ()
    return _written(row, out, parts, files, [*files, *sheets])


def draw_script(row: Row, out: Path) -> Drawn:
    """Write the numbers that a row's script found beside the paper's."""
    found = {path.name: read_json_file(path) for path in out.glob("*.json")}
    fresh = {name: content for name, content in found.items() if isinstance(content, dict)}
    with with_fresh(fresh):
        parts = [_numbers(row)]
    pictures = sorted(path for path in out.glob("*.png"))
    return _written(row, out, parts, pictures, pictures)


def script_of(row: Row, out: Path) -> list[str] | None:
    """Return the command of a row's script; ``None`` if it has none or this is no checkout.

    Args:
        row: What is run.
        out: Where the script writes.
    """
    root = repository()
    if row.script is None or root is None:
        return None
    module, *arguments = row.script.split()
    if not (root / f"{module.replace('.', '/')}.py").exists():
        return None
    place = str(out.resolve())
    return [sys.executable, "-m", module, *(word.replace("OUT", place) for word in arguments)]


def _written(
    row: Row,
    out: Path,
    parts: Sequence[tuple[list[str], list[list[str]]]],
    files: Sequence[Path],
    pictures: Sequence[Path],
) -> Drawn:
    """Write the page of a row as Markdown and as HTML."""
    title = f"{row.name}: {row.claim}"
    tables = "\n".join(markdown_table(*part) for part in parts)
    write_atomically(out / f"{row.key}.md", f"# {title}\n\n{tables}".encode())
    page = _html(title, parts, pictures)
    write_atomically(out / f"{row.key}.html", page.encode())
    shown = parts[-1]
    return Drawn(*shown, [*files, out / f"{row.key}.md", out / f"{row.key}.html"])


def _numbers(row: Row) -> tuple[list[str], list[list[str]]]:
    """Return the numbers a row is judged by, the paper's beside ours."""
    heads = ["number", "published", "as published, here", "duotone", "of the training", "verdict"]
    lines = []
    for result in row.judged:
        ours = value_of(row, result)
        other = value_of_ours(row, result)
        lines.append(
            [
                result.name,
                published_text(row, result),
                ours_text(ours, percent=result.percent),
                ours_text(other, percent=result.percent),
                share_words(row, ours),
                verdict_text(row, result),
            ]
        )
    return heads, lines


def _sheets(out: Path) -> Iterator[Path]:
    """Yield the pictures that the runs of the first seed left."""
    for entry in read_results(out)["entries"]:
        place = out / entry["runs"][0] / "figures" if entry["runs"] else None
        if place is None or not (place / "figures.json").exists():
            continue
        told = read_json_file(place / "figures.json")
        yield from (place / str(sheet["file"]) for sheet in told if isinstance(sheet, dict))


def _html(
    title: str,
    tables: Sequence[tuple[list[str], list[list[str]]]],
    pictures: Sequence[Path],
) -> str:
    """Return a page that holds everything it shows."""

    def line(tag: str, cells: Sequence[str]) -> str:
        inner = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
        return f"<tr>{inner}</tr>"

    body = [f"<h1>{html.escape(title)}</h1>"]
    for heads, lines in tables:
        rows = "".join(line("td", cells) for cells in lines)
        body.append(f"<table>{line('th', heads)}{rows}</table>")
    for picture in pictures:
        data = base64.b64encode(picture.read_bytes()).decode()
        place = "/".join(picture.parts[-4:])
        body.append(
            f'<figure><img src="data:image/png;base64,{data}" alt="{html.escape(place)}">'
            f"<figcaption>{html.escape(place)}</figcaption></figure>"
        )
    style = (
        "body{font-family:sans-serif;max-width:70em;margin:2em auto;padding:0 1em}"
        "table{border-collapse:collapse;margin:1em 0}td,th{padding:.3em .6em;text-align:left;"
        "border-bottom:1px solid #ccc}img{max-width:100%}"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{style}</style></head>"
        f"<body>{''.join(body)}</body></html>"
    )
