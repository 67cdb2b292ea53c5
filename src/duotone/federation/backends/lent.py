"""Another backend's processes, lent to another method on the same samples.

Starting processes takes seconds; a method that only stands beside the run's own as a control need
not pay for that again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from duotone.federation.backends import Backend, ClientJob, ClientResult, ClientTask
from duotone.federation.backends.auto import Auto
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.method import Method
from duotone.partition.partition import Population


@dataclass(frozen=True, slots=True)
class _JobOf:
    """A job as another method does it, if so from labelled samples alone."""

    method: Method
    job: ClientJob
    is_labelled: bool

    def __call__(self, method: Method, population: Population, task: ClientTask) -> object:
        """Compute one client."""
        seen = only_labelled(population) if self.is_labelled else population
        return self.job(self.method, seen, task)


def only_labelled(population: Population) -> Population:
    """Return the same clients without the training samples that have no label."""
    if not population.keeps_unlabelled:
        return population
    return Population(population.dataset, population.partition, labelled=population.labelled)


class Lent(Backend):
    """Computes clients where another backend does.

    Args:
        owner: Whose processes they are. Other machines are not lent: this process does it then.
        method: What is computed instead of the owner's method.
        population: The owner's samples.
        is_labelled: Whether training samples that have no label are left out.
    """

    def __init__(
        self, owner: Backend, method: Method, population: Population, *, is_labelled: bool = False
    ) -> None:
        has_workers = isinstance(owner, Auto | Processes)
        self._owner = owner if has_workers else Serial(method, population)
        self._method, self._is_labelled = method, is_labelled

    def map_clients(self, job: ClientJob, tasks: Iterable[ClientTask]) -> Iterator[ClientResult]:
        """Yield results as the owner's processes give them."""
        return self._owner.map_clients(_JobOf(self._method, job, self._is_labelled), tasks)
