"""The command demo: four methods on real digits, from nothing to a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from duotone.cli.app import JsonOption, QuietOption, app, remark, show_json, show_path, talk
from duotone.cli.running import as_table, execute_all, show_results

if TYPE_CHECKING:
    from duotone.runs import Run

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
        finished += execute_all([plan], place / method, quiet)
    report = write_report(finished, place / "report.html")
    if as_json:
        show_json({"runs": [as_table(item) for item in finished], "report": str(report)})
        return
    show_results(finished, quiet)
    remark("Every client is judged on its own test digits. ± is the spread over clients.", quiet)
    show_path("Report", report, quiet)
    remark(f"See and move the two inks: duotone explore {place / 'feddva'}", quiet)
