"""Who was refused, set aside or far from the rest, and what an attack did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch

from duotone.federation.attacks import BACKDOOR_CLASS, attack_of, triggered
from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.screening import Refused
from duotone.federation.serving import Serving
from duotone.federation.watch import Standing
from duotone.measures.measure import Entry, Findings, Measure, Record, Scene
from duotone.measures.panels import NOTHING, Grid, PlainTable, Section
from duotone.measures.score import Key, Score
from duotone.networks.reading import in_batches
from duotone.partition.partition import Population

LENGTH, AGREEMENT, REFUSED = "move_length", "move_agreement", "refused"
"""What rounds leave in the tidy table; see :mod:`duotone.federation.watch`."""


def client_table(metrics: pl.DataFrame) -> list[dict[str, Any]]:
    """Return for every client that was watched or refused how often it was what."""
    rows = metrics.filter(pl.col("metric").is_in([LENGTH, AGREEMENT, REFUSED]))
    found: list[dict[str, Any]] = []
    for (client,), own in rows.group_by("client", maintain_order=True):
        by_round: dict[int, dict[str, float]] = {}
        for number, metric, value in own.select("round", "metric", "value").iter_rows():
            by_round.setdefault(number, {})[metric] = value
        moves = {n: Standing(r[LENGTH], r[AGREEMENT]) for n, r in by_round.items() if LENGTH in r}
        found.append(
            {
                "client": client,
                "rounds": len(by_round),
                "refused": sorted(n for n, r in by_round.items() if REFUSED in r),
                "far": sorted(n for n, move in moves.items() if move.is_far),
                "length": float(np.mean([m.length for m in moves.values()])) if moves else None,
                "agreement": (
                    float(np.mean([m.agreement for m in moves.values()])) if moves else None
                ),
            }
        )
    return found


@travels
@dataclass(frozen=True, slots=True)
class BackdoorJob:
    """Show a client's model test samples with the patch."""

    level: ClassVar[Level] = "scores"
    sends: ClassVar[str] = "success of an attack"

    serving: Serving

    @torch.inference_mode()
    def __call__(self, method: Method, population: Population, task: ClientTask) -> float | None:
        """Return the share that it takes for the back door's class; ``None`` without samples."""
        data = population.data(task.client, "test")
        x = data.x[data.labels != BACKDOOR_CLASS]
        if not len(x):
            return None
        model = self.serving.model(method, population, task)
        scores = in_batches(
            lambda part: method.predict(model, part.to(method.device)), triggered(x)
        )
        return float((scores.argmax(dim=1) == BACKDOOR_CLASS).double().mean())

    def screened(self, answer: Any, client: str, population: Population) -> float | None:
        """Return the share, if it is one."""
        if answer is not None and not (isinstance(answer, float) and 0 <= answer <= 1):
            raise Refused("its share of patched samples lies not between 0 and 1")
        return answer


class RefusalsFound(Measure):
    """Refusals and standings round by round, and the success of an attack made on purpose."""

    name = "refusals"
    file = "refusals"

    def applies(self, scene: Scene) -> bool:
        """Ask where somebody was refused or watched, or an attack is set."""
        seen = scene.metrics["metric"].is_in([REFUSED, LENGTH]).any()
        return bool(seen) or scene.config.attack is not None

    def measure(self, scene: Scene) -> Findings:
        """Return who was what, and with an attack how many of the hostile were noticed."""
        clients = client_table(scene.metrics)
        members = scene.population.partition.members
        attack = attack_of(scene.config.attack, members, scene.seed)
        for row in clients:
            row["reason"] = scene.refused.get(row["client"], {}).get("reason", "")
            row["aside"] = _is_aside(row, scene)
        table: dict[str, Any] = {"clients": clients}
        scores: dict[Key, Score] = {}
        if attack is not None:
            table |= {"attack": attack.name, "hostile": list(attack.hostile)}
            noticed = {row["client"] for row in clients if row["refused"] or row["far"]}
            for question, who, direction in (
                ("hostile", attack.hostile, "higher"),
                ("honest", attack.honest(members), "lower"),
            ):
                values = [float(client in noticed) for client in who]
                key = Key("refusals", question, variant="noticed")
                scores[key] = Score.over(values, direction, "share")  # type: ignore[arg-type]
            if attack.name == "backdoor" and scene.population.info.task == "classes":
                honest = [c for c in scene.clients if c in members]
                found = scene.ask(BackdoorJob(scene.serving), honest)
                shares = [value for value in found.values() if value is not None]
                if shares:
                    scores[Key("refusals", "backdoor")] = Score.over(shares, "lower", "share")
        return Findings(scores, scene.rows(scores), table)

    def section(self, record: Record) -> Section | None:
        """Return a line for every client that was refused or far, hostile ones marked."""
        table = record.tables.get("refusals")
        if table is None:
            return None
        hostile = table.get("hostile", [])
        shown = [r for r in table["clients"] if r["refused"] or r["far"] or r["client"] in hostile]
        intro = "Nobody was refused, and nobody was far from the rest."
        if shown:
            intro = f"{len(shown)} of the members stood out."
        if hostile:
            intro = (
                f"This run was attacked on purpose ({table['attack']}) by {len(hostile)} members: "
                f"{', '.join(hostile)}. All scores of this report are those of the honest clients. "
                + intro
            )
        rows = tuple(_line(row, hostile) for row in shown)
        grid = PlainTable(
            "Who stood out",
            ("client", ">asked", ">refused", ">far", ">length", ">agreement", "last reason"),
            rows,
            "Far: a move more than three times as long as the median one of its round, or against "
            "the sum of the others' directions. Length is over the median, agreement a cosine. An "
            "honest client with rare data can be far; a clever attack need not be.",
        )
        blocks = [Grid("refusals", grid, is_folded=len(rows) > 20)] if rows else []
        return Section("refusals", "Refused or far from the rest", intro, blocks)

    def compared(self, entries: Sequence[Entry]) -> Section | None:
        """Return how much of an attack was noticed in each entry."""
        keys = (
            ("hostile noticed", Key("refusals", "hostile", variant="noticed")),
            ("honest noticed", Key("refusals", "honest", variant="noticed")),
            ("back door open", Key("refusals", "backdoor")),
        )
        rows = []
        for entry in entries:
            cells = []
            for _, key in keys:
                known = [r.scores[key].value for r in entry.records if key in r.scores]
                cells.append(f"{100 * sum(known) / len(known):.0f} %" if known else NOTHING)
            rows.append((entry.name, *cells))
        if all(cell == NOTHING for _, *cells in rows for cell in cells):
            return None
        heads = ("entry", *(f">{words}" for words, _ in keys))
        grid = PlainTable("Under attack", heads, tuple(rows), "Members that were refused or far.")
        return Section("refusals", "Under attack", "What was noticed.", [Grid("refusals", grid)])


def _is_aside(row: dict[str, Any], scene: Scene) -> bool:
    most = scene.config.set_aside
    return most is not None and len(row["refused"]) >= most


def _line(row: dict[str, Any], hostile: Sequence[str]) -> tuple[str, ...]:
    name = f"{row['client']} (hostile)" if row["client"] in hostile else row["client"]
    reason = f"{row['reason']} (set aside)" if row["aside"] else row["reason"]
    length, agreement = row["length"], row["agreement"]
    return (
        name,
        str(row["rounds"]),
        str(len(row["refused"])),
        str(len(row["far"])),
        NOTHING if length is None else f"{length:.2f}",
        NOTHING if agreement is None else f"{agreement:.2f}",
        reason,
    )
