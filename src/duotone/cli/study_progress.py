"""What a user sees while a study goes on: each run's progress, and a line when it is over."""

from __future__ import annotations

from typing import Self

from rich.text import Text

from duotone.cli.progress import Display, score_text
from duotone.runs import Plan, RunFolder
from duotone.runs.result_tables import choice_text
from duotone.runs.study import RunEnded


class StudyDisplay(Display):
    """Shows the progress of a study and of its runs; use as a context manager."""

    def __enter__(self) -> Self:
        return self  # each run starts a bar of its own

    def run_started(self, folder: RunFolder, plan: Plan, round: int) -> None:
        """Start a new bar for this run, so that bars of finished runs do not pile up."""
        self._bar = self._new_bar()
        super().__enter__()
        super().run_started(folder, plan, round)

    def run_ended(self, ended: RunEnded) -> None:
        """Say how a run ended, and how long the study will take."""
        self.__exit__()
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
