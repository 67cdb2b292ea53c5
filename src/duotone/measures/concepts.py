"""What are clients mixtures of? Their weights of concepts, and what each concept looks like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import plotly.graph_objects as go
import polars as pl
import torch
from numpy.typing import NDArray

from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.protocols import FindsConcepts, Monitors
from duotone.federation.serving import Serving
from duotone.measures.groups import group_scores
from duotone.measures.holdings import line_table, partition_figure
from duotone.measures.inks import PART, faded, figure, natural
from duotone.measures.measure import Findings, Measure, Record, Scene
from duotone.measures.panels import Block, Grid, Note, Panel, PlainTable, Section, View, gathered
from duotone.measures.score import Key, Score
from duotone.measures.sheet import Sheet
from duotone.networks.reading import in_batches
from duotone.partition.lines import MOST_LINES, Line
from duotone.partition.partition import Population
from duotone.types import ROLES, Role

TYPICAL = 12
"""Samples shown of each concept."""
Floats: TypeAlias = NDArray[np.float64]
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


@dataclass(frozen=True, slots=True)
class ClientConcepts:
    """A client as a mixture of concepts.

    Attributes:
        client: Who it is.
        group: Its true group.
        role: Whether it trained.
        weights: Of each concept.
        tendency: Shares of the labels among its samples of each concept, ``(concepts, labels)``;
            empty for regression.
    """

    client: str
    group: str
    role: Role
    weights: Floats
    tendency: Floats


@dataclass(frozen=True, slots=True)
class Concepts:
    """All clients as mixtures of concepts.

    Attributes:
        clients: The clients.
        typical: Rows of the data set that lie nearest to each concept, among members' training
            samples, ``(concepts, samples)``.
    """

    clients: list[ClientConcepts]
    typical: NDArray[np.int64]

    def as_json(self) -> dict[str, Any]:
        """Return the content of ``concepts.json``."""
        return {
            "clients": [
                {
                    "client": own.client,
                    "group": own.group,
                    "kind": own.role,
                    "weights": own.weights.round(6).tolist(),
                    "tendency": own.tendency.round(6).tolist(),
                }
                for own in self.clients
            ],
            "typical": self.typical.tolist(),
        }


@travels
@dataclass(frozen=True, slots=True)
class ConceptJob:
    """Ask how near a client's first training samples lie to the concepts."""

    level: ClassVar[Level] = "codes"
    sends: ClassVar[str] = "nearness to concepts"

    serving: Serving
    samples: int

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> tuple[Floats, Floats]:
        """Return the client's weights, and the samples' nearness."""
        assert isinstance(method, FindsConcepts)
        model = self.serving.model(method, population, task)
        data = population.data(task.client).first(self.samples)
        with torch.inference_mode():
            near = in_batches(lambda x: method.nearness(model, x.to(method.device)), data.x)
        weights = np.array(list(method.facts(model).values()))
        return weights, near.cpu().double().numpy()


def find_concepts(scene: Scene) -> Concepts | None:
    """Return what clients are mixtures of; ``None`` where no concept was found."""
    population = scene.population
    found = scene.ask(ConceptJob(scene.serving, scene.config.latents))
    if not found or any(weights.size == 0 for weights, _ in found.values()):
        return None
    described: list[ClientConcepts] = []
    near: list[Floats] = []
    rows: list[NDArray[np.int64]] = []
    for client, (weights, nearness) in found.items():
        holding = population.partition[client]
        own = population.rows(client)[: len(nearness)]
        labels = population.dataset.y[own]
        classes = population.info.outputs if population.info.task == "classes" else 0
        tendency = label_tendency(nearness, weights, labels, classes)
        described.append(ClientConcepts(client, holding.group, holding.role, weights, tendency))
        if holding.role == "member":
            near.append(nearness)
            rows.append(own)
    order = np.argsort(-np.concatenate(near), axis=0, kind="stable")[:TYPICAL]
    return Concepts(described, np.concatenate(rows)[order].T)


def label_tendency(nearness: Floats, weights: Floats, labels: Any, classes: int) -> Floats:
    """Return the shares of the labels among a client's samples of each concept.

    Args:
        nearness: Logarithms of densities, ``(samples, concepts)``.
        weights: The client's, of the concepts.
        labels: The samples' classes.
        classes: How many there are; 0 where targets are numbers.
    """
    if classes == 0:
        return np.zeros((len(weights), 0))
    shares = np.exp(nearness - nearness.max(axis=1, keepdims=True)) * weights
    shares /= shares.sum(axis=1, keepdims=True)
    held = shares.T @ np.eye(classes)[np.asarray(labels, dtype=np.int64)]
    return np.asarray(held / held.sum(axis=1, keepdims=True).clip(1e-12))


def domain_shares(population: Population, client: str) -> dict[str, float]:
    """Return the domains of a client's training samples with their shares, where they are known."""
    domain = population.dataset.domain
    if domain is None:
        return {}
    names, counts = np.unique(domain[population.rows(client)], return_counts=True)
    return {
        str(name): float(count) for name, count in zip(names, counts / counts.sum(), strict=True)
    }


def concept_scores(
    concepts: Concepts, mixes: Mapping[str, Mapping[str, float]], seed: int
) -> dict[Key, Score]:
    """Return how well weights of concepts show what clients really are.

    ``concepts.ari`` compares the members' weights with their groups. A concept belongs to the group
    whose members give it most weight on average; ``concepts.own_group`` is the weight that
    newcomers give to concepts of their own group, and ``concepts.mix_error`` the distance (L1, 0 to
    2) of the weights that newcomers from several groups give to each group from the truth.

    Args:
        concepts: The clients.
        mixes: True shares of the groups among newcomers' samples, where they are known.
        seed: Of the clustering.
    """
    members = [own for own in concepts.clients if own.role == "member"]
    newcomers = [own for own in concepts.clients if own.role == "newcomer"]
    groups = sorted({own.group for own in members})
    scores: dict[Key, Score] = {}
    if not 1 < len(groups) < len(members):
        return scores
    weights = np.stack([own.weights for own in members])
    group = np.array([own.group for own in members])
    found = group_scores(weights, group, seed)
    scores[Key("concepts", "ari")] = Score(found["ari"], 0.0, "higher", len(members), "index")
    means = np.stack([weights[group == name].mean(axis=0) for name in groups])
    owner = np.array(groups)[means.argmax(axis=0)]
    own_group = [
        float(own.weights[owner == own.group].sum()) for own in newcomers if own.group in groups
    ]
    errors = [
        float(sum(abs(own.weights[owner == name].sum() - mix.get(name, 0.0)) for name in groups))
        for own in newcomers
        if own.group not in groups
        and (mix := mixes.get(own.client, {}))
        and set(mix) <= set(groups)
    ]
    if own_group:
        scores[Key("concepts", "own_group")] = Score.over(own_group, "higher", "share")
    if errors:
        scores[Key("concepts", "mix_error")] = Score.over(errors, "lower", "distance")
    return scores


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
            blocks.append(_tendency_panel(clients))
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
    return Panel(
        "concept-weights",
        "What clients are mixtures of",
        (View((), partition_figure(lines[:MOST_LINES], "concept")),),
        "One dark cell in a row: that client is one thing. Several: it is a mixture. Newcomers, at "
        "the bottom, were never seen in training; their weights come from unlabelled inputs.",
        "A concept is what the model's features tell apart, which need not be what people would "
        "call different. Equal rows everywhere mean that the concepts say nothing.",
        line_table(lines, "concept"),
        min_width=560,
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
