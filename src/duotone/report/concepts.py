"""The section about concepts: what clients are mixtures of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl

from duotone.measures.inks import PART, faded, figure, natural
from duotone.partition.lines import MOST_LINES, Line
from duotone.report.holdings import partition_figure
from duotone.report.page import Block, Grid, Note, Panel, Picture, Section, View
from duotone.report.pictures import stored_pictures
from duotone.report.subject import Subject
from duotone.runs.result_tables import PlainTable
from duotone.types import ROLES

_EACH = 10
"""Members and newcomers whose labels can be looked at one by one; the data has all of them."""
_SCORES = {
    "concepts.ari": "members' weights against their groups, adjusted Rand index (1 at best)",
    "concepts.own_group": "newcomers' weight of their own group's concepts (1 at best)",
    "concepts.mix_error": "mixed newcomers' weights against their true mix, L1 (0 at best)",
    "concepts.information": "what a sample's concept tells about its client, nats",
    "concepts.spread": "distance of concepts, in units of the spread of samples",
    "concepts.entropy": "indecision of samples between concepts (0 none, 1 complete)",
}


def concept_section(subject: Subject, folder: Path) -> Section | None:
    """Return what clients are mixtures of; ``None`` for methods without concepts."""
    if subject.concepts is None:
        return None
    clients: Sequence[Mapping[str, Any]] = sorted(
        subject.concepts["clients"],
        key=lambda own: (ROLES.index(own["kind"]), natural(own["group"]), natural(own["client"])),
    )
    sizes = {line.name: line.sizes for line in subject.holdings.lines}
    unknown = np.zeros(1, np.int64)
    lines = [
        Line(
            own["client"],
            own["group"],
            own["kind"],
            np.array(own["weights"]),
            sizes.get(own["client"], unknown),
        )
        for own in clients
    ][:MOST_LINES]
    data = pl.DataFrame(
        [
            {
                "client": own["client"],
                "group": own["group"],
                "kind": own["kind"],
                **{f"concept {i}": weight for i, weight in enumerate(own["weights"])},
            }
            for own in clients
        ]
    )
    blocks: list[Block] = [
        Panel(
            "concept-weights",
            "What clients are mixtures of",
            (View((), partition_figure(lines, "concept")),),
            "One dark cell in a row: that client is one thing. Several: it is a mixture. "
            "Newcomers, at the bottom, were never seen in training; their weights come from "
            "unlabelled inputs.",
            "A concept is what the model's features tell apart, which need not be what people "
            "would call different. Equal rows everywhere mean that the concepts say nothing.",
            data,
            min_width=560,
        )
    ]
    blocks += [
        Picture(item.title.capitalize(), (("", item.uri),), item.look, item.mislead)
        for item in stored_pictures(folder)[0]
        if item.section == "concepts"
    ]
    if np.array(clients[0]["tendency"]).size:
        blocks.append(_tendency_panel(clients))
    scores = subject.summary["scores"]
    rows = tuple(
        (words, f"{scores[name]['value']:.3f}") for name, words in _SCORES.items() if name in scores
    )
    if rows:
        blocks.append(Grid("concept-scores", PlainTable("Concepts", ("score", ">value"), rows)))
    blocks += [Note(line) for line in subject.summary.get("warnings", [])]
    return Section(
        "concepts",
        "Concepts",
        "Places in the space of features around which samples gather. A client is described by how "
        "its samples are spread over them.",
        blocks,
    )


def _tendency_panel(clients: Sequence[Mapping[str, Any]]) -> Panel:
    """Return which labels the samples of each concept have, client by client."""
    members = [own for own in clients if own["kind"] == "member"]
    weights = np.stack([own["weights"] for own in members])
    shares = np.stack([own["tendency"] for own in members])
    together = (weights[:, :, None] * shares).sum(axis=0) / weights.sum(axis=0)[:, None]
    newcomers = [own for own in clients if own["kind"] == "newcomer"]
    told = {own["client"]: np.array(own["tendency"]) for own in clients}
    shown = {"all members": together}
    shown |= {own["client"]: told[own["client"]] for own in (*members[:_EACH], *newcomers[:_EACH])}
    data = pl.DataFrame(
        [
            {"client": name, "concept": concept, "label": label, "share": float(share)}
            for name, table in ({"all members": together} | told).items()
            for concept, row in enumerate(table)
            for label, share in enumerate(row)
        ]
    )
    return Panel(
        "concept-labels",
        "Labels of each concept's samples",
        tuple(View((name,), _tendency_figure(table)) for name, table in shown.items()),
        "Even rows: the concept is about how samples look. A dark cell: it is about a label.",
        "A client with hardly any weight on a concept has hardly any sample to tell its labels by.",
        data,
        ("client",),
        min_width=480,
    )


def _tendency_figure(table: Any) -> go.Figure:
    result = figure(110 + 30 * len(table))
    result.add_heatmap(
        z=np.asarray(table),
        colorscale=[(0, faded(PART["local"], 0.03)), (1, PART["local"])],
        zmin=0,
        zmax=max(min(1.0, 4 / np.asarray(table).shape[1]), float(np.max(table))),
        showscale=False,
        xgap=1,
        ygap=1,
        hovertemplate="concept %{y}, label %{x}: %{z:.1%}<extra></extra>",
    )
    result.update_xaxes(title={"text": "label"}, dtick=1, showgrid=False)
    result.update_yaxes(title={"text": "concept"}, dtick=1, autorange="reversed", showgrid=False)
    return result
