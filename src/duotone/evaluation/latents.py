"""Collect the representations of all clients into one table of samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from duotone.data.dataset import Array
from duotone.evaluation.clients import EncodeJob, Serving
from duotone.federation.backends import Backend, ClientTask
from duotone.federation.engine import ClientStates, largest_first
from duotone.partition.partition import Population, Rows


def collect_latents(
    serving: Serving,
    clients: Sequence[str],
    population: Population,
    states: ClientStates,
    backend: Backend,
    samples: int,
) -> dict[str, Array]:
    """Return arrays with one row per sample, ready to be saved.

    ``shared`` and ``local`` are codes (posterior means where there is a posterior, with
    ``shared_std`` and ``local_std`` beside them); ``label, client, group, kind, split, index`` say
    whose sample it is and which row of the data set; ``factor_*`` are its true factors.
    """
    job = EncodeJob(serving, samples)
    order = largest_first(clients, population)
    tasks = (ClientTask(client, states.get(client)) for client in order)
    codes = {result.client: result.value for result in backend.map_clients(job, tasks)}
    columns: dict[str, list[Any]] = {}
    for client in clients:
        holding = population.partition[client]
        for split in job.splits:
            rows: Rows = getattr(holding, split)[:samples]
            facts = {
                "label": population.dataset.y[rows],
                "client": np.full(len(rows), client),
                "group": np.full(len(rows), holding.group),
                "kind": np.full(len(rows), holding.kind),
                "split": np.full(len(rows), split),
                "index": rows,
            }
            facts |= {f"factor_{k}": v for k, v in population.factors(rows).items()}
            facts |= {
                name.removesuffix(f"/{split}"): values
                for name, values in codes[client].items()
                if name.endswith(f"/{split}")
            }
            for name, values in facts.items():
                columns.setdefault(name, []).append(values)
    return {name: np.concatenate(pieces) for name, pieces in columns.items()}
