"""Measure at the end of a run what its two parts carry, with the controls to judge it by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from duotone.data.dataset import Array
from duotone.evaluation.clients import Row, Serving
from duotone.evaluation.concepts import (
    Concepts,
    concept_scores,
    domain_shares,
    find_concepts,
)
from duotone.evaluation.decoding import choose_holders, encode_holders
from duotone.evaluation.judges import train_judges
from duotone.evaluation.latents import collect_latents
from duotone.evaluation.sheets import Sheet, draw_sheets
from duotone.evaluation.summary import Score
from duotone.evaluation.swap import SwapResult, swap_scores
from duotone.federation.backends import Backend
from duotone.federation.backends.serial import Serial, one_thread
from duotone.federation.engine import ClientStates, MemoryStates, federate
from duotone.federation.method import Decodes, FindsConcepts
from duotone.methods import METHODS
from duotone.partition.partition import Population
from duotone.runs.backend import make_backend
from duotone.runs.plan import Plan
from duotone.types import Kind

CONTROL_ROUNDS = 5
"""Rounds of the plain FedAvg whose features stand beside a method's local codes."""


def measure_latents(
    plan: Plan,
    serving: Serving,
    clients: Sequence[str],
    states: ClientStates,
    backend: Backend,
) -> dict[str, Array]:
    """Return the codes of some samples of every client, with those of the controls."""
    population, samples = plan.population, plan.config.latents
    latents = collect_latents(plan.method, serving, clients, population, states, backend, samples)
    holdings = [population.partition[client] for client in clients]
    groups = [holding.group for holding in holdings if holding.kind == "member"]
    if latents["local"].shape[1] and 1 < len(set(groups)) < len(groups):
        latents["fedavg"] = _fedavg_features(plan, clients)
    return latents


def _fedavg_features(plan: Plan, clients: Sequence[str]) -> Array:
    """Return what a short plain FedAvg computes for the same samples.

    Means of almost any features tell groups apart; only what goes beyond these says something about
    a method.
    """
    kind = METHODS.load("fedavg")
    method = kind(kind.Config(), plan.method.network, plan.method.device)
    config, population, states = plan.config, plan.population, MemoryStates()
    assert config.rounds is not None
    # FedAvg cannot learn from samples without a label, which the run's own method may use.
    labelled = Population(population.dataset, population.partition, labelled=population.labelled)
    control = replace(plan, method=method, population=labelled)
    with make_backend(control, lambda line: None) as backend:
        *_, last = federate(
            method,
            labelled,
            rounds=min(config.rounds, CONTROL_ROUNDS),
            sampled=config.sampled,
            seed=config.seed,
            backend=backend,
            states=states,
        )
    serving, backend = Serving(last.server, last.info, "zero-shot"), Serial(method, population)
    latents = collect_latents(method, serving, clients, population, states, backend, config.latents)
    return np.asarray(latents["shared"])


def measure_swaps(
    plan: Plan, serving: Serving, states: ClientStates, backend: Backend
) -> tuple[SwapResult, list[Sheet]] | None:
    """Swap codes between clients and draw them, if the method can turn codes into samples."""
    method, population = plan.method, plan.population
    if not isinstance(method, Decodes):
        return None
    judges = train_judges(population, plan.config.seed)
    chosen = choose_holders(population.partition, judges.style_of, plan.config.seed)
    holders = encode_holders(chosen, judges, serving, population, states, backend)
    found = swap_scores(method, judges, holders, population, serving.info)
    with one_thread():
        sheets = draw_sheets(method, holders, population) if population.info.is_image else []
    return found, sheets


def measure_concepts(
    plan: Plan, serving: Serving, clients: Sequence[str], states: ClientStates, backend: Backend
) -> tuple[Concepts, dict[str, Score]] | None:
    """Find what clients are mixtures of and how true that is, if the method has concepts."""
    if not isinstance(plan.method, FindsConcepts):
        return None
    population = plan.population
    found = find_concepts(serving, clients, population, states, backend, plan.config.latents)
    if found is None:
        return None
    mixes = {client: domain_shares(population, client) for client in clients}
    return found, concept_scores(found, mixes, plan.config.seed)


def separation_rows(scores: dict[str, Score], round: int) -> list[Row]:
    """Return scores over many clients as rows of the tidy table; they belong to no single one."""

    def kind(name: str) -> Kind:
        return "newcomer" if name.endswith("newcomers") else "member"

    def part(name: str) -> str:
        head = name.split(".")[1]
        return next((part for part in ("shared", "local") if head.endswith(part)), "both")

    return [
        Row(round, "", "", kind(name), part(name), name, score.value)
        for name, score in scores.items()
    ]
