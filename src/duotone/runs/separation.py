"""Measure at the end of a run what its two parts carry, with the controls to judge it by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from duotone.data.dataset import Array
from duotone.evaluation.clients import Row, Serving
from duotone.evaluation.judges import train_judges
from duotone.evaluation.latents import collect_latents
from duotone.evaluation.summary import Score
from duotone.evaluation.swap import Decodes, SwapResult, swap_scores
from duotone.federation.backends import Backend
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import ClientStates, MemoryStates, federate
from duotone.methods import METHODS
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
    groups = {population.partition[client].group for client in clients}
    if latents["local"].shape[1] and 1 < len(groups) < len(clients):
        latents["fedavg"] = _fedavg_features(plan, clients)
    return latents


def _fedavg_features(plan: Plan, clients: Sequence[str]) -> Array:
    """Return what a short plain FedAvg computes for the same samples.

    Means of almost any features tell groups apart; only what goes beyond these says something about
    a method.
    """
    kind = METHODS.load("fedavg")
    method = kind(kind.Config(), plan.method.network, plan.method.device)
    backend, states = Serial(method, plan.population), MemoryStates()
    config = plan.config
    assert config.rounds is not None
    *_, last = federate(
        method,
        plan.population,
        rounds=min(config.rounds, CONTROL_ROUNDS),
        sampled=config.sampled,
        seed=config.seed,
        backend=backend,
        states=states,
    )
    serving = Serving(last.server, last.info, "zero-shot")
    latents = collect_latents(
        method, serving, clients, plan.population, states, backend, config.latents
    )
    return np.asarray(latents["shared"])


def measure_swaps(
    plan: Plan, serving: Serving, states: ClientStates, backend: Backend
) -> SwapResult | None:
    """Swap codes between clients, if the method can turn codes back into samples."""
    if not isinstance(plan.method, Decodes):
        return None
    judges = train_judges(plan.population, plan.config.seed)
    return swap_scores(plan.method, judges, serving, plan.population, states, backend)


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
