"""Commands that show: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duotone.cli.app import (
    OUTPUT,
    AnywayOption,
    JsonOption,
    QuietOption,
    ReferenceOption,
    RunsArgument,
    app,
    show_json,
    show_path,
)


@app.command()
def report(
    runs: RunsArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file; by default report.html in the run's folder, or in the folder that "
            "several runs have in common.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    reference: ReferenceOption = None,
    anyway: AnywayOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write one HTML page about a run, or about several beside each other; it opens offline.

    Examples:

      duotone report runs/demo/fedavg

      duotone report runs/demo/local runs/demo/fedavg --out demo.html

      duotone report runs/target-shift --reference local
    """
    from duotone.report import write_report

    written = write_report(runs, out, reference=reference, anyway=anyway)
    if as_json:
        show_json({"report": str(written)})
        return
    show_path("Report", written, quiet)
