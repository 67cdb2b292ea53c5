"""Commands to look around before a run: methods, datasets, data import, partition, doctor."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotone.cli.app import (
    ClientsOption,
    ConfigOption,
    DataOption,
    JsonOption,
    ModelOption,
    PartitionOption,
    QuietOption,
    SeedOption,
    SetOption,
    StyleOption,
    app,
    data_app,
    remark,
    show,
    show_json,
    show_path,
)
from duotone.cli.given import described, gather
from duotone.cli.printing import table
from duotone.words import RULES

if TYPE_CHECKING:
    from duotone.federation.method import Method, Part
    from duotone.runs.parts import PartSize


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

    from duotone.methods import METHODS, describe_methods

    if name is None:
        if as_json:
            show_json([_about(METHODS.load(each)) for each in METHODS])
            return
        result = table("method", "what it does", "newcomers give")
        for each, (title, rules) in describe_methods().items():
            result.add_row(each, title, " or ".join(RULES[rule] for rule in rules))
        show(result)
        remark("More on one: duotone methods NAME", quiet)
        return
    from duotone.runs.parts import part_sizes
    from duotone.runs.plan import plan_run

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
    else:
        _show_method(method, sizes, f"{plan.config.model} on {plan.config.data}")


def _show_method(method: type[Method], sizes: Mapping[Part, PartSize], used: str) -> None:
    """Print all about one method; ``used`` says which model and data its parts are counted for."""
    text = (sys.modules[method.__module__].__doc__ or "").strip()
    sys.stdout.write(text.replace("``", "").replace("**", "") + "\n\n")
    title = f"What is sent and what stays: {used}"
    parts = table("part", ">parameters", ">other numbers", ">kB", "layers", title=title)
    for part, size in sizes.items():
        parts.add_row(
            part,
            f"{size.parameters:,}",
            f"{size.buffers:,}",
            f"{size.bytes / 1000:,.0f}",
            ", ".join(size.layers) or "–",
        )
    show(parts)
    rules = ", ".join(f"{rule} (from {RULES[rule]})" for rule in method.newcomer_rules)
    missing = [rule for rule in RULES if rule not in method.newcomer_rules]
    cannot = f"; not {', not '.join(missing)}" if missing else ""
    show(f"Newcomers: {rules}{cannot}.\n")
    settings = table("setting", ">default", "meaning", title=f"Settings ({method.rounds} rounds)")
    for field, info in method.Config.model_fields.items():
        settings.add_row(field, str(info.default), info.description)
    show(settings)


def _about(method: type[Method]) -> dict[str, Any]:
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
    from dataclasses import asdict

    from duotone.data import describe_datasets

    found = describe_datasets()
    if as_json:
        show_json([asdict(item) for item in found])
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
    from duotone.data.canonical import user_cache
    from duotone.federation.backends.processes import available_cores

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
