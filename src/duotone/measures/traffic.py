"""What travelled between clients and the server? The ledger of what left each client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
import polars as pl

from duotone.federation.levels import Level
from duotone.measures.inks import GREY, ROLE, figure
from duotone.measures.measure import Entry, Findings, Measure, Record, Scene
from duotone.measures.panels import (
    Block,
    Grid,
    Note,
    Panel,
    PlainTable,
    Section,
    View,
    count_text,
    size_text,
)

LEARNS: Mapping[Level, str] = {
    "scores": "Of single clients the server learnt updates, declared statistics, counts and "
    "scores, and nothing of single samples.",
    "codes": "Of single clients the server learnt updates, declared statistics, counts, scores, "
    "and codes of single samples.",
    "simulation": "This was a simulation: whoever measured could see everything, also what a "
    "server would not.",
}
"""What a report says of each level."""


def traffic(metrics: pl.DataFrame) -> pl.DataFrame:
    """Return ``round, clients, bytes_up, bytes_down``: what all clients sent and received."""
    return _bytes_by(metrics, "round").rename({"times": "clients"})


def ledger(metrics: pl.DataFrame) -> pl.DataFrame:
    """Return ``client, rounds, bytes_up, bytes_down``: what left and reached each client."""
    return _bytes_by(metrics, "client").rename({"times": "rounds"})


def _bytes_by(metrics: pl.DataFrame, column: str) -> pl.DataFrame:
    def total(name: str) -> pl.Expr:
        return pl.col("value").filter(pl.col("metric") == name).sum().cast(pl.Int64).alias(name)

    return (
        metrics.filter(pl.col("metric").is_in(["bytes_up", "bytes_down"]))
        .group_by(column, maintain_order=True)
        .agg(
            (pl.col("metric") == "bytes_up").sum().cast(pl.Int64).alias("times"),
            total("bytes_up"),
            total("bytes_down"),
        )
    )


class Traffic(Measure):
    """Bytes up and down, which every round leaves in the tidy table."""

    name = "traffic"
    file = "ledger"
    level = "scores"

    def measure(self, scene: Scene) -> Findings:
        """Return nothing new: the engine keeps the ledger."""
        return Findings()

    def section(self, record: Record) -> Section:
        """Return what travelled, and what left each client."""
        shared, local = (record.facts["parts"][part] for part in ("shared", "local"))
        kept = (
            f"{local['parameters']:,} local parameters" if local["parameters"] else "no parameter"
        )
        intro = (
            f"The shared part is {shared['parameters']:,} parameters and {shared['buffers']:,} "
            f"buffer values, {size_text(shared['bytes'])}; besides its samples, a client keeps "
            f"{kept} to itself."
        )
        table, sent = traffic(record.metrics), ledger(record.metrics)
        if not (table["bytes_up"] + table["bytes_down"] > 0).any():
            note = Note("Nothing travelled: this method trains every client alone.")
            return Section("communication", "Communication", intro, [note])
        extra = max(sent["bytes_up"] / sent["rounds"]) - shared["bytes"]
        if extra > 0.5:
            intro += f" An upload carries {size_text(extra)} more than that."
        intro += f" {LEARNS[record.config.level]}"
        blocks = _blocks(table, sent)
        if everything := record.tables.get("ledger"):
            blocks.append(_kinds(everything))
        return Section("communication", "Communication", intro, blocks)

    def compared(self, entries: Sequence[Entry]) -> Section:
        """Return what each entry cost."""
        rows = []
        for entry in entries:
            totals = [traffic(record.metrics) for record in entry.records]
            facts = [record.facts for record in entry.records]
            count = len(entry.records)
            rows.append(
                (
                    entry.name,
                    *(
                        size_text(sum(float(total[name].sum()) for total in totals) / count)
                        for name in ("bytes_up", "bytes_down")
                    ),
                    *(f"{facts[0]['parts'][part]['parameters']:,}" for part in ("shared", "local")),
                    f"{sum(own['seconds'] for own in facts) / count:.0f} s",
                )
            )
        table = PlainTable(
            "Cost of one run",
            ("entry", ">sent by clients", ">received", ">shared parameters", ">local", ">time"),
            tuple(rows),
            "Mean over seeds. Times are those of the machine that ran it, and of what else ran "
            "there.",
        )
        return Section("communication", "Communication", "What travelled.", [Grid("cost", table)])


def _blocks(table: pl.DataFrame, sent: pl.DataFrame) -> list[Block]:
    up, down = (size_text(float(table[name].sum())) for name in ("bytes_up", "bytes_down"))
    rows = tuple(
        (client, str(rounds), *(size_text(total) for total in totals))
        for client, rounds, *totals in sent.iter_rows()
    )
    return [
        Panel(
            "traffic",
            "What travelled in each round",
            (View((), traffic_figure(table)),),
            f"The total: {up} up and {down} down in {count_text(table.height, 'round')}.",
            "These are the tensors themselves, uncompressed and without protocol or encryption. "
            "That local parameters never leave says nothing about what shared ones reveal.",
            table,
        ),
        Grid(
            "ledger",
            PlainTable(
                "Ledger: what left each client",
                ("client", ">rounds", ">sent", ">received"),
                rows,
                "Updates of the shared part, and what the method's statistics add; samples and "
                "local parameters never leave.",
            ),
            is_folded=len(rows) > 12,
        ),
    ]


def _kinds(kept: Mapping[str, Any]) -> Block:
    """Return what clients sent by kind: how many of them, in how many rounds, which values."""
    rows = []
    for what, kind in kept["kinds"].items():
        sent = [own[what] for own in kept["clients"].values() if what in own]
        names = list(kind["names"])
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        rows.append(
            (
                what,
                kind["level"],
                str(len(sent)),
                str(max((own["rounds"] for own in sent), default=0)),
                size_text(float(sum(own["bytes"] for own in sent))),
                shown,
            )
        )
    return Grid(
        "sent",
        PlainTable(
            "Everything that was asked of clients",
            ("what", "level", ">clients", ">rounds at most", ">sent", "values"),
            tuple(rows),
            "Each kind has the level at which a server may ask for it. All names, and each "
            "client's share, are in ledger.json.",
        ),
    )


def traffic_figure(table: pl.DataFrame) -> go.Figure:
    """Draw what travelled in each round: up and down.

    Args:
        table: ``round, bytes_up, bytes_down``.
    """
    result = figure(300, xaxis={"title": {"text": "round"}}, barmode="group")
    for place, (name, words) in enumerate(
        (("bytes_up", "up: clients to server"), ("bytes_down", "down: server to clients"))
    ):
        result.add_bar(
            x=table["round"].to_numpy(),
            y=table[name].to_numpy() / 1e6,
            name=words,
            marker={"color": (ROLE["member"], GREY)[place], "pattern": {"shape": ("", "/")[place]}},
            hovertemplate="round %{x}: %{y:.3~g} MB<extra></extra>",
        )
    result.update_yaxes(title={"text": "megabytes, all clients together"}, rangemode="tozero")
    return result
