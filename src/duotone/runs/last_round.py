"""How clients are served by a run as it stands on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from duotone.config import RunConfig, validated
from duotone.federation.election import Election
from duotone.federation.method import Method
from duotone.federation.serving import Serving
from duotone.federation.store import CommittedRound
from duotone.methods import METHODS
from duotone.networks import MODELS, default_model
from duotone.networks.reading import as_network
from duotone.runs.plan import Model, Plan
from duotone.types import DataInfo, NewcomerRule, RoundInfo


def last_election(last: CommittedRound) -> Election | None:
    """Return what members last voted for, if they were asked."""
    found = last.notes.get("election")
    return None if found is None else Election.from_json(found)


def last_serving(plan: Plan, last: CommittedRound) -> Serving:
    """Return how clients get their models after a committed round."""
    config, population = plan.config, plan.population
    members = len(population.partition.members)
    serving = serving_after(last, config, population.info, members, plan.rule)
    return replace(serving, shots=config.shots)


def serving_after(
    committed: CommittedRound, config: RunConfig, info: DataInfo, members: int, rule: NewcomerRule
) -> Serving:
    """Return how clients get their models after a round; newcomers show all that they have.

    Args:
        committed: The round.
        config: The run's resolved configuration.
        info: The form of the data.
        members: How many members the run has.
        rule: What newcomers start from.
    """
    share = (config.sampled or members) / members
    after = RoundInfo(committed.round, config.rounds_made, config.seed, info, share)
    elected = last_election(committed)
    chosen = None if elected is None else elected.chosen
    return Serving(committed.server(), after, rule, chosen=chosen)


def method_again(
    table: Mapping[str, Any],
    model: Model | str,
    info: DataInfo,
    *,
    method: type[Method] | None = None,
    device: str = "cpu",
) -> Method:
    """Build a run's method from what the run wrote down, without its data.

    Args:
        table: The resolved settings of the method, with its name.
        model: The model or its name.
        info: The form of the data.
        method: The method, if it was made in Python.
        device: Where to compute: cpu; anything else takes a GPU if there is one.

    Raises:
        ConfigError: What was written down is damaged.
    """
    kind: type[Method] = method or METHODS.load(str(table.get("name", "")))
    own = {key: value for key, value in table.items() if key != "name"}
    settings = validated(kind.Config, own, owner=f"the method {kind.name!r}", prefix="method.")
    if kind.own_model is not None:
        model = default_model(info, kind.table_model)
    network = as_network(MODELS.load(model) if isinstance(model, str) else model)
    place = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    return kind(settings, network, place)
