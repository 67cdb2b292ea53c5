"""Runs: one execution, one folder; and the Python interface to them.

run = duotone.run(method="fedavg", data="digits", rounds=10)
run.summary["scores"]["member.accuracy"]

Names are loaded when they are asked for: looking at a run needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duotone.runs.draft import plan_population, with_tables
    from duotone.runs.execute import Interrupted, Progress, RunObserver
    from duotone.runs.folder import RunFolder, list_runs
    from duotone.runs.handle import Run, load_run
    from duotone.runs.plan import Plan, facts_of, plan_run
    from duotone.runs.start import given_again, prepare, resume, run

_WHERE = {
    "Interrupted": "duotone.runs.execute",
    "Plan": "duotone.runs.plan",
    "Progress": "duotone.runs.execute",
    "Run": "duotone.runs.handle",
    "RunFolder": "duotone.runs.folder",
    "RunObserver": "duotone.runs.execute",
    "facts_of": "duotone.runs.plan",
    "given_again": "duotone.runs.start",
    "list_runs": "duotone.runs.folder",
    "load_run": "duotone.runs.handle",
    "plan_population": "duotone.runs.draft",
    "plan_run": "duotone.runs.plan",
    "prepare": "duotone.runs.start",
    "resume": "duotone.runs.start",
    "run": "duotone.runs.start",
    "with_tables": "duotone.runs.draft",
}

__all__ = [
    "Interrupted",
    "Plan",
    "Progress",
    "Run",
    "RunFolder",
    "RunObserver",
    "facts_of",
    "given_again",
    "list_runs",
    "load_run",
    "plan_population",
    "plan_run",
    "prepare",
    "resume",
    "run",
    "with_tables",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'duotone.runs' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)
