"""Measure at the end of a run what its two parts carry, with the controls to judge it by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from duotone.data.dataset import Array
from duotone.federation.backends import Backend
from duotone.federation.backends.serial import Serial, one_thread
from duotone.federation.engine import ClientStates, MemoryStates, federate
from duotone.federation.protocols import Decodes, FindsConcepts, Generates
from duotone.federation.serving import Serving
from duotone.measures.attackers import SHOWN
from duotone.measures.clients import Row
from duotone.measures.concepts import (
    Concepts,
    concept_scores,
    domain_shares,
    find_concepts,
)
from duotone.measures.decoding import choose_holders, encode_holders
from duotone.measures.generation import GenerationResult, asks_labels, generation_scores
from duotone.measures.judges import train_judges
from duotone.measures.latents import collect_latents
from duotone.measures.restyle import RestyleResult, restyle_scores
from duotone.measures.sheets import Sheet, draw_sheets, generation_sheets, restyle_sheet
from duotone.measures.stylists import find_stylists, restyles
from duotone.measures.summary import Score
from duotone.measures.swap import SwapResult, swap_scores
from duotone.methods import METHODS
from duotone.partition.partition import Population
from duotone.runs.backend import make_backend
from duotone.runs.judging import (
    every_label_in_every_look,
    judges_of_newcomers,
    judges_of_unseen,
    lacks_labels,
)
from duotone.runs.plan import Plan
from duotone.types import Role

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
    clients = list(dict.fromkeys(latents["client"].tolist()))  # those that could be encoded
    holdings = [population.partition[client] for client in clients]
    groups = [holding.group for holding in holdings if holding.role == "member"]
    if latents["local"].shape[1] and 1 < len(set(groups)) < len(groups):
        latents["fedavg"] = _fedavg_features(plan, clients)
    return latents


def _fedavg_features(plan: Plan, clients: Sequence[str]) -> Array:
    """Return what a short plain FedAvg computes for the same samples.

    Means of almost any features tell groups apart; only what goes beyond these says something about
    a method.
    """
    control = METHODS.load("fedavg")
    method = control(control.Config(), plan.method.network, plan.method.device)
    config, population, states = plan.config, plan.population, MemoryStates()
    assert config.rounds is not None
    # FedAvg cannot learn from samples without a label, which the run's own method may use.
    labelled = Population(population.dataset, population.partition, labelled=population.labelled)
    short = replace(plan, method=method, population=labelled)
    with make_backend(short, lambda line: None) as backend:
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


@dataclass(frozen=True, slots=True)
class Made:
    """What is known of samples that a method made, from codes, random draws or other samples.

    Attributes:
        scores: By name.
        sheets: To look at.
        swaps: What swapping shows, if the method decodes.
        generation: What generated samples show, if it draws any.
        restyled: What re-styled samples show, if it re-styles and there are two clients.
    """

    scores: dict[str, Score]
    sheets: list[Sheet]
    swaps: SwapResult | None
    generation: GenerationResult | None
    restyled: RestyleResult | None


def measure_made(
    plan: Plan, serving: Serving, states: ClientStates, backend: Backend
) -> Made | None:
    """Let the method make samples, if it can, and have judges look at them."""
    method, population, seed = plan.method, plan.population, plan.config.seed
    if not isinstance(method, Decodes | Generates) and not restyles(method):
        return None
    judges = train_judges(population, seed)
    scores: dict[str, Score] = {}
    sheets: list[Sheet] = []
    swaps = generation = restyled = None
    if isinstance(method, Decodes):
        chosen = choose_holders(population.partition, judges.style_of, seed)
        holders = encode_holders(chosen, judges, serving, population, states, backend)
        swaps = swap_scores(method, judges, holders, population, serving.info)
        scores |= swaps.scores
        if population.info.is_image:
            with one_thread():
                sheets += draw_sheets(method, holders, population)
    is_read = not isinstance(method, Decodes)  # swaps have told the rest of re-styled samples
    unseen = None
    if (isinstance(method, Generates) or is_read) and lacks_labels(population):
        unseen = every_label_in_every_look(plan)
    if unseen is not None:
        judges = judges_of_unseen(plan, unseen)
    wider = judges_of_newcomers(plan, judges)
    if isinstance(method, Generates):
        conditional = asks_labels(method, population)
        generation = generation_scores(
            method,
            judges,
            serving,
            population,
            states,
            backend,
            unseen=unseen,
            for_newcomers=wider,
        )
        scores |= generation.scores
        if population.info.is_image:
            sheets += generation_sheets(generation, population, conditional=conditional)
    chosen = choose_holders(population.partition, judges.style_of, seed)
    if restyles(method) and len(chosen) > 1:
        shown = max(1, SHOWN // len(chosen) ** 2)
        stylists = find_stylists(chosen, serving, population, states, backend, shown=shown)
        restyled = restyle_scores(method, judges, stylists, population, seed, for_newcomers=wider)
        scores |= restyled.scores
        if population.info.is_image and is_read:
            with one_thread():
                sheets.append(restyle_sheet(method, stylists, population, seed))
    return Made(scores, sheets, swaps, generation, restyled)


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

    def role(name: str) -> Role:
        return "newcomer" if name.endswith("newcomers") else "member"

    def part(name: str) -> str:
        head = name.split(".")[1]
        return next((part for part in ("shared", "local") if head.endswith(part)), "both")

    return [
        Row(round, "", "", role(name), part(name), name, score.value)
        for name, score in scores.items()
    ]
