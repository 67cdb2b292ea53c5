"""Our numbers beside the paper's, as text: for the page, the methods' pages and the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from duotone.reproduction.committed import (
    REPRODUCED,
    numbers_of,
    own_file,
    result_verdict,
    results_file,
    row_verdict,
    scaled,
    value_of,
)
from duotone.reproduction.rows import OURS, SILENT, Result, Row
from duotone.reproduction.verdicts import Value, Verdict

NOTHING = "–"
PERCENT = 100


def number(value: float, *, percent: bool) -> str:
    """Return a number as papers print it.

    >>> number(97.4811, percent=True), number(0.00412, percent=False)
    ('97.48', '0.00412')
    """
    return f"{value:.2f}" if percent else f"{value:.3g}"


def published_text(row: Row, result: Result) -> str:
    """Return the published number, or which side of nothing is claimed."""
    if result.published is not None:
        sign = "+" if result.nothing == 0 and result.published > 0 else ""
        unit = (" %" if result.nothing is None else " points") if result.percent else ""
        return f"{sign}{number(result.published, percent=result.percent)}{unit}"
    side = "above" if result.direction == "higher" else "below"
    return f"{side} {(result.nothing or 0) * (PERCENT if result.percent else 1):g}"


def ours_text(value: Value | None, *, percent: bool) -> str:
    """Return a number of ours with its interval and seeds."""
    if value is None:
        return NOTHING
    shown = scaled(value, PERCENT if percent else 1)
    mean = number(shown.mean, percent=percent)
    if shown.low is None or shown.high is None:
        return f"{mean} ({shown.seeds} seed{'s'[: shown.seeds != 1]})"
    ends = " to ".join(number(end, percent=percent) for end in (shown.low, shown.high))
    return f"{mean} ({ends}; {shown.seeds} seeds)"


def value_of_ours(row: Row, result: Result) -> Value | None:
    """Return the number of the method made to work, beside one of the paper's own method."""
    if not row.duotone or result.label != row.judged[0].label:
        return None
    return value_of(row, result, OURS)


def share_words(row: Row, value: Value | None) -> str:
    """Return the share of the published training that a number rests on."""
    if value is None:
        return NOTHING
    if value.share is None:
        return SILENT if value.scale == 1 else f"{SILENT} (scale {value.scale:g})"
    return _percent(value.share)


def _percent(share: float) -> str:
    percent = share * PERCENT
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def is_as_printed(value: Value) -> bool:
    """Whether a number is from the study with the printed settings, at its full length."""
    length = value.scale if value.share is None else value.share
    return value.file.startswith(f"{REPRODUCED}/") and length >= 1


def verdict_text(row: Row, result: Result) -> str:
    """Return a verdict, and what keeps it from being one on the paper's own setting."""
    found = result_verdict(row, result)
    value = value_of(row, result)
    return found if value is None else qualified(found, value, differs=bool(row.differs))


def qualified(found: Verdict, value: Value, *, differs: bool = False) -> str:
    """Return a verdict with how far its run was from the printed setting, and what else it lacks.

    >>> qualified("reached", Value(1, 1, 1, 3, "old.json", 0.02))
    'reached in a run with other settings, 2 % of the training'
    >>> qualified("contradicted", Value(1, None, None, 1, "reproduced/a.json", 0.1))
    'contradicted after 10 % of the training, one seed'
    >>> qualified("reached", Value(1, 1, 1, 3, "reproduced/a.json"), differs=True)
    'reached apart from what differs'
    """
    if found in ("not run yet", "not comparable"):
        return found
    own = value.file.startswith(f"{REPRODUCED}/")
    remarks = [] if own else ["in a run with other settings"]
    if not is_as_printed(value):
        if value.share is not None:
            remarks.append(f"{'after ' * own}{_percent(value.share)} of the training")
        elif value.scale < 1:
            remarks.append(f"{'after ' * own}{_percent(value.scale)} of the rounds")
    if own and differs and not remarks:
        remarks.append("apart from what differs")
    if value.seeds == 1:
        remarks.append("one seed" if remarks else "with one seed")
    return " ".join(filter(None, [found, ", ".join(remarks)]))


def row_verdict_text(row: Row) -> str:
    """Return the verdict on a row, likewise."""
    return verdict_text(row, row.judged[0]) if row.judged else row_verdict(row)


def used_text(row: Row) -> str:
    """Return the setting of the run a row's numbers are from; nothing if there is none."""
    for result in row.judged:
        found = numbers_of(row, result.label) or numbers_of(row, OURS)
        if found is not None:
            return _setting(found[0].settings)
    return ""


def _setting(own: Mapping[str, Any]) -> str:
    """Return a run's settings in the order of the papers'."""
    if "rounds" not in own:
        return ""
    style = own.get("style", "none")
    rounds = max(1, round(own.get("rounds", 0) * own.get("scale", 1)))
    clients = own.get("partition.clients") or own.get("partition.per_domain")
    per = "" if own.get("partition.clients") else " per domain"
    falls = f"× {own['method.lr_decay']:g} every {own['method.lr_decay_every']}"
    words = {
        "data": f"{own.get('data')}{'' if style == 'none' else f' in style {style}'}",
        "clients": f"{clients}{per}, {own.get('sampled')} per round" if clients else None,
        "rounds": str(rounds),
        "epochs": own.get("method.epochs"),
        "batch": own.get("method.batch_size"),
        "rate": f"{own.get('method.lr')}{'' if own['method.lr_decay'] == 1 else f', {falls}'}",
        "network": own.get("model"),
    }
    return "; ".join(f"{name} {value}" for name, value in words.items() if value is not None)


def printed_text(row: Row) -> str:
    """Return the printed setting in a line."""
    shown = row.printed.model_dump()
    if not row.judged:  # a setting or a drawing: what is not printed has no part in it
        shown = {name: value for name, value in shown.items() if value != SILENT}
        if not shown:
            return NOTHING
    return "; ".join(f"{name} {value}" for name, value in shown.items())


def table_beside(row: Row) -> tuple[list[str], list[list[str]]]:
    """Return the paper's table with ours beside every column: heads and lines."""
    table = row.table
    assert table is not None
    if results_file(own_file(row)) is not None:
        row = row.model_copy(update={"earlier": []})  # one table, one setting
    heads = [table.first or "row"]
    shown = [place for place, score in enumerate(table.scores) if score]
    for place, column in enumerate(table.columns):
        heads += [f"{column}, paper", *([f"{column}, here"] if place in shown else [])]
    lines: list[list[str]] = []
    for label, values in [*table.rows.items(), *([(OURS, [])] if row.duotone else [])]:
        line = [label]
        for place in range(len(table.columns)):
            published = values[place] if values else None
            spread = table.spreads.get(label, [None] * len(table.columns))[place]
            text = NOTHING if published is None else number(published, percent=table.percent)
            beside = "" if spread is None else f" ({number(spread, percent=table.percent)})"
            line.append(text + beside)
            if place in shown:
                result = Result(name="", label=label, score=table.scores[place])
                line.append(ours_text(value_of(row, result), percent=table.percent))
        lines.append(line)
    return heads, lines


def markdown_table(heads: list[str], lines: list[list[str]]) -> str:
    """Return a table as Markdown."""
    rows = [heads, ["---"] * len(heads), *lines]
    cells = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n"
