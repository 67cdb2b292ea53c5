"""Commands that look at runs: runs, show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotone.cli.app import (
    JsonOption,
    QuietOption,
    RunArgument,
    app,
    remark,
    show,
    show_json,
    talk,
)
from duotone.cli.printing import is_narrow, results_table, table, value_text

if TYPE_CHECKING:
    from duotone.runs import Run


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path("runs"),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the runs below a folder.

    Example:

      duotone runs
    """
    from duotone.errors import RunError
    from duotone.runs import Run, list_runs
    from duotone.types import ROLES

    found: list[dict[str, Any]] = []
    for item in list_runs(folder):
        run = Run(item.path)
        try:
            config, facts, status = run.config, item.facts(), run.status
            scores = run.summary["scores"] if status == "finished" else {}
            metric = run.summary["headline"] if status == "finished" else ""
        except RunError as error:
            talk().print(f"Left out: {error}", style="yellow", soft_wrap=True)
            continue
        found.append(
            {
                "run": str(item.path),
                "status": status,
                "method": config.method["name"],
                "data": config.data,
                "seed": config.seed,
                "seconds": facts["seconds"],
                "headline": metric,
                **{role: scores.get(f"{role}.{metric}") for role in ROLES},
                "scores": scores,
            }
        )
    if as_json:
        show_json([{key: row[key] for key in row if key != "scores"} for row in found])
        return
    if not found:
        line = f"There are no runs in {folder}. Make one with: duotone run fedavg --data digits"
        remark(line, quiet)
        return
    result = table("run", "status", "method", "data", ">seed", ">members", ">newcomers", ">time")
    for row in found:
        result.add_row(
            row["run"],
            row["status"],
            row["method"],
            row["data"],
            str(row["seed"]),
            *(value_text(row["scores"], f"{role}.{row['headline']}") for role in ROLES),
            f"{row['seconds']:.0f} s",
        )
    show(result)
    if any(row["status"] in ("interrupted", "killed", "failed") for row in found):
        remark("Continue an unfinished run with: duotone resume RUN", quiet)


@app.command(name="show")
def show_run(run: RunArgument, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Show one run: what it was, its scores, and every client.

    Example:

      duotone show runs/2026-11-15_2130_fedavg_digits_seed0
    """
    from duotone.runs import load_run
    from duotone.runs.published import rounds_text

    item = load_run(run)
    facts, config, status = item.folder.facts(), item.config, item.status
    is_done = status == "finished"
    if as_json:
        rest: dict[str, Any] = (
            item.summary if is_done else {"rounds": item.folder.manifest().last.round}
        )
        show_json(
            {"run": str(run), **facts, "status": status, "config": config.model_dump(), **rest}
        )
        return
    show(
        f"{config.method['name']} on {config.data} ({config.model}, style "
        f"{config.style}, partition {config.partition['scheme']}, seed {config.seed}): {status}, "
        f"{rounds_text(config)}, {facts['seconds']:.0f} s"
    )
    if is_done:
        show(results_table([(str(config.method["name"]), item.summary)]))
        _show_scores(item.summary)
        _show_clients(item)
        for line in item.summary.get("warnings", []):
            show(line)
        return
    so_far = item.folder.manifest().last
    show(f"{so_far.round} of {config.rounds_made} rounds are committed.")
    for name, value in so_far.notes.get("scores", {}).items():
        show(f"So far {name} is {value:.3f}.")
    if status == "running":
        show("It is running now.")
    else:
        remark(f"Continue with: duotone resume {run}", quiet)


def _show_scores(summary: Mapping[str, Any]) -> None:
    """Print every score at the last and at the selected round; the newcomers' curve apart."""
    from duotone.runs.result_tables import curve_points

    metric, found = summary["headline"], summary["scores"]
    points = curve_points(found)
    apart = {*points.values(), *(f"{name}.selected" for name in found)}
    columns = (
        "score",
        f">round {summary['rounds']}" if is_narrow() else f">last round ({summary['rounds']})",
        f">selected round ({summary['selected_round'] or '–'})",
        "in",
        ">clients",
        "better",
    )
    shown = (0, 1, 3) if is_narrow() else range(len(columns))
    scores = table(*(columns[place] for place in shown))
    for name, score in found.items():
        if name not in apart:
            both = [value_text(found, key) for key in (name, f"{name}.selected")]
            unit = score.get("unit", "number").replace("share", "%")
            cells = (name, *both, unit, str(score["n"]), score["direction"])
            scores.add_row(*(cells[place] for place in shown))
    show(scores)
    if points:
        title = f"Newcomers {metric} by labelled samples"
        curve = table(*(f">{point}" for point in points), title=title)
        curve.add_row(*(value_text(found, name) for name in points.values()))
        show(curve)


def _show_clients(run: Run) -> None:
    """Print what every client reached in the last round."""
    import polars as pl

    from duotone.measures.metrics import number_text

    metric = run.summary["headline"]
    is_shown = (pl.col("round") == run.summary["rounds"]) & (pl.col("metric") == metric)
    clients = table("client", "kind", "group", f">{metric}", title="Clients, worst first")
    for row in run.metrics.filter(is_shown).sort("kind", "value").iter_rows(named=True):
        value = number_text(row["value"], metric)
        clients.add_row(row["client"], row["kind"], row["group"], value)
    show(clients)
