"""How clients are served by a run as it stands on disk."""

from __future__ import annotations

from dataclasses import replace

from duotone.federation.election import Election
from duotone.federation.engine import before_first_round
from duotone.federation.serving import Serving
from duotone.federation.store import CommittedRound
from duotone.runs.plan import Plan


def last_election(last: CommittedRound) -> Election | None:
    """Return what members last voted for, if they were asked."""
    found = last.notes.get("election")
    return None if found is None else Election.from_json(found)


def last_serving(plan: Plan, last: CommittedRound) -> Serving:
    """Return how clients get their models after a committed round."""
    config = plan.config
    assert config.rounds is not None
    before = before_first_round(
        plan.population, rounds=config.rounds, sampled=config.sampled, seed=config.seed
    )
    info = replace(before, round=last.round)
    elected = last_election(last)
    chosen = None if elected is None else elected.chosen
    return Serving(last.server(), info, plan.rule, config.shots, chosen)
