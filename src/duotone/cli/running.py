"""Commands that train or read what was trained: run, resume, align."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    show,
    show_json,
    show_path,
    talk,
)
from duotone.cli.completing import methods
from duotone.cli.given import described, gather, parse_seeds
from duotone.errors import Problems

if TYPE_CHECKING:
    from duotone.cli.progress import Display
    from duotone.runs import Plan, Run
    from duotone.runs.forecast import Forecast


RoundsOption = Annotated[int | None, typer.Option(help="Rounds.", rich_help_panel=FEDERATION)]
SampledOption = Annotated[
    int | None, typer.Option(help="Members drawn per round.", rich_help_panel=FEDERATION)
]
SeedsOption = Annotated[
    str | None,
    typer.Option(help="Repeat with these seeds, such as 0-2 or 0,3,5.", rich_help_panel=FEDERATION),
]
BackendOption = Annotated[
    str | None,
    typer.Option(
        help="Where clients are computed: auto, serial, processes, batched, flower, flower-ray.",
        rich_help_panel=FEDERATION,
    ),
]
MeasureOption = Annotated[
    str | None,
    typer.Option(
        help="What is measured in the end: full, fast, none, or names such as probes,swaps.",
        rich_help_panel=FEDERATION,
    ),
]
DeviceOption = Annotated[Device | None, typer.Option(rich_help_panel=FEDERATION)]
OutOption = Annotated[
    Path | None,
    typer.Option(help="The run's folder; by default a new one in ./runs.", rich_help_panel=OUTPUT),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Check everything, forecast time and memory, train nothing."),
]


@app.command()
def run(
    method: Annotated[
        str | None,
        typer.Argument(help="The method; see: duotone methods", autocompletion=methods),
    ] = None,
    data: DataOption = None,
    style: StyleOption = None,
    partition: PartitionOption = None,
    clients: ClientsOption = None,
    model: ModelOption = None,
    rounds: RoundsOption = None,
    sampled: SampledOption = None,
    seed: SeedOption = None,
    seeds: SeedsOption = None,
    backend: BackendOption = None,
    device: DeviceOption = None,
    measure: MeasureOption = None,
    assignments: SetOption = None,
    config: ConfigOption = None,
    out: OutOption = None,
    dry_run: DryRunOption = False,
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
        "backend": backend,
        "device": device.value if device else None,
        "measure": measure,
    }
    problems = Problems()
    values = gather(config, given, assignments, problems)
    if seeds is not None and seed is not None:
        problems.add(["Give --seed or --seeds, not both."])
    numbers = (problems.checked(lambda: parse_seeds(seeds)) if seeds is not None else None) or [
        None
    ]
    plans = [
        plan_run(values if number is None else {**values, "seed": number}, problems=problems)
        for number in numbers
    ]
    if dry_run:
        _show_plan(plans[0], len(plans), as_json)
        return
    finished = execute_all(plans, out, quiet)
    if as_json:
        content = [as_table(item) for item in finished]
        show_json(content if seeds else content[0])
        return
    show_results(finished, quiet)


def execute_all(plans: list[Plan], out: Path | None, quiet: bool) -> list[Run]:
    """Carry out planned runs one after the other; several share the folder ``out``."""
    from duotone.cli.progress import Display
    from duotone.runs import Run, prepare
    from duotone.runs.execute import execute

    finished: list[Run] = []
    with Display(talk(), quiet=quiet) as display:
        for plan in plans:
            several = out is not None and len(plans) > 1
            place = out / f"seed{plan.config.seed}" if out is not None and several else out
            folder = prepare(plan, place, command=["duotone", *sys.argv[1:]])
            with resumable(folder.path, display):
                execute(folder, plan, [display])
            finished.append(Run(folder.path))
    return finished


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


def as_table(run: Run) -> dict[str, Any]:
    """Return a finished run for machines: its folder, and what its summary says."""
    return {"run": str(run.path), **run.summary}


def _show_finished(run: Run, as_json: bool, quiet: bool) -> None:
    if as_json:
        show_json(as_table(run))
    else:
        show_results([run], quiet)


def show_results(runs: list[Run], quiet: bool) -> None:
    """Print one row of scores for each run, and where it is kept."""
    from duotone.cli.printing import results_table

    several = len({item.config.seed for item in runs}) > 1
    names = [
        f"{item.config.method['name']}" + (f" seed {item.config.seed}" if several else "")
        for item in runs
    ]
    show(results_table([(name, item.summary) for name, item in zip(names, runs, strict=True)]))
    for item in runs:
        show_path("Run folder", item.path, quiet)


def _show_plan(plan: Plan, runs: int, as_json: bool) -> None:
    from dataclasses import asdict

    from duotone.config import write_toml
    from duotone.runs import facts_of
    from duotone.runs.forecast import forecast

    facts, expected = facts_of(plan), forecast(plan)
    if as_json:
        show_json({"config": plan.config.model_dump(), **facts, "forecast": asdict(expected)})
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
    for line in _expected_lines(expected, runs):
        sys.stdout.write(f"# {line}\n")
    preparation = plan.population.dataset.preparation
    if preparation is not None:
        sys.stdout.write(f"# features: {', '.join(preparation.features)}\n")
        if preparation.remark:
            sys.stdout.write(f"# {preparation.remark}\n")


def _expected_lines(expected: Forecast, runs: int) -> Iterator[str]:
    """Yield how long a run will take and how much memory, in words."""
    from duotone.measures.panels import size_text
    from duotone.words import span_text

    whole = span_text((expected.training + expected.evaluation) * runs)
    each = f" for {runs} runs" if runs > 1 else ""
    yield (
        f"about {whole}{each} on this machine as busy as it is now: training "
        f"{span_text(expected.training)}, evaluations {span_text(expected.evaluation)}"
        f"{' each' if runs > 1 else ''}; what is measured at the end comes on top"
    )
    if expected.memory is not None:
        several = f" in {expected.processes} processes" if expected.processes > 1 else ""
        yield f"about {size_text(expected.memory)} of memory{several}"


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
    _show_finished(finished, as_json, quiet)


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
    _show_finished(finished, as_json, quiet)
