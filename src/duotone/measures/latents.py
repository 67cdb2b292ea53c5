"""Collect the representations of all clients into one table of samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from duotone.data.dataset import Array
from duotone.errors import ClientError
from duotone.federation.backends import Backend, ClientTask
from duotone.federation.backends.serial import one_thread
from duotone.federation.engine import ClientStates
from duotone.federation.method import Method, Part
from duotone.federation.protocols import HasCommonAxes
from duotone.federation.serving import Serving, by_client
from duotone.measures.clients import EncodeJob
from duotone.partition.partition import Population
from duotone.types import Params, RoundInfo


def collect_latents(
    method: Method,
    serving: Serving,
    clients: Sequence[str],
    population: Population,
    states: ClientStates,
    backend: Backend,
    samples: int,
) -> dict[str, Array]:
    """Return arrays with one row per sample, ready to be saved.

    ``shared`` and ``local`` are codes (posterior means where there is a posterior, with
    ``shared_std`` and ``local_std`` beside them); ``label, client, group, role, split, index`` say
    whose sample it is and which row of the data set; ``factor_*`` are its true factors.

    ``untrained_shared`` and ``untrained_local`` are codes by the network before training: what they
    reveal needed no learning. Where clients encode with parameters of their own, their codes cannot
    be put beside each other, unless the method says that they can; ``common_shared`` and
    ``common_local`` are codes of the same samples by one client's encoder, that of the first
    member.

    Raises:
        ClientError: No client's samples can be encoded.
    """
    members = [client for client in clients if population.partition[client].role == "member"]
    with one_thread():
        others = {"untrained_": _untrained(method, serving.info)}
        for first in members[:1]:
            task = ClientTask(first, states.get(first))
            common = serving.personal(method, population, task)
            if not _equal(common, serving.server.shared):
                others["common_"] = common
    job = EncodeJob(serving, samples, others)
    codes = by_client(job, clients, population, states, backend)
    if not codes:
        raise ClientError("no client's samples could be encoded")
    columns: dict[str, list[Any]] = {}
    for client, arrays in codes.items():
        holding = population.partition[client]
        for split in job.splits:
            rows = population.rows(client, split)[:samples]
            facts = {
                "label": population.dataset.y[rows],
                "client": np.full(len(rows), client),
                "group": np.full(len(rows), holding.group),
                "kind": np.full(len(rows), holding.role),
                "split": np.full(len(rows), split),
                "index": rows,
            }
            facts |= {f"factor_{k}": v for k, v in population.factors(rows).items()}
            facts |= {
                name.removesuffix(f"/{split}"): values
                for name, values in arrays.items()
                if name.endswith(f"/{split}")
            }
            for name, values in facts.items():
                columns.setdefault(name, []).append(values)
    table = {name: np.concatenate(pieces) for name, pieces in columns.items()}
    parts: tuple[Part, ...] = ("shared", "local")
    pairs = [(f"common_{part}", part) for part in parts]
    if all(name in table and np.array_equal(table[name], table[part]) for name, part in pairs):
        for name, _ in pairs:  # the encoders hold nothing local
            del table[name]
    for part in parts:
        if isinstance(method, HasCommonAxes) and method.has_common_axes(part):
            table.pop(f"common_{part}", None)
    return table


def _untrained(method: Method, info: RoundInfo) -> Params:
    """Return the model a client would use before the first round."""
    before = replace(info, round=0)
    server = method.start(before)
    return method.personal(server, method.first_state(server, before))


def _equal(first: Params, second: Params) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(tensor, second[name]) for name, tensor in first.items()
    )
