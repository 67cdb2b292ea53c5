"""What a user sees while a run goes on: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import product
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from duotone.measures.metrics import DIRECTIONS, is_share
from duotone.runs import Plan, RunFolder
from duotone.runs import Progress as RunProgress
from duotone.runs.published import rounds_text
from duotone.types import ROLES


def score_text(scores: Mapping[str, float]) -> str:
    """Return scores in a few words: "members 91.2 % · newcomers 88.0 %"."""
    words: list[str] = []
    for role, metric in product(ROLES, DIRECTIONS):
        value = scores.get(f"{role}.{metric}")
        if value is not None:
            percent = f"{value:.1%}".replace("%", " %")
            words.append(f"{role}s {percent if is_share(metric) else f'{metric} {value:.4g}'}")
    return " · ".join(words)


class Display:
    """Shows the progress of one run after the other; use as a context manager.

    Args:
        console: Where to write; people read it, so it is standard error.
        quiet: Show nothing but what the user must know.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._live = console.is_terminal and not quiet
        self._bar = self._new_bar()
        self._task: TaskID | None = None
        self._begin = (0, 0.0)
        self._name = ""
        self._committed = 0

    @property
    def saved(self) -> str:
        """What is safe on disk of the run that is shown, as a sentence."""
        done = self._committed
        return f"The run is saved up to round {done}." if done else "No round was complete yet."

    def _new_bar(self) -> Progress:
        return Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]:<14}"),
            TextColumn("{task.fields[scores]}"),
            console=self._console,
        )

    def __enter__(self) -> Self:
        if self._live:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._bar.stop()

    def run_started(self, folder: RunFolder, plan: Plan, round: int) -> None:
        """Say what starts, and where it is kept."""
        self._name = plan.method.name
        self._begin = (round, time.monotonic())
        self._committed = round
        if self._quiet:
            return
        facts = folder.facts()
        parts = " · ".join(
            f"{part} {size['parameters']:,} parameters" for part, size in facts["parts"].items()
        )
        resumed = f", from round {round}" if round else ""
        clients = plan.population.partition.headcount()
        rounds = rounds_text(plan.config)
        self._print(
            (self._name, "bold"),
            f" on {plan.config.data}: {clients}, {rounds}{resumed} · {parts} ",
            (f"→ {folder.path}", "dim"),
        )
        if self._live:
            self._task = self._bar.add_task(
                self._name, total=plan.config.rounds_made, completed=round, left="", scores=""
            )

    def round_committed(self, progress: RunProgress) -> None:
        """Move the bar; without a terminal, write a line per evaluation."""
        self._committed = progress.round
        if self._quiet:
            return
        left = self._time_left(progress)
        if self._task is not None and self._live:
            self._bar.update(
                self._task,
                completed=progress.round,
                left=left,
                scores=score_text(progress.scores),
            )
        elif progress.evaluated:
            line = f"{self._name} round {progress.round}/{progress.rounds}"
            self._print(f"{line} · {score_text(progress.scores)}{' · ' if left else ''}{left}")

    def message(self, line: str) -> None:
        """Show a line the user should know."""
        self._console.print(Text(line), style="yellow", soft_wrap=True)

    def _print(self, *pieces: str | tuple[str, str]) -> None:
        # Assembled, not marked up: a file name may hold square brackets.
        self._console.print(Text.assemble(*pieces), soft_wrap=True)

    def _time_left(self, progress: RunProgress) -> str:
        first, since = self._begin
        rate = (time.monotonic() - since) / max(progress.round - first, 1)
        seconds = round(rate * (progress.rounds - progress.round))
        if seconds == 0:
            return ""
        if seconds < 60:
            return f"{seconds} s left"
        minutes, seconds = divmod(seconds, 60)
        return f"{minutes}:{seconds:02d} min left"
