"""Commands that make samples: generate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duotone.cli.app import OUTPUT, JsonOption, RunArgument, app, show, show_json


@app.command()
def generate(
    run: RunArgument,
    client: Annotated[str, typer.Option(help="A member or a newcomer of the run.")],
    out: Annotated[Path, typer.Option(help="The picture to write, a PNG.", rich_help_panel=OUTPUT)],
    label: Annotated[
        int | None,
        typer.Option(help="A label, which the client need not have; by default those it has."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many samples.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds are equal draws.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Draw new samples with a client's model of a finished run, into one picture.

    Examples:

      duotone generate runs/feddva --client 0 --out zero.png

      duotone generate runs/feddva --client 0 --label 7 --count 40 --out sevens.png
    """
    from duotone.errors import ConfigError
    from duotone.federation.store import write_atomically
    from duotone.runs.folder import tiles_png
    from duotone.runs.generate import contact_sheet
    from duotone.runs.generate import generate as draw

    made = draw(run, client, label=label, count=count, seed=seed)
    if made.x.ndim != 4:
        raise ConfigError(
            f"Samples of {run} are rows of a table, which make no picture; use Run.generate in "
            "Python."
        )
    write_atomically(out, tiles_png(contact_sheet(made.x)))
    if as_json:
        facts = {"client": client, "label": label, "is_seen": made.is_seen, "count": count}
        show_json({"file": str(out), **facts})
        return
    what = "" if label is None else f" of label {label}"
    new = f", which client {client} never had" if made.is_seen is False else ""
    show(f"{count} samples{what}{new}: {out}")
