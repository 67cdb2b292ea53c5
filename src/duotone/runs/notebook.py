"""Progress in a notebook: one line below the cell that is replaced as rounds are committed."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

from duotone.runs.execute import Progress, RunObserver
from duotone.runs.folder import RunFolder
from duotone.runs.plan import Plan


def notebook_observers() -> list[RunObserver]:
    """Return an observer that shows progress, if this is a notebook; else nothing."""
    shell = sys.modules.get("IPython")
    kernel = None if shell is None else shell.get_ipython()
    return [NotebookProgress(shell)] if hasattr(kernel, "kernel") else []


class NotebookProgress:
    """Shows how far a run is.

    Args:
        shell: The package IPython.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._name = ""
        self._place: Any = None

    def run_started(self, folder: RunFolder, plan: Plan, round: int) -> None:
        """Open the line."""
        self._name = plan.method.name
        rounds = plan.config.rounds or 1
        self._place = self._shell.display.display(self._line(round, rounds, {}), display_id=True)

    def round_committed(self, progress: Progress) -> None:
        """Replace the line."""
        if self._place is not None:
            self._place.update(self._line(progress.round, progress.rounds, progress.scores))

    def message(self, line: str) -> None:
        """Show a line the user should know, on its own."""
        self._shell.display.display(self._shell.display.HTML(f"<p>{escape(line)}</p>"))

    def _line(self, done: int, rounds: int, scores: dict[str, float]) -> Any:
        said = " · ".join(f"{name} {value:.3f}" for name, value in scores.items())
        bar = f'<progress value="{done}" max="{rounds}"></progress>'
        words = f"{escape(self._name)} round {done} of {rounds} {bar} {escape(said)}"
        return self._shell.display.HTML(f"<p>{words}</p>")
