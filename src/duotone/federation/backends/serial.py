"""The reference backend: one client after the other, in this process, on one thread."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

from duotone.federation.backends import Backend, ClientJob, ClientResult, ClientTask, Failure
from duotone.federation.method import Method
from duotone.partition.partition import Population


class Serial(Backend):
    """Computes clients one by one."""

    def __init__(self, method: Method, population: Population) -> None:
        # As in a worker: what a client writes into its method must not reach the server's.
        self.method = copy.deepcopy(method)
        self.population = population

    def map_clients(self, job: ClientJob, tasks: Iterable[ClientTask]) -> Iterator[ClientResult]:
        """Yield results in the order of the tasks."""
        for task in tasks:
            with one_thread():
                result = compute(job, self.method, self.population, task)
            yield result


def compute(
    job: ClientJob, method: Method, population: Population, task: ClientTask
) -> ClientResult:
    """Compute one client; if that fails, its failure is the result."""
    try:
        return ClientResult(task.client, job(method, population, task))
    except Exception as error:
        return ClientResult(task.client, failure=Failure.of(error))


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, as a worker process does, and restore the setting afterwards.

    The number of threads changes the order of sums inside a matrix product, and so its last bits.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
