"""Commands that look: runs, show, methods, datasets, data import, partition, doctor."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from duotone.cli.app import (
    ClientsOption,
    ConfigOption,
    DataOption,
    JsonOption,
    ModelOption,
    PartitionOption,
    QuietOption,
    RunArgument,
    SeedOption,
    SetOption,
    StyleOption,
    app,
    data_app,
    remark,
    show,
    show_json,
    show_path,
    talk,
)
from duotone.cli.running import described, gather
from duotone.cli.tables import RULES, results_table, table, value_text

ROLES = ("member", "newcomer")


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
    import polars as pl

    from duotone.measures.summary import unit_of
    from duotone.runs import load_run
    from duotone.runs.tables import curve_order, number_text

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
        f"{facts['seconds']:.0f} s"
    )
    if not is_done:
        so_far = item.folder.manifest().last
        show(f"{so_far.round} of {config.rounds} rounds are committed.")
        for name, value in so_far.notes.get("scores", {}).items():
            show(f"So far {name} is {value:.3f}.")
        if status == "running":
            show("It is running now.")
        else:
            remark(f"Continue with: duotone resume {run}", quiet)
        return
    summary = item.summary
    show(results_table([(str(config.method["name"]), summary)]))
    metric = summary["headline"]
    found = summary["scores"]
    scores = table(
        "score",
        f">last round ({summary['rounds']})",
        f">selected round ({summary['selected_round'] or '–'})",
        "in",
        ">clients",
        "better",
    )
    for name, score in found.items():
        if "@" not in name and not name.endswith(".selected"):
            both = [value_text(found, key) for key in (name, f"{name}.selected")]
            unit = unit_of(name, found).replace("share", "%")
            scores.add_row(name, *both, unit, str(score["n"]), score["direction"])
    show(scores)
    points = {name.partition("@")[2]: name for name in found if "@" in name}
    if points:
        names = curve_order(points)
        title = f"Newcomers {metric} by labelled samples"
        curve = table(*(f">{point}" for point in names), title=title)
        curve.add_row(*(value_text(found, points[point]) for point in names))
        show(curve)
    last = item.metrics.filter(
        (pl.col("round") == summary["rounds"]) & (pl.col("metric") == metric)
    ).sort("kind", "value")
    clients = table("client", "kind", "group", f">{metric}", title="Clients, worst first")
    for row in last.iter_rows(named=True):
        value = number_text(row["value"], metric)
        clients.add_row(row["client"], row["kind"], row["group"], value)
    show(clients)


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="Show one method in full.")] = None,
    data: DataOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the methods; or show one: its idea, its two parts, counted, and its settings.

    Examples:

      duotone methods

      duotone methods fedbn --data mini-digits --model cnn-bn
    """
    from dataclasses import asdict

    from duotone.methods import METHODS
    from duotone.runs.plan import part_sizes, plan_run

    if name is None:
        methods = [METHODS.load(each) for each in METHODS]
        if as_json:
            show_json([_about(method) for method in methods])
            return
        result = table("method", "what it does", "newcomers give")
        for method in methods:
            given = " or ".join(RULES[rule] for rule in method.newcomer_rules)
            result.add_row(method.name, method.title, given)
        show(result)
        remark("More on one: duotone methods NAME", quiet)
        return
    method = METHODS.load(name)
    # Only the form of the samples matters, so one client holds them all.
    partition = {"scheme": "iid", "clients": 1}
    values = {"data": data or "digits", "model": model, "partition": partition, "method": name}
    plan = plan_run(values)
    sizes = part_sizes(plan.method, plan.population.info)
    if as_json:
        counted = {"data": plan.config.data, "model": plan.config.model}
        parts = {part: asdict(size) for part, size in sizes.items()}
        show_json({**_about(method), **counted, "parts": parts})
        return
    text = (
        (sys.modules[method.__module__].__doc__ or "").strip().replace("``", "").replace("**", "")
    )
    sys.stdout.write(text + "\n\n")
    parts_table = table(
        "part",
        ">parameters",
        ">other numbers",
        ">kB",
        "layers",
        title=f"What is sent and what stays: {plan.config.model} on {plan.config.data}",
    )
    for part, size in sizes.items():
        parts_table.add_row(
            part,
            f"{size.parameters:,}",
            f"{size.buffers:,}",
            f"{size.bytes / 1000:,.0f}",
            ", ".join(size.layers) or "–",
        )
    show(parts_table)
    rules = ", ".join(f"{rule} (from {RULES[rule]})" for rule in method.newcomer_rules)
    missing = [rule for rule in RULES if rule not in method.newcomer_rules]
    cannot = f"; not {', not '.join(missing)}" if missing else ""
    show(f"Newcomers: {rules}{cannot}.\n")
    settings = table("setting", ">default", "meaning", title=f"Settings ({method.rounds} rounds)")
    for field, info in method.Config.model_fields.items():
        settings.add_row(field, str(info.default), info.description)
    show(settings)


def _about(method: Any) -> dict[str, Any]:
    """Return what is known of a method without any data."""
    return {
        "name": method.name,
        "title": method.title,
        "paper": method.paper,
        "rounds": method.rounds,
        "newcomer_rules": method.newcomer_rules,
        "settings": {
            field: {"default": info.default, "meaning": info.description}
            for field, info in method.Config.model_fields.items()
        },
    }


@app.command()
def datasets(as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """List the data sets and where they are."""
    from duotone.data import describe_datasets

    found = describe_datasets()
    if as_json:
        show_json(
            [
                {"name": d.name, "summary": d.summary, "available": d.available, "where": d.where}
                for d in found
            ]
        )
        return
    result = table("data", "what it is", "where")
    for item in found:
        result.add_row(item.name, item.summary, item.where, style="" if item.available else "dim")
    show(result)
    remark(
        "Your own: --data with FILE.npz, FILE.csv or FILE.parquet (--set table.label=COLUMN), "
        "FOLDER/CLIENT/CLASS/*.png, a folder of .npy files, or hub:NAME",
        quiet,
    )


@data_app.command(name="import")
def import_data(
    name: Annotated[
        str,
        typer.Argument(help="celeba64, cifar10, mnist, mnist-m, svhn, usps, or a name of yours."),
    ],
    path: Annotated[
        Path,
        typer.Argument(
            help="The folder with the official files; for cifar10 also its .tar.gz; for a name of "
            "yours what --data takes."
        ),
    ],
    quiet: QuietOption = False,
) -> None:
    """Read official files, or images of your own, once and keep them in the user cache.

    Examples:

      duotone data import mnist ~/Downloads/mnist

      duotone data import scans path/to/folder
    """
    from duotone.data import import_dataset

    show_path("Written", import_dataset(name, path), quiet)


@app.command()
def partition(
    data: DataOption = None,
    style: StyleOption = None,
    scheme: PartitionOption = None,
    clients: ClientsOption = None,
    seed: SeedOption = None,
    assignments: SetOption = None,
    config: ConfigOption = None,
    picture: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("partition.png"),
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Preview who would hold what, in numbers and as a picture, without training.

    Examples:

      duotone partition --data digits --partition groups --clients 50

      duotone partition --partition dirichlet --clients 20 --set partition.alpha=0.1
    """
    from dataclasses import asdict

    from duotone.errors import Problems
    from duotone.partition.describe import describe
    from duotone.partition.picture import draw_partition
    from duotone.runs import plan_population

    given = {"data": data, "style": style, "partition": described(scheme, clients), "seed": seed}
    problems = Problems()
    population = plan_population(gather(config, given, assignments, problems), problems)
    found = describe(population.dataset, population.partition)
    draw_partition(population.dataset, population.partition, picture)
    if as_json:
        content = {key: value for key, value in asdict(found).items() if key != "table"}
        show_json({**content, "table": found.table.to_dicts(), "picture": str(picture)})
        return
    numbers = table("", ">")
    numbers.add_row("members", str(found.members))
    numbers.add_row("newcomers", str(found.newcomers))
    numbers.add_row(
        "training samples, smallest / median / largest client",
        f"{found.smallest} / {found.median:g} / {found.largest}",
    )
    numbers.add_row("samples nobody holds", str(found.unused))
    if found.label_distance is not None:
        numbers.add_row("label shift (0 alike, 1 disjoint)", f"{found.label_distance:.2f}")
        numbers.add_row("classes a client effectively has", f"{found.effective_classes:.1f}")
    show(numbers)
    groups = table("group", ">members", ">newcomers", ">training samples")
    for group in found.groups[:20]:
        groups.add_row(group.group, str(group.members), str(group.newcomers), str(group.samples))
    show(groups)
    if len(found.groups) > 20:
        show(f"… and {len(found.groups) - 20} more groups")
    show_path("Picture", picture, quiet)


@app.command()
def doctor(as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Check this machine: versions, cores, memory for workers, folders, data."""
    from importlib.metadata import PackageNotFoundError, version

    import torch

    from duotone.data import describe_datasets
    from duotone.data.files import user_cache
    from duotone.runs.plan import available_cores

    packages = ("torch", "numpy", "scipy", "scikit-learn", "polars", "pydantic", "typer", "rich")
    checks: dict[str, str] = {"duotone": version("duotone"), "python": sys.version.split()[0]}
    for package in packages:
        try:
            checks[package] = version(package)
        except PackageNotFoundError:
            checks[package] = "missing"
    checks["device"] = "cuda" if torch.cuda.is_available() else "cpu"
    checks["cores"] = str(available_cores())
    checks["a worker process"] = _worker_check()
    for what, folder in (("runs folder", Path("runs")), ("user cache", user_cache())):
        checks[what] = f"{folder} ({_writable(folder)})"
    data = [item.name for item in describe_datasets() if item.available]
    checks["data at hand"] = ", ".join(data)
    if as_json:
        show_json(checks)
    else:
        result = table("check", "found")
        for check, value in checks.items():
            result.add_row(check, value)
        show(result)


def _worker_check() -> str:
    """Start one worker process for real."""
    from duotone.federation.backends.processes import Processes
    from duotone.runs import plan_run

    partition = {"scheme": "iid", "clients": 2}
    plan = plan_run({"data": "mini-digits", "partition": partition, "method": "fedavg"})
    begin = time.monotonic()
    with Processes(plan.method, plan.population, 1) as pool:
        pool.is_ready(patience=None)
    return f"starts in {time.monotonic() - begin:.1f} s"


def _writable(folder: Path) -> str:
    existing = (
        folder if folder.exists() else next(p for p in folder.absolute().parents if p.exists())
    )
    return "writable" if os.access(existing, os.W_OK) else "NOT writable"
