"""Describe clients as mixtures of concepts, and score the description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.protocols import FindsConcepts
from duotone.federation.serving import Serving
from duotone.measures.groups import group_scores
from duotone.measures.measure import Scene
from duotone.measures.score import Key, Score
from duotone.networks.reading import in_batches
from duotone.partition.partition import Population
from duotone.types import Role

TYPICAL = 12
"""Samples shown of each concept."""
Floats: TypeAlias = NDArray[np.float64]


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
