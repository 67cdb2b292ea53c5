"""What a user sees while a study goes on: each run's progress, and a line when it is over."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.text import Text

from duotone.cli.progress import Display, score_text
from duotone.runs import Plan, Progress, RunFolder
from duotone.runs.result_tables import choice_text
from duotone.runs.study import RunEnded


class StudyDisplay:
    """Shows the progress of a study; use as a context manager.

    Args:
        console: Where to write; people read it, so it is standard error.
        quiet: Show nothing but what the user must know.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._run = Display(console, quiet=quiet)

    def __enter__(self) -> StudyDisplay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run.__exit__(kind, error, traceback)

    def run_started(self, folder: RunFolder, plan: Plan, round: int) -> None:
        """Open a display for this run alone, so that bars of finished runs do not pile up."""
        self._run = Display(self._console, quiet=self._quiet)
        self._run.__enter__()
        self._run.run_started(folder, plan, round)

    def round_committed(self, progress: Progress) -> None:
        """Move the run's bar."""
        self._run.round_committed(progress)

    def message(self, line: str) -> None:
        """Show a line the user should know."""
        self._run.message(line)

    def run_ended(self, ended: RunEnded) -> None:
        """Say how a run ended, and how long the study will take."""
        self._run.__exit__(None, None, None)
        name = " ".join(filter(None, [ended.entry, choice_text(ended.searched)]))
        line = f"[{ended.done}/{ended.total}] {name} seed {ended.seed}"
        if ended.error is not None:
            self._console.print(Text(f"{line} failed: {ended.error}"), style="red", soft_wrap=True)
            return
        if self._quiet:
            return
        kept = " (finished before)" if ended.was_finished else ""
        left = f" · study: {time_left(ended.seconds_left)}" if ended.done < ended.total else ""
        text = f"{line}: {score_text(ended.scores)}{kept}{left}"
        self._console.print(Text(text), soft_wrap=True)


def time_left(seconds: float) -> str:
    """Return a duration in words.

    >>> time_left(5400)
    'about 1 h 30 min left'
    """
    if seconds < 60:
        return f"about {seconds:.0f} s left"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"about {hours} h {minutes} min left" if hours else f"about {minutes} min left"
