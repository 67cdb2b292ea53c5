"""Trained federations and finished runs, made by hand for measures to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from duotone.config import RunConfig
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates
from duotone.federation.method import Method
from duotone.federation.serving import Serving
from duotone.measures.codes import CodeTable
from duotone.measures.factors import dependence_scores, factor_scores
from duotone.measures.groups import scores_by_group
from duotone.measures.measure import Record, Row, Scene
from duotone.measures.readings import read_codes
from duotone.measures.score import Key, Score
from duotone.partition.partition import Population
from duotone.runs.folder import COLUMNS


def make_scene(
    method: Method,
    population: Population,
    serving: Serving,
    *,
    clients: Sequence[str] | None = None,
    states: Any = None,
    backend: Any = None,
    rows: Sequence[Row] = (),
    **settings: Any,
) -> Scene:
    """Return a scene; everything that is not given is the simplest."""
    return Scene(
        method,
        population,
        serving,
        list(population.partition) if clients is None else clients,
        MemoryStates() if states is None else states,
        Serial(method, population) if backend is None else backend,
        RunConfig(**{"method": {"name": "fedavg"}, "rounds": serving.info.rounds, **settings}),
        pl.DataFrame(list(rows), schema=COLUMNS, orient="row"),
    )


def separation_scores(
    latents: Mapping[str, Any], *, data_name: str | None, seed: int
) -> dict[Key, Score]:
    """Return all scores of a table of codes: probes, factors, groups."""
    table = CodeTable.of(latents, data_name, seed)
    read = read_codes(table)
    scores = dict(read.scores)
    if table.parts and table.questions and len(table.members.test):
        scores |= factor_scores(table, read) | dependence_scores(table)
    return scores | scores_by_group(table)


def made_score(value: float, **changes: Any) -> Score:
    """Return a score whose other facts do not matter."""
    facts = {"std": 0.0, "direction": "higher", "n": 9, "unit": "share", **changes}
    return Score(value, **facts)


def record_of(
    scores: Mapping[Key, Score],
    *,
    last: Mapping[str, tuple[str, str, float]] | None = None,
    means: Sequence[float] = (),
    shared: tuple[int, int] = (1000, 4),
    local: tuple[int, int] = (0, 4),
    is_dead: bool = False,
    tables: Mapping[str, Any] | None = None,
) -> Record:
    """Return what the folder of a finished run would say.

    Args:
        scores: Its scores.
        last: Group, role and accuracy of each client in the last round.
        means: Members' accuracies in the rounds before.
        shared: Parameters and code dimensions of the shared part.
        local: Likewise of the local part.
        is_dead: Whether all local codes are equal.
        tables: Details that measures left.
    """
    rounds = len(means) + 1
    rows = [(n, "x", "", "member", "both", "accuracy", v) for n, v in enumerate(means, start=1)]
    rows += [
        (rounds, client, group, role, "both", "accuracy", value)
        for client, (group, role, value) in (last or {}).items()
    ]
    rng = np.random.default_rng(0)
    codes = {"shared": rng.normal(size=(6, shared[1])), "local": rng.normal(size=(6, local[1]))}
    if is_dead:
        codes["local"] *= 0
    sizes = {"shared": shared[0], "local": local[0]}
    parts = {p: {"parameters": n, "buffers": 0, "bytes": 4 * n} for p, n in sizes.items()}
    return Record(
        RunConfig(method={"name": "fedavg"}, rounds=rounds),
        {"parts": parts, "members": 2, "newcomers": 1},
        pl.DataFrame(rows, schema=COLUMNS, orient="row"),
        {"headline": "accuracy", "rounds": rounds, "newcomer_rule": "zero-shot"},
        scores,
        {**codes, "client": np.array(list("aabbcc"))},
        tables or {},
        [],
    )
