"""The command that reproduces the papers: reproduce."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duotone.cli.app import (
    OUTPUT,
    JsonOption,
    QuietOption,
    app,
    remark,
    show,
    show_json,
    show_path,
    talk,
)
from duotone.cli.printing import table

if TYPE_CHECKING:
    from duotone.reproduction.rows import Row


@app.command()
def reproduce(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="A table or figure, as listed.")
    ] = None,
    scale: Annotated[
        float, typer.Option(min=0.0001, max=1, help="Share of the printed rounds to make.")
    ] = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The study's folder; by default ./runs/reproduce/ and the study's name.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the papers' tables and figures, or run one and show it beside the paper's.

    Ctrl-C pauses; the same command goes on. Rows that share a study share its runs.

    Examples:

      duotone reproduce

      duotone reproduce thesis-table-6.1 --scale 0.1
    """
    from duotone.reproduction.rows import row_of

    if key is None:
        _list(as_json, quiet)
        return
    row = row_of(key)
    if row.study is None:
        line = row.not_comparable or row.claim
        if as_json:
            show_json({"key": row.key, "verdict": "not comparable", "why": line})
        else:
            show(f"{row.name}: {line} See: duotone methods {row.method}")
        return
    _reproduce(row, scale, out, as_json, quiet)


def _list(as_json: bool, quiet: bool) -> None:
    from duotone.reproduction.beside import row_verdict_text
    from duotone.reproduction.rows import papers

    rows = [
        {"key": row.key, "row": row.name, "claim": row.claim, "verdict": row_verdict_text(row)}
        for paper in papers().values()
        for row in paper.row
    ]
    if as_json:
        show_json(rows)
        return
    result = table("key", "claim", "verdict")
    for row in rows:
        result.add_row(row["key"], row["claim"], row["verdict"])
    show(result)
    remark("Run one with: duotone reproduce KEY [--scale 0.1]", quiet)


def _reproduce(row: Row, scale: float, out: Path | None, as_json: bool, quiet: bool) -> None:
    from duotone.reproduction.reproduce import default_folder, draw_row, draw_script, script_of

    again = ["duotone", "reproduce", row.key]
    again += ["--scale", f"{scale:g}"] if scale != 1 else []
    again += ["--out", str(out)] if out else []
    own = out or Path("runs", "reproduce", row.key)
    script = script_of(row, own)
    place = own if script else out or default_folder(row, scale)
    try:
        if script is not None:
            _run_script(row, script, place, quiet)
        elif row.shows != "clients":
            _run_study(row, scale, place, quiet)
    except KeyboardInterrupt:
        line = f"Paused; what is committed is safe. Go on with: {shlex.join(again)}"
        talk().print(line, soft_wrap=True)
        raise typer.Exit(130) from None
    drawn = draw_row(row, place) if script is None else draw_script(row, place)
    if as_json:
        rows = [dict(zip(drawn.heads, cells, strict=True)) for cells in drawn.lines]
        show_json({"key": row.key, "rows": rows, "files": list(map(str, drawn.files))})
        return
    if drawn.lines:
        result = table(*drawn.heads, title=f"{row.name}: {row.claim}")
        for cells in drawn.lines:
            result.add_row(*cells)
        show(result)
    for path in drawn.files:
        show_path("Written", path, quiet)


def _run_study(row: Row, scale: float, place: Path, quiet: bool) -> None:
    from duotone.cli.study_progress import StudyDisplay
    from duotone.errors import TrainingError
    from duotone.reproduction.reproduce import plan_row
    from duotone.runs.forecast import seconds_left
    from duotone.runs.study import execute_study
    from duotone.words import span_text

    plan = plan_row(row, place, scale)
    if not quiet:
        line = f"{row.name}: {plan.total} runs, about {span_text(seconds_left(plan))} of training "
        line += "here. Ctrl-C pauses."
        talk().print(line, soft_wrap=True)
    with StudyDisplay(talk(), quiet=quiet) as display:
        done = execute_study(plan, [display])
    if done.failed:
        reasons = "; ".join(f"{run}: {error}" for run, error in done.failed.items())
        raise TrainingError(f"{len(done.failed)} of {plan.total} runs failed ({reasons}).")


def _run_script(row: Row, script: list[str], place: Path, quiet: bool) -> None:
    import subprocess

    from duotone.errors import TrainingError
    from duotone.reproduction.committed import repository

    place.mkdir(parents=True, exist_ok=True)
    if not quiet:
        line = f"{row.name}: {shlex.join(script[1:])}; how long it takes is not known before."
        talk().print(line, soft_wrap=True)
    done = subprocess.run(script, cwd=repository(), check=False)
    if done.returncode:
        raise TrainingError(f"The script of {row.name} failed; its own lines say why.")
