"""Write ``docs/reproduction.md`` and the claims on the methods' pages. No torch in here."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from duotone.errors import ConfigError
from duotone.files import write_atomically
from duotone.reproduction.beside import (
    NOTHING,
    is_as_printed,
    markdown_table,
    ours_text,
    printed_text,
    published_text,
    row_verdict_text,
    share_words,
    table_beside,
    used_text,
    value_of_ours,
    verdict_text,
)
from duotone.reproduction.committed import row_verdict, value_of
from duotone.reproduction.rows import Paper, Row, all_rows, papers
from duotone.reproduction.verdicts import MEANING

COMMAND = "python -m duotone.reproduction"
BEGIN = f"<!-- what follows is written by {COMMAND} -->"
END = "<!-- end of what is written -->"


def reproduction_page() -> str:
    """Return the page with every row of every paper."""
    rows = list(all_rows())
    counts = Counter(row_verdict(row) for row in rows)
    whole = Counter(row_verdict(row) for row in rows if _is_as_printed(row))
    meanings = [
        [f"*{word}*", text, str(counts[word]), str(whole[word]) if whole[word] else NOTHING]
        for word, text in MEANING.items()
    ]
    head = f"""# Every table and figure of the papers

<!-- written by {COMMAND}; change src/duotone/reproduction/papers/*.toml instead -->

All tables, figures and numeric claims of the papers that duotone's own methods come from:
{len(rows)} rows. `duotone reproduce` lists them, `duotone reproduce KEY` runs one with the printed
settings and draws it beside the paper's, `--scale 0.1` makes a tenth of the rounds. It can be
stopped with Ctrl-C and goes on where it stopped.

A verdict compares our 95 % interval over seeds with the published number; with one seed the number
itself. A row's verdict is that of its first number. **Only a verdict without an addition is one on
the paper's own setting, with an interval**: "after 10 % of the training" and "in a run with other
settings" say that a longer run may turn it around, "one seed" that another seed may, and "apart
from what differs" that the row names a difference in its last column. Where data or metric are not
to be had here, levels are not compared; which of two methods is better on the same data still is.
The column *duotone* is the method with our own settings, from whole runs where there are some.

"""
    body = [_paper(paper) for paper in papers().values()]
    words = ["verdict", "meaning", "rows", "of them with the printed setting"]
    return head + markdown_table(words, meanings) + "\n" + "\n".join(body)


def _is_as_printed(row: Row) -> bool:
    value = value_of(row, row.judged[0]) if row.judged else None
    return value is not None and is_as_printed(value) and not row.differs


def _paper(paper: Paper) -> str:
    notes = "".join(f"- {note}\n" for note in paper.notes)
    numbers = [line for row in paper.row for line in _number_lines(row)]
    settings = [_setting_line(row) for row in paper.row]
    tables = "".join(_table(row) for row in paper.row if row.table is not None)
    heads = ["row", "number", "published", "here, as published", "here, duotone", "of the training"]
    return (
        f"## {paper.short}\n\n{paper.title}.\n\n{notes}\n### {paper.short}: numbers\n\n"
        + markdown_table([*heads, "verdict"], numbers)
        + f"\n### {paper.short}: settings and commands\n\n"
        + markdown_table(
            ["row", "what it claims", "command", "printed", "used", "differs"], settings
        )
        + (f"\n{tables}" if tables else "")
    )


def _number_lines(row: Row) -> list[list[str]]:
    if not row.judged:
        why = row.not_comparable or row.claim
        return [[row.name, why, NOTHING, NOTHING, NOTHING, NOTHING, f"**{row_verdict_text(row)}**"]]
    lines: list[list[str]] = []
    for place, result in enumerate(row.judged):
        ours = value_of(row, result)
        other = value_of_ours(row, result)
        verdict = verdict_text(row, result)
        lines.append(
            [
                row.name if place == 0 else "",
                result.name,
                published_text(row, result),
                ours_text(ours, percent=result.percent),
                ours_text(other, percent=result.percent),
                share_words(row, ours),
                f"**{verdict}**" if place == 0 else verdict,
            ]
        )
    return lines


def _setting_line(row: Row) -> list[str]:
    used = used_text(row) or (f"study `{row.study}`" if row.study else NOTHING)
    differs = " ".join(filter(None, [row.differs, row.not_comparable])) or NOTHING
    length = f", up to {row.hours:g} h a run" if row.hours else ""
    return [row.name, row.claim, f"`{row.command}`{length}", printed_text(row), used, differs]


def _table(row: Row) -> str:
    heads, lines = table_beside(row)
    found = [value for result in row.judged if (value := value_of(row, result)) is not None]
    source = "Nothing of it has been run yet."
    if found:
        other = "" if is_as_printed(found[0]) else ", not with the printed setting"
        source = f"Ours: `docs/results/{found[0].file}`{other}."
    return f"### {row.name}, beside ours\n\n{source}\n\n{markdown_table(heads, lines)}\n"


def claims_section(method: str) -> str:
    """Return what stands at the end of a method's page: its paper's claims with their verdicts."""
    lines = [
        f"{place}. **{row.name}.** {row.claim} *{row_verdict_text(row)}*"
        for place, row in enumerate((row for row in all_rows() if row.method == method), 1)
    ]
    intro = (
        "What the paper claims, table by table and figure by figure, and what came of it here.\n"
        "Only a verdict without an addition is one on the paper's own setting.\n"
        "[All numbers](../reproduction.md).\n"
    )
    return "\n".join([BEGIN, "", "## The paper's claims", "", intro, *lines, "", END, ""])


def with_claims(page: str, method: str) -> str:
    """Return a method's page with its claims at the end, in place of those it had.

    Raises:
        ConfigError: Only one of the two marks is there.
    """
    if (BEGIN in page) != (END in page):
        raise ConfigError(f"The page of {method} has lost a mark of its claims; restore {END!r}.")
    before = page.split(BEGIN)[0].rstrip()
    return f"{before}\n\n{claims_section(method)}"


def written_pages(root: Path) -> dict[Path, str]:
    """Return what is written where in a checkout.

    Args:
        root: The checkout.
    """
    docs = root / "docs"
    pages = {docs / "reproduction.md": reproduction_page()}
    for method in dict.fromkeys(row.method for row in all_rows()):
        path = docs / "methods" / f"{method}.md"
        pages[path] = with_claims(path.read_text(encoding="utf-8"), method)
    return pages


def write_pages(root: Path) -> list[Path]:
    """Write all pages; return those that changed."""
    changed = [
        path
        for path, text in written_pages(root).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in written_pages(root).items():
        write_atomically(path, text.encode())
    return changed
