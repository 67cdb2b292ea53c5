"""What a user sees while a study goes on: each run's progress, and a line when it is over."""

from __future__ import annotations

from typing import Self

from rich.text import Text

from duotone.cli.progress import Display, score_text
from duotone.runs import Plan, RunFolder
from duotone.runs.result_tables import choice_text
from duotone.runs.study import RunEnded
from duotone.words import span_text


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
        rest = f" · study: about {span_text(ended.seconds_left)} left"
        left = rest if ended.done < ended.total else ""
        text = f"{line}: {score_text(ended.scores)}{kept}{left}"
        self._console.print(Text(text), soft_wrap=True)
