"""Where a run's clients are computed."""

from __future__ import annotations

from collections.abc import Callable

from duotone.federation.backends import Backend
from duotone.federation.backends.auto import Auto, one_process_line
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.backends.wire import NotImportable
from duotone.runs.plan import Plan


def make_backend(plan: Plan, say: Callable[[str], None]) -> Backend:
    """Return the backend the configuration asks for.

    Args:
        plan: What is to be computed.
        say: Told in one line what the user should know, such as that a client was left out.
    """
    backend = _backend(plan, say)
    backend.say = say
    return backend


def _backend(plan: Plan, say: Callable[[str], None]) -> Backend:
    method, population = plan.method, plan.population
    if plan.config.backend == "serial" or method.device != "cpu":
        return Serial(method, population)
    if plan.config.backend == "auto":
        return Auto(method, population, plan.workers, say)
    try:
        return Processes(method, population, plan.workers)
    except NotImportable as problem:
        say(one_process_line(problem))
        return Serial(method, population)
