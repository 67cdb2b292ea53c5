"""What a report knows about one run: everything is read from its folder, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from duotone.config import RunConfig
from duotone.data.dataset import Array
from duotone.errors import RunError
from duotone.report.holdings import Holdings, read_holdings
from duotone.report.tables import last_values
from duotone.runs import Run

_SCORE = {"value", "std", "direction", "n"}
_LATENT_FACTS = ("label", "client", "group", "kind", "split", "index")


@dataclass(frozen=True, slots=True)
class Subject:
    """A finished run.

    Attributes:
        config: Its resolved configuration.
        facts: What ``run.json`` says.
        metrics: The tidy table.
        summary: The scores.
        latents: The codes, or ``None`` if none were kept.
        holdings: Who holds what.
        concepts: What clients are mixtures of, if the method finds concepts.
    """

    config: RunConfig
    facts: Mapping[str, Any]
    metrics: pl.DataFrame
    summary: Mapping[str, Any]
    latents: Mapping[str, Array] | None
    holdings: Holdings
    concepts: Mapping[str, Any] | None = None

    @property
    def metric(self) -> str:
        """The metric the run is judged by."""
        return str(self.summary["headline"])

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.config.method["name"])


def check_finished(run: Run) -> None:
    """Make sure that a run has ended and that its summary and metrics belong together.

    Raises:
        RunError: It has not ended, or a file is damaged.
    """
    status = run.status
    if status != "finished":
        raise RunError(
            f"{run.path} is {status}, and a report needs a finished run; finish it with: "
            f"duotone resume {run.path}"
        )
    summary = run.summary
    missing = [
        key for key in ("scores", "headline", "rounds", "newcomer_rule") if key not in summary
    ]
    if missing:
        raise RunError(f"{run.path / 'summary.json'} is damaged: it lacks {', '.join(missing)}.")
    metric, number = str(summary["headline"]), summary["rounds"]
    last = last_values(run.metrics, metric, number)
    for role in ("member", "newcomer"):
        found = int((last["kind"] == role).sum())
        wanted = _clients_of(run, f"{role}.{metric}")
        if found != wanted:
            raise RunError(
                f"{run.path / 'metrics.csv'} is damaged: it has the {metric} of {found} {role}s in "
                f"round {number}, and the summary that of {wanted}."
            )


def _clients_of(run: Run, name: str) -> int:
    scores = run.summary["scores"]
    try:
        damaged = [key for key, score in scores.items() if not score.keys() >= _SCORE]
    except AttributeError:
        damaged = ["scores"]
    if damaged:
        raise RunError(f"{run.path / 'summary.json'} is damaged: {damaged[0]} is incomplete.")
    return int(scores[name]["n"]) if name in scores else 0


def read_subject(run: Run) -> Subject:
    """Read a finished run.

    Raises:
        RunError: It has not ended, or a file is damaged.
    """
    check_finished(run)
    facts = run.folder.facts()
    latents = _latents(run)
    holdings = read_holdings(run.config, facts, latents)
    return Subject(run.config, facts, run.metrics, run.summary, latents, holdings, run.concepts)


def _latents(run: Run) -> Mapping[str, Array] | None:
    path = run.path / "latents.npz"
    if not path.exists():
        return None
    arrays = run.latents
    missing = [name for name in (*_LATENT_FACTS, "shared", "local") if name not in arrays]
    if missing:
        raise RunError(f"{path} is damaged: it lacks {', '.join(missing)}.")
    if len({len(values) for values in arrays.values()}) > 1:
        raise RunError(f"{path} is damaged: its arrays are not of one length.")
    return arrays
