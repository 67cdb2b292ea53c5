"""Commands that train or read what was trained: run, resume, demo, align."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotone.cli.app import (
    FEDERATION,
    OUTPUT,
    ClientsOption,
    ConfigOption,
    DataOption,
    Device,
    JsonOption,
    ModelOption,
    PartitionOption,
    QuietOption,
    RunArgument,
    SeedOption,
    SetOption,
    Stopped,
    StyleOption,
    app,
    remark,
    show,
    show_json,
    show_path,
    talk,
)
from duotone.errors import ConfigError, Problems

if TYPE_CHECKING:
    from duotone.cli.progress import Display
    from duotone.runs import Plan, Run


DEMO_STORY = (
    "Five clients hold real handwritten digits. Each draws its own mark over them (nothing, a "
    "wave across,\na wave down, an ellipse), has its own mix of digits, and labels for 300 of "
    "them. Four train; one joins\nwhen training is over. The last method also learns from the "
    "unlabelled images, and tells digit from mark.\n"
)
_CLASSIFIER: dict[str, Any] = {"model": "thesis-cnn-bn", "rounds": 10}
DEMO_METHODS: dict[str, dict[str, Any]] = {
    "local": _CLASSIFIER,
    "fedavg": _CLASSIFIER,
    "fedavg-ft": _CLASSIFIER,
    "feddva": {
        "rounds": 20,
        "evaluate_every": 10,
        "method": {"classify": "tune", "batch_size": 32, "newcomer_epochs": 5},
    },
}
DEMO_SETTINGS: dict[str, Any] = {
    "data": "digits",
    "style": "marks",
    "labels": 300,
    "partition": {"scheme": "dirichlet", "clients": 5, "newcomers": 1, "alpha": 1.0},
    "curve": [],
    "latents": 150,
}


@app.command()
def demo(
    out: Annotated[
        Path | None, typer.Option(help="Where the runs go; by default a new folder in ./runs.")
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """See personalisation work: four methods on real digits, five clients, about two minutes.

    Every client has its own mark drawn over its digits and its own mix of digits. Four clients
    train; the fifth is a newcomer that joins when training is over.
    """
    from datetime import datetime

    from duotone.config import merged
    from duotone.report import write_report
    from duotone.runs import plan_run

    place = out or Path("runs") / f"demo_{datetime.now():%Y-%m-%d_%H%M%S}"
    if not quiet:
        talk().print(DEMO_STORY, soft_wrap=True)
    finished: list[Run] = []
    for method, settings in DEMO_METHODS.items():
        plan = plan_run(merged(merged(DEMO_SETTINGS, settings), {"method": {"name": method}}))
        finished += _execute_all([plan], place / method, quiet)
    report = write_report(finished, place / "report.html")
    if as_json:
        content = [{"run": str(item.path), **item.summary} for item in finished]
        show_json({"runs": content, "report": str(report)})
        return
    _show_results(finished, quiet)
    remark("Every client is judged on its own test digits. ± is the spread over clients.", quiet)
    show_path("Report", report, quiet)


def gather(
    config: Path | None,
    given: Mapping[str, Any],
    assignments: list[str] | None,
    problems: Problems,
) -> dict[str, Any]:
    """Join settings from a file, from options and from --set; the last one wins.

    Args:
        config: The file.
        given: What options say.
        assignments: What --set says.
        problems: Told what cannot be read.
    """
    from duotone.config import merged, parse_assignment, read_toml
    from duotone.runs import with_tables

    read = problems.checked(lambda: read_toml(config)) if config else None
    values: dict[str, Any] = with_tables(read or {})
    values = merged(values, {key: value for key, value in given.items() if value is not None})
    for text in assignments or []:
        values = merged(values, problems.checked(partial(parse_assignment, text)) or {})
    return values


def described(partition: str | None, clients: int | None) -> dict[str, Any] | None:
    """Return the partition table that two options give."""
    given = {"scheme": partition, "clients": clients}
    return {key: value for key, value in given.items() if value is not None} or None


@app.command()
def run(
    method: Annotated[str | None, typer.Argument(help="The method; see: duotone methods")] = None,
    data: DataOption = None,
    style: StyleOption = None,
    partition: PartitionOption = None,
    clients: ClientsOption = None,
    model: ModelOption = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds.", rich_help_panel=FEDERATION)] = None,
    sampled: Annotated[
        int | None, typer.Option(help="Members drawn per round.", rich_help_panel=FEDERATION)
    ] = None,
    seed: SeedOption = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Repeat with these seeds, such as 0-2 or 0,3,5.", rich_help_panel=FEDERATION
        ),
    ] = None,
    device: Annotated[Device | None, typer.Option(rich_help_panel=FEDERATION)] = None,
    assignments: SetOption = None,
    config: ConfigOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The run's folder; by default a new one in ./runs.", rich_help_panel=OUTPUT
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and show everything, train nothing.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a method, evaluate it on members and newcomers, keep everything in a run folder.

    Examples:

      duotone run fedavg --data digits --rounds 10

      duotone run fedavg-ft --data mnist --partition groups --clients 50 --set partition.alpha=0.1

      duotone run local --style marks --partition iid --clients 8 --seeds 0-2 --set lr=0.05
    """
    from duotone.runs import plan_run

    given = {
        "method": {"name": method} if method else None,
        "data": data,
        "style": style,
        "partition": described(partition, clients),
        "model": model,
        "rounds": rounds,
        "sampled": sampled,
        "seed": seed,
        "device": device.value if device else None,
    }
    problems = Problems()
    values = gather(config, given, assignments, problems)
    if seeds and seed is not None:
        problems.add(["Give --seed or --seeds, not both."])
    numbers = (problems.checked(lambda: parse_seeds(seeds)) if seeds else None) or [None]
    plans = [
        plan_run(values if number is None else {**values, "seed": number}, problems=problems)
        for number in numbers
    ]
    if dry_run:
        _show_plan(plans[0], as_json)
        return
    finished = _execute_all(plans, out, quiet)
    if as_json:
        content = [{"run": str(item.path), **item.summary} for item in finished]
        show_json(content if seeds else content[0])
        return
    _show_results(finished, quiet)


def parse_seeds(text: str) -> list[int]:
    """Turn "0-2" or "0,3,5" into numbers.

    >>> parse_seeds("0-2,7")
    [0, 1, 2, 7]
    """
    numbers: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            numbers.extend(range(int(first), int(last if dash else first) + 1))
    except ValueError:
        numbers = []
    if not numbers or len(set(numbers)) != len(numbers):
        raise ConfigError(f"--seeds takes different numbers such as 0-2 or 0,3,5. Got {text!r}.")
    return numbers


def _execute_all(plans: list[Plan], out: Path | None, quiet: bool) -> list[Run]:
    from duotone.cli.progress import Display
    from duotone.runs import Run, prepare

    finished: list[Run] = []
    with Display(talk(), quiet=quiet) as display:
        for plan in plans:
            several = out is not None and len(plans) > 1
            place = out / f"seed{plan.config.seed}" if out is not None and several else out
            folder = prepare(plan, place, command=["duotone", *sys.argv[1:]])
            execute_or_stop(folder.path, plan, display)
            finished.append(Run(folder.path))
    return finished


def execute_or_stop(path: Path, plan: Plan, display: Display) -> None:
    """Carry out a run; when the user stops it, say how to go on and exit with 130."""
    from duotone.runs import RunFolder, execute

    with resumable(path, display):
        execute(RunFolder(path), plan, [display])


@contextmanager
def resumable(path: Path, display: Display) -> Iterator[None]:
    """Say what is saved and how to go on when the user stops a run, once or twice."""
    from duotone.runs import Interrupted

    again = f"Resume with: duotone resume {path}"
    try:
        yield
    except Interrupted:
        talk().print(f"Stopped after a complete round. {again}", soft_wrap=True)
        raise typer.Exit(130) from None
    except KeyboardInterrupt:
        raise Stopped(f"Stopped at once. {display.saved} {again}") from None


def _show_results(runs: list[Run], quiet: bool) -> None:
    from duotone.cli.tables import results_table

    several = len({item.config.seed for item in runs}) > 1
    names = [
        f"{item.config.method['name']}" + (f" seed {item.config.seed}" if several else "")
        for item in runs
    ]
    show(results_table([(name, item.summary) for name, item in zip(names, runs, strict=True)]))
    for item in runs:
        show_path("Run folder", item.path, quiet)


def _show_plan(plan: Plan, as_json: bool) -> None:
    from duotone.config import write_toml
    from duotone.runs import facts_of

    facts = facts_of(plan)
    if as_json:
        show_json({"config": plan.config.model_dump(), **facts})
        return
    sys.stdout.write(write_toml(plan.config.model_dump()))
    sampled = plan.config.sampled or 0
    for part, size in facts["parts"].items():
        sys.stdout.write(
            f"# {part}: {size['parameters']:,} parameters, {size['buffers']:,} buffer values\n"
        )
    megabytes = 2 * sampled * facts["parts"]["shared"]["bytes"] / 1e6
    sys.stdout.write(
        f"# {facts['members']} members, {facts['newcomers']} newcomers; {megabytes:.1f} MB travel "
        "per round\n"
    )
    preparation = plan.population.dataset.preparation
    if preparation is not None:
        sys.stdout.write(f"# features: {', '.join(preparation.features)}\n")
        if preparation.remark:
            sys.stdout.write(f"# {preparation.remark}\n")


@app.command()
def resume(run: RunArgument, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Continue a run from its last committed round, to the same end as if it had never stopped.

    Example:

      duotone resume runs/2026-11-15_2130_fedavg_digits_seed0
    """
    from duotone.cli.progress import Display
    from duotone.runs import resume as resume_run

    with Display(talk(), quiet=quiet) as display, resumable(run, display):
        finished = resume_run(run, observers=[display])
    if as_json:
        show_json({"run": str(finished.path), **finished.summary})
        return
    _show_results([finished], quiet)


@app.command()
def align(
    run: RunArgument,
    layer: Annotated[
        str | None,
        typer.Option(help="The hidden layer; by default the first linear one but the last."),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(help="Dimensions of the local code; by default those that stand out."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The new folder; by default the run's with -aligned behind its name.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Read off a finished run's hidden layer what tells its clients apart; the model stays.

    Writes a run of fedcd with the same model: the reading of FedAvg is FedCD.

    Example:

      duotone align runs/fedavg --layer fc1
    """
    from duotone.cli.progress import Display
    from duotone.runs.align import align as align_run

    with Display(talk(), quiet=quiet) as display:
        finished = align_run(run, layer=layer, rank=rank, out=out, observers=[display])
    if as_json:
        show_json({"run": str(finished.path), **finished.summary})
        return
    _show_results([finished], quiet)
