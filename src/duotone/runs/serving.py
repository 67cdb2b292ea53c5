"""How clients are served by a run as it stands on disk."""

from __future__ import annotations

from dataclasses import replace

from duotone.evaluation.clients import Serving
from duotone.evaluation.vote import Election
from duotone.federation.engine import before_first_round
from duotone.federation.store import FolderStore
from duotone.runs.plan import Plan


def last_election(store: FolderStore) -> Election | None:
    """Return what members last voted for, if they were asked."""
    found = store.manifest.notes.get("election")
    return None if found is None else Election.from_json(found)


def last_serving(plan: Plan, store: FolderStore) -> Serving:
    """Return how clients get their models after the last committed round."""
    config = plan.config
    assert config.rounds is not None
    before = before_first_round(
        plan.population, rounds=config.rounds, sampled=config.sampled, seed=config.seed
    )
    info = replace(before, round=store.manifest.round)
    elected = last_election(store)
    chosen = None if elected is None else elected.chosen
    return Serving(store.server(), info, plan.rule, config.shots, chosen)
