"""Training: curves, who was refused, and a run that is followed while it goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import polars as pl

from duotone.errors import DuotoneError
from duotone.explorer.asked_of import Asked
from duotone.explorer.explored import Explored
from duotone.measures.accuracy import learning_curves
from duotone.measures.learning_figures import learning_figure
from duotone.measures.metrics import DIRECTIONS, value_text
from duotone.measures.refusals import client_table

_EVERY = 1.0  # seconds between two looks at a running run
_MOST_CURVES = 6


def training(explored: Explored, asked: Asked) -> dict[str, Any]:
    """Return the curves as far as they are committed, and who was refused."""
    folder = explored.run.folder
    manifest, metrics = folder.manifest(), folder.metrics()
    measured = [name for name in DIRECTIONS if name in set(metrics["metric"])]
    figures = []
    for metric in measured[:_MOST_CURVES]:
        curves = learning_curves(metrics, metric)
        figures.append(
            {
                "metric": metric,
                "figure": json.loads(learning_figure(curves, metric).to_json()),
                "csv": curves.write_csv(),
            }
        )
    refused = [row for row in client_table(metrics) if row["refused"] or row["far"]]
    reasons = (folder.table("refusals") or {}).get("clients", [])
    why = {row["client"]: row.get("reason", "") for row in reasons}
    return {
        "status": explored.run.status,
        "round": manifest.last.round,
        "rounds": explored.run.config.rounds,
        "figures": figures,
        "refused": [row | {"reason": why.get(row["client"], "")} for row in refused],
        "last": _last(metrics, measured),
    }


def _last(metrics: pl.DataFrame, measured: list[str]) -> list[dict[str, Any]]:
    """Return what was measured last, by role."""
    found = []
    for metric in measured[:1]:
        for role, own in learning_curves(metrics, metric).group_by("kind", maintain_order=True):
            mean = float(own.sort("round")["mean"][-1])
            found.append(
                {
                    "role": role[0],
                    "metric": metric,
                    "value": value_text(mean, metric),
                    "mean": mean,
                }
            )
    return found


async def news(explored: Explored) -> AsyncIterator[str]:
    """Yield an event whenever a round is committed, and a last one when the run has ended."""
    told: tuple[int, str] | None = None
    while True:
        try:
            explored.check_there()
            manifest = await asyncio.to_thread(explored.run.folder.manifest)
            status = await asyncio.to_thread(lambda: explored.run.status)
        except DuotoneError as error:
            yield _event("gone", {"error": str(error)})
            return
        now = (manifest.last.round, status)
        if now != told:
            told = now
            yield _event("round", {"round": now[0], "status": status})
        if status not in ("running", "prepared"):
            yield _event("end", {"status": status})
            return
        await asyncio.sleep(_EVERY)


def _event(name: str, content: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"
