"""Commands that make samples: generate, restyle, anonymise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from duotone.cli.app import (
    OUTPUT,
    JsonOption,
    QuietOption,
    RunArgument,
    app,
    show,
    show_json,
    show_path,
)

if TYPE_CHECKING:
    from duotone.runs.restyle import Restyled

SourceOption = Annotated[str, typer.Option("--client", help="Whose samples: a member or newcomer.")]
TargetOption = Annotated[str, typer.Option("--as", help="Whose style they get: another client.")]
PairsOption = Annotated[
    Path,
    typer.Option(
        help="A PNG with originals above what was drawn, or an npz file with x and y.",
        rich_help_panel=OUTPUT,
    ),
]
TestsOption = Annotated[int, typer.Option("--count", min=1, help="How many test samples.")]
StyleSeedOption = Annotated[int, typer.Option(min=0, help="Of the choice among the styles.")]


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
    quiet: QuietOption = False,
) -> None:
    """Draw new samples with a client's model of a finished run, into one picture.

    Examples:

      duotone generate runs/feddva --client 0 --out zero.png

      duotone generate runs/feddva --client 0 --label 7 --count 40 --out sevens.png
    """
    from duotone.errors import ConfigError
    from duotone.files import write_atomically
    from duotone.runs.generate import contact_sheet
    from duotone.runs.generate import generate as draw
    from duotone.runs.result_files import tiles_png

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
    show_path(f"{count} samples{what}{new}", out, quiet)


@app.command()
def restyle(
    run: RunArgument,
    client: SourceOption,
    reference: TargetOption,
    out: PairsOption,
    count: TestsOption = 10,
    seed: StyleSeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Draw test samples of one client as another client would have them.

    Examples:

      duotone restyle runs/padpaf --client 0 --as 1 --out zero-as-one.png

      duotone restyle runs/padpaf --client 0 --as 1 --count 200 --out zero-as-one.npz
    """
    from duotone.runs.restyle import restyle as draw

    _check_ending(out)
    made = draw(run, source=client, target=reference, count=count, seed=seed)
    _write(out, made)
    if as_json:
        show_json({"file": str(out), "client": client, "as": reference, "count": len(made.x)})
        return
    show_path(f"{len(made.x)} samples of client {client} as client {reference} draws", out, quiet)


@app.command()
def anonymise(
    run: RunArgument,
    client: SourceOption,
    reference: TargetOption,
    out: PairsOption,
    count: TestsOption = 10,
    seed: StyleSeedOption = 0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Draw test samples of a client anew in another's style, and measure whether it can be found.

    Two attackers try: one has learnt from real samples of all clients, the other from samples that
    were drawn anew. What they find is printed; there is no guarantee.

    Examples:

      duotone anonymise runs/padpaf --client 0 --as 1 --out zero.npz --count 200
    """
    from duotone.runs.restyle import anonymise as draw

    _check_ending(out)
    made = draw(run, client=client, reference=reference, count=count, seed=seed)
    _write(out, made.samples)
    if as_json:
        show_json({"file": str(out), "count": len(made.x), **made.exposure.as_json()})
        return
    show_path(f"{len(made.x)} samples", out, quiet)
    show(made.exposure.statement)


def _check_ending(out: Path) -> None:
    """Refuse a file that would not be written, before anything is computed for it."""
    from duotone.errors import ConfigError

    if out.suffix not in (".png", ".npz"):
        raise ConfigError(f"Samples are written as .png or .npz. Got {out.name!r}.")


def _write(out: Path, made: Restyled) -> None:
    """Write samples as the ending of the file asks.

    Raises:
        ConfigError: There is nothing to look at.
    """
    import io

    import numpy as np

    from duotone.errors import ConfigError
    from duotone.files import write_atomically
    from duotone.runs.restyle import pair_sheet
    from duotone.runs.result_files import tiles_png

    if out.suffix == ".npz":
        buffer = io.BytesIO()
        assert made.y is not None
        np.savez_compressed(buffer, allow_pickle=False, x=made.x, y=made.y)
        write_atomically(out, buffer.getvalue())
        return
    if made.x.ndim != 4:
        raise ConfigError(
            f"These samples are rows of a table, which make no picture; write an npz file. "
            f"Got {out.name!r}."
        )
    write_atomically(out, tiles_png(pair_sheet(made.original, made.x)))
