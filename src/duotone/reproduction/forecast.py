"""How long a study will take, before it starts: a step of every entry is timed."""

from __future__ import annotations

import time
from dataclasses import replace

from duotone.federation.backends.processes import available_cores
from duotone.federation.backends.serial import one_thread
from duotone.federation.engine import before_first_round
from duotone.runs import Plan
from duotone.runs.study import is_finished
from duotone.runs.study_plan import StudyPlan

WARMING, FEWEST = 8, 32
"""Samples of a first update, which loads what is needed, and at least of the timed one."""


def seconds_of(plan: Plan) -> float:
    """Return about how long the training of a run takes on this machine, all cores used.

    One client's update is timed on a batch. Evaluations, measures at the end and what else
    the machine does come on top.
    """
    config, population, method = plan.config, plan.population, plan.method
    info = before_first_round(
        population, rounds=config.rounds_made, sampled=config.sampled, seed=config.seed
    )
    info = replace(info, round=1)
    members = population.partition.members
    data = population.data(members[0])
    count = min(len(data), max(FEWEST, method.config.batch_size))
    with one_thread():
        server = method.start(info)
        state = method.first_state(server, info)
        method.client_update(server, state, data.first(WARMING), info)
        began = time.perf_counter()
        method.client_update(server, state, data.first(count), info)
        spent = time.perf_counter() - began
    sizes = [len(population.rows(client)) for client in members]
    samples = sum(sizes) / len(sizes) * (config.sampled or len(members)) * config.rounds_made
    return spent / count * samples / min(available_cores(), config.sampled or len(members))


def seconds_left(plan: StudyPlan) -> float:
    """Return about how long the runs of a study that are not finished will train."""
    total = 0.0
    for entry in plan.entries:
        choice = entry.choices[0]
        seeds = [
            seed for seed in plan.config.seeds if not is_finished(plan.place(entry, choice, seed))
        ]
        if seeds:
            total += len(seeds) * seconds_of(plan.plan(choice, seeds[0]))
    return total
