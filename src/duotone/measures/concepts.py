"""What are clients mixtures of? Their weights of concepts, and what each concept looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl

from duotone.federation.protocols import FindsConcepts, Monitors
from duotone.measures.holdings import line_table, partition_figure
from duotone.measures.inks import PART, faded, figure, natural, short
from duotone.measures.measure import Findings, Measure, Record, Scene
from duotone.measures.mixtures import Concepts, concept_scores, domain_shares, find_concepts
from duotone.measures.panels import Block, Grid, Note, Panel, PlainTable, Section, View, gathered
from duotone.measures.score import Key, Score
from duotone.measures.sheet import Sheet
from duotone.partition.lines import MOST_LINES, Line
from duotone.partition.partition import Population
from duotone.types import ROLES

_SCORES = {
    "ari": "members' weights against their groups, adjusted Rand index (1 at best)",
    "own_group": "newcomers' weight of their own group's concepts (1 at best)",
    "mix_error": "mixed newcomers' weights against their true mix, L1 (0 at best)",
    "information": "what a sample's concept tells about its client, nats",
    "spread": "distance of concepts, in units of the spread of samples",
    "entropy": "indecision of samples between concepts (0 none, 1 complete)",
}
_EACH = 10
"""Members and newcomers whose labels can be looked at one by one; the data has all of them."""


def concept_sheet(concepts: Concepts, population: Population) -> Sheet:
    """Draw the most typical samples of each concept, one concept per row."""
    images = population.dataset.pictures(concepts.typical)
    tiles = images[..., np.newaxis] if images.ndim == 4 else images
    return Sheet(
        "concepts",
        "concepts",
        "the most typical samples of each concept, concept 0 at the top",
        "What the samples of a row have in common, and no other row has.",
        "Samples near a concept look purer than most of those that belong to it. They are real "
        "samples of members: pass the page on only to those who may see them.",
        tiles,
    )


class ConceptsFound(Measure):
    """Clients as mixtures of concepts, with what the method itself says of them."""

    name = "concepts"
    file = "concepts"

    def applies(self, scene: Scene) -> bool:
        """Say whether the method finds concepts."""
        return isinstance(scene.method, FindsConcepts)

    def measure(self, scene: Scene) -> Findings:
        """Describe all clients by concepts, where there are any."""
        monitored = self._monitored(scene)
        found = find_concepts(scene) if scene.config.latents and scene.clients else None
        if found is None:
            return Findings(monitored)
        mixes = {client: domain_shares(scene.population, client) for client in scene.clients}
        scores = concept_scores(found, mixes, scene.seed)
        is_image = scene.population.info.is_image
        sheets = [concept_sheet(found, scene.population)] if is_image else []
        return Findings({**scores, **monitored}, scene.rows(scores), found.as_json(), sheets=sheets)

    def _monitored(self, scene: Scene) -> dict[Key, Score]:
        """Return the scores that the method has about itself."""
        method = scene.method
        if not isinstance(method, Monitors):
            return {}
        members = len(scene.population.partition.members)
        return {
            Key("concepts", name): Score(
                value, 0.0, "reference", members, method.monitor_units[name]
            )
            for name, value in method.monitors(scene.serving.server).items()
        }

    def section(self, record: Record) -> Section | None:
        """Return what clients are mixtures of."""
        table = record.tables.get("concepts")
        if table is None:
            return None
        clients: Sequence[Mapping[str, Any]] = sorted(
            table["clients"],
            key=lambda c: (ROLES.index(c["kind"]), natural(c["group"]), natural(c["client"])),
        )
        blocks: list[Block] = [_weights_panel(clients, record)]
        blocks += gathered(record.pictures_of("concepts"))
        if np.array(clients[0]["tendency"]).size:
            blocks.append(_tendency_panel(clients, record))
        rows = tuple(
            (words, f"{record.scores[Key('concepts', name)].value:.3f}")
            for name, words in _SCORES.items()
            if Key("concepts", name) in record.scores
        )
        if rows:
            blocks.append(Grid("concept-scores", PlainTable("Concepts", ("score", ">value"), rows)))
        blocks += [Note(line) for line in record.summary.get("warnings", [])]
        return Section(
            "concepts",
            "Concepts",
            "Places in the space of features around which samples gather. A client is described by "
            "how its samples are spread over them.",
            blocks,
        )


def _weights_panel(clients: Sequence[Mapping[str, Any]], record: Record) -> Panel:
    held = record.tables.get("holdings", {}).get("lines", [])
    sizes = {line["name"]: np.array(line["sizes"], np.int64) for line in held}
    unknown = np.zeros(1, np.int64)
    lines = [
        Line(
            c["client"],
            c["group"],
            c["kind"],
            np.array(c["weights"]),
            sizes.get(c["client"], unknown),
        )
        for c in clients
    ]
    columns = [str(number) for number in range(len(lines[0].shares))]
    return Panel(
        "concept-weights",
        "What clients are mixtures of",
        (View((), partition_figure(lines[:MOST_LINES], "concept", columns)),),
        "One dark cell in a row: that client is one thing. Several: it is a mixture. Newcomers, at "
        "the bottom, were never seen in training; their weights come from unlabelled inputs.",
        "A concept is what the model's features tell apart, which need not be what people would "
        "call different. Equal rows everywhere mean that the concepts say nothing.",
        line_table(lines, "concept", columns),
        min_width=560,
    )


def _tendency_panel(clients: Sequence[Mapping[str, Any]], record: Record) -> Panel:
    """Return which labels the samples of each concept have, client by client."""
    members = [own for own in clients if own["kind"] == "member"]
    weights = np.stack([own["weights"] for own in members])
    shares = np.stack([own["tendency"] for own in members])
    together = (weights[:, :, None] * shares).sum(axis=0) / weights.sum(axis=0)[:, None]
    newcomers = [own for own in clients if own["kind"] == "newcomer"]
    told = {own["client"]: np.array(own["tendency"]) for own in clients}
    shown = {"all members": together}
    shown |= {own["client"]: told[own["client"]] for own in (*members[:_EACH], *newcomers[:_EACH])}
    names = [record.class_name(number) for number in range(together.shape[1])]
    data = pl.DataFrame(
        [
            {"client": name, "concept": concept, "label": names[label], "share": float(share)}
            for name, table in ({"all members": together} | told).items()
            for concept, row in enumerate(table)
            for label, share in enumerate(row)
        ]
    )
    return Panel(
        "concept-labels",
        "Labels of each concept's samples",
        tuple(View((name,), _tendency_figure(table, names)) for name, table in shown.items()),
        "Even rows: the concept is about how samples look. A dark cell: it is about a label.",
        "A client with hardly any weight on a concept has hardly any sample to tell its labels by.",
        data,
        ("client",),
        min_width=480,
    )


def _tendency_figure(table: Any, names: Sequence[str]) -> go.Figure:
    result = figure(110 + 30 * len(table))
    result.add_heatmap(
        z=np.asarray(table),
        x=[short(name, 14) for name in names],
        colorscale=[(0, faded(PART["local"], 0.03)), (1, PART["local"])],
        zmin=0,
        zmax=max(min(1.0, 4 / np.asarray(table).shape[1]), float(np.max(table))),
        showscale=False,
        xgap=1,
        ygap=1,
        hovertemplate="concept %{y}, label %{x}: %{z:.1%}<extra></extra>",
    )
    result.update_xaxes(title={"text": "label"}, type="category", showgrid=False)
    result.update_yaxes(title={"text": "concept"}, dtick=1, autorange="reversed", showgrid=False)
    return result
