"""Where a run's clients are computed: the backend that its configuration asks for."""

from __future__ import annotations

from collections.abc import Callable

from duotone.config import RunConfig
from duotone.federation.backends import Backend
from duotone.federation.backends.auto import Auto, one_process_line
from duotone.federation.backends.batched import Batched, one_by_one_line, why_not
from duotone.federation.backends.processes import Processes, available_cores
from duotone.federation.backends.serial import Serial
from duotone.federation.backends.wire import NotImportable
from duotone.federation.method import Method
from duotone.partition.partition import Population


def make_backend(
    method: Method, population: Population, config: RunConfig, say: Callable[[str], None]
) -> Backend:
    """Return the backend the configuration asks for.

    Args:
        method: What is to be computed.
        population: Every client's samples.
        config: The settings of the run.
        say: Told in one line what the user should know, such as that a client was left out.
    """
    backend = _backend(method, population, config, say)
    backend.say = say
    return backend


def _backend(
    method: Method, population: Population, config: RunConfig, say: Callable[[str], None]
) -> Backend:
    if config.backend == "flower":
        from duotone.federation.backends.flower import OneMachineFlower  # needs an extra

        return OneMachineFlower(method, population)
    workers = config.workers or available_cores()
    if config.backend == "flower-ray":
        from duotone.federation.backends.flower_ray import RayFlower  # needs another extra

        return RayFlower(method, population, workers)
    if config.backend == "batched":
        if (reason := why_not(method, population.info)) is None:
            return Batched(method, population)
        say(one_by_one_line(reason))
        return Serial(method, population)
    if config.backend == "serial" or method.device != "cpu":
        return Serial(method, population)
    if config.backend == "auto":
        return Auto(method, population, workers, say)
    try:
        return Processes(method, population, workers)
    except NotImportable as problem:
        say(one_process_line(problem))
        return Serial(method, population)
