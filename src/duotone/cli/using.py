"""Commands that use what was trained: predict, join, export."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotone.cli.app import (
    OUTPUT,
    JsonOption,
    QuietOption,
    RunArgument,
    app,
    remark,
    show,
    show_json,
    show_path,
)

if TYPE_CHECKING:
    from duotone.runs.client import Client


class Round(StrEnum):
    """Which model of a client."""

    last = "last"
    selected = "selected"


class Format(StrEnum):
    """How a model is exported."""

    torch = "torch"
    onnx = "onnx"


ClientOption = Annotated[str, typer.Option(help="A member, a newcomer, or one that joined.")]
RoundOption = Annotated[
    Round, typer.Option(help="The last round, or the one that validation samples would choose.")
]


@app.command()
def predict(
    run: RunArgument,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES…", help="Images, folders of images, texts, or npz files with x."
        ),
    ],
    client: ClientOption,
    round: RoundOption = Round.last,
    as_json: JsonOption = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print the result as CSV.", rich_help_panel=OUTPUT)
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Predict samples with a client's model of a finished run; its data is not needed.

    Examples:

      duotone predict runs/hospitals --client b scan.png

      duotone predict runs/hospitals --client b scans/ --csv
    """
    from duotone.errors import ConfigError
    from duotone.runs import load_run
    from duotone.runs.inputs import files_in

    if as_json and as_csv:
        raise ConfigError("Both --json and --csv were given; choose one of them.")
    opened = load_run(run).client(client, round=round.value)
    rows = _answers(opened, files_in(files))
    if as_json:
        show_json({"client": client, "round": opened.facts.round, "predictions": rows})
        return
    if as_csv:
        import sys

        import polars as pl

        sys.stdout.write(pl.DataFrame(rows).write_csv())
        return
    from duotone.cli.printing import table

    result = table(*(name if name in ("sample", "class") else f">{name}" for name in rows[0]))
    for row in rows:
        result.add_row(*(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()))
    show(result)
    remark(f"By the model of client {client} after round {opened.facts.round}.", quiet)


def _answers(client: Client, files: list[Path]) -> list[dict[str, Any]]:
    """Return what a client says of the samples of some files, one row each."""
    import torch

    samples = [(file, client.inputs(file)) for file in files]
    names = [
        str(file) if len(inputs) == 1 else f"{file}[{row}]"
        for file, inputs in samples
        for row in range(len(inputs))
    ]
    scores = client.scores_from(torch.cat([inputs for _, inputs in samples]))
    if client.facts.info.task == "regression":
        return [
            {"sample": name, "value": float(value)}
            for name, value in zip(names, scores.squeeze(1), strict=True)
        ]
    likely, classes = scores.softmax(dim=1).max(dim=1)
    return [
        {"sample": name, "class": client.class_names[int(number)], "probability": float(share)}
        for name, number, share in zip(names, classes, likely, strict=True)
    ]


@app.command()
def join(
    run: RunArgument,
    name: Annotated[str, typer.Option(help="What the newcomer is called.")],
    samples: Annotated[
        Path | None,
        typer.Argument(
            metavar="SAMPLES",
            help="A folder CLASS/*.png, a folder of images, or an npz file with x and y; not "
            "needed if newcomers of the run give nothing.",
        ),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep it in the run, for predict and export.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Let a newcomer join a finished run: it gets a model, and nothing shared moves.

    What it has to give, nothing, inputs or labels, is what newcomers of the run gave.

    Examples:

      duotone join runs/hospitals --name d scans/ --keep
    """
    from duotone.runs import load_run
    from duotone.words import RULES

    client = load_run(run).join(samples, name=name, keep=keep)
    gave = client.facts.gave or "zero-shot"
    if as_json:
        facts = {"client": name, "gave": gave, "samples": client.facts.samples, "kept": keep}
        show_json(facts)
        return
    seen = f" of {client.facts.samples} samples" if client.facts.samples else ""
    show(f"{name} joined and gave {RULES[gave]}{seen} ({gave}).")
    if keep:
        remark(f"Use it: duotone predict {run} --client {name} FILES…", quiet)
    else:
        remark("It was not kept; keep it with --keep.", quiet)


@app.command()
def export(
    run: RunArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to make.")],
    client: ClientOption,
    round: RoundOption = Round.last,
    format: Annotated[
        Format,
        typer.Option(help="torch, for duotone.load_client; or onnx, which needs no duotone."),
    ] = Format.torch,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a client's model into a folder that needs neither the run nor its data.

    Examples:

      duotone export runs/hospitals --client b b-model

      duotone export runs/hospitals --client b b-onnx --format onnx
    """
    from duotone.runs import load_run

    written = load_run(run).client(client, round=round.value).export(out, format.value)
    if as_json:
        show_json({"folder": str(written), "client": client, "format": format.value})
        return
    show_path(f"The model of client {client}", written, quiet)
