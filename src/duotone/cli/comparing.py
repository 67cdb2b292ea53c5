"""Commands that compare: study, compare."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotone.cli.app import (
    OUTPUT,
    AnywayOption,
    JsonOption,
    QuietOption,
    ReferenceOption,
    RunsArgument,
    app,
    remark,
    show,
    show_json,
    show_path,
    talk,
)
from duotone.cli.printing import results_table, table

if TYPE_CHECKING:
    from duotone.measures.panels import PlainTable
    from duotone.runs.study_plan import StudyPlan


@app.command()
def study(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The study, a TOML file.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The study's folder; by default ./runs/ and the file's name.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and list the runs, train nothing.")
    ] = False,
    table_only: Annotated[
        bool,
        typer.Option("--table", help="FILE is a study.json: print its tables, run nothing."),
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run several methods with several seeds and compare them; call it again to continue.

    Examples:

      duotone study studies/target-shift.toml --dry-run

      duotone study studies/target-shift.toml

      duotone study runs/target-shift/study.json --table
    """
    from duotone.cli.study_progress import StudyDisplay
    from duotone.errors import TrainingError
    from duotone.runs.study import execute_study
    from duotone.runs.study_plan import plan_study
    from duotone.runs.study_results import read_results_file, study_markdown

    if table_only:
        show(study_markdown(read_results_file(file)))
        return
    plan = plan_study(file, out)
    if dry_run:
        _show_runs(plan, as_json, quiet)
        return
    try:
        with StudyDisplay(talk(), quiet=quiet) as display:
            done = execute_study(plan, [display])
    except KeyboardInterrupt:
        again = shlex.join(["duotone", "study", str(file), *(["--out", str(out)] if out else [])])
        talk().print(f"Stopped; what is committed is safe. Continue with: {again}", soft_wrap=True)
        raise typer.Exit(130) from None
    if as_json:
        show_json(done.results)
    else:
        _show_results(done.results, quiet)
        show_path("Written", done.path / "study.md", quiet)
        show_path("Written", done.path / "study.json", quiet)
    if done.failed:
        reasons = "; ".join(f"{run}: {error}" for run, error in done.failed.items())
        raise TrainingError(
            f"{len(done.failed)} of {plan.total} runs failed ({reasons}). The results are those of "
            "the others; calling the study again tries these once more."
        )


def _show_runs(plan: StudyPlan, as_json: bool, quiet: bool) -> None:
    from duotone.runs.result_tables import smallest_sentence
    from duotone.runs.study import planned_runs

    rows = planned_runs(plan)
    if as_json:
        show_json(rows)
        return
    result = table("entry", "searched", ">seed", "status", "folder")
    for row in rows:
        searched, folder = row["searched"] or "–", row["run"] or "–"
        result.add_row(row["entry"], searched, str(row["seed"]), row["status"], folder)
    show(result)
    finished = sum(row["status"] == "finished" for row in rows)
    remark(f"{len(rows)} runs, {finished} of them finished.", quiet)
    declared = sum(map(len, plan.config.primary.values()))
    if not declared:
        remark("No comparison is declared as primary, so none will get a verdict.", quiet)
    elif len(plan.config.seeds) > 1:
        remark(smallest_sentence(len(plan.config.seeds), declared), quiet)


@app.command()
def compare(
    runs: RunsArgument,
    reference: ReferenceOption = None,
    anyway: AnywayOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Put finished runs beside each other; runs on different data or partitions are refused.

    Runs that differ only in their seed are pooled, and tested against one of them.

    Examples:

      duotone compare runs/demo/local runs/demo/fedavg

      duotone compare runs/target-shift --reference local
    """
    from duotone.runs import load_run
    from duotone.runs.compare import compare as compare_runs
    from duotone.runs.compare import compare_entries, declared_below, runs_below
    from duotone.runs.pooled import pool

    names = runs_below(runs)
    opened = [load_run(path) for path in names]
    entries = pool(opened, names)
    has_seeds = any(entry.runs[0].config.seed != entry.runs[-1].config.seed for entry in entries)
    if has_seeds or reference is not None:
        named, primary = declared_below(runs, reference)
        results = compare_entries(entries, reference=named, primary=primary, anyway=anyway)
        if as_json:
            show_json(results)
        else:
            _show_results(results, quiet)
        return
    rows = compare_runs(opened, anyway=anyway)
    if as_json:
        show_json(rows.to_dicts())
        return
    show(
        results_table(
            [
                (f"{r.config.method['name']} seed {r.config.seed} ({r.path})", r.summary)
                for r in opened
            ]
        )
    )


def _show_results(results: Mapping[str, Any], quiet: bool) -> None:
    from duotone.runs.result_tables import result_tables

    for found in result_tables(results, brief=True):
        _show_table(found, quiet)


def _show_table(found: PlainTable, quiet: bool) -> None:
    result = table(*found.columns, title=found.title)
    for row in found.rows:
        result.add_row(*row)
    show(result)
    if found.note:
        remark(found.note, quiet)
