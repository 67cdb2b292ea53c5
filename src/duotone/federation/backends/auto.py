"""Start at once in this process; hand over to worker processes if the work turns out long.

Starting workers costs a few seconds of loading libraries, which a small run would never earn back.
How long a run takes is not known beforehand, so this backend computes serially until it has spent
about what a pool costs, starts the pool in the background, and switches when it is ready. Since
backends agree bit for bit, nobody can tell when it switched.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from duotone.federation.backends import Backend, ClientJob, ClientResult, ClientTask
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.backends.wire import NotImportable
from duotone.federation.method import Method
from duotone.partition.partition import Population

POOL_COST_SECONDS = 2.0


class Auto(Backend):
    """Serial first, worker processes when they pay.

    Args:
        method: The method.
        population: The samples.
        workers: Number of processes to use.
        say: Told in one line what the user should know.
    """

    def __init__(
        self,
        method: Method,
        population: Population,
        workers: int,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._serial = Serial(method, population)
        self._workers = workers
        self.say = say
        self._spent = 0.0
        self._pool: Processes | None = None
        self._may_switch = workers > 1 and os.name == "posix"

    def close(self) -> None:
        """End the workers, if there are any."""
        if self._pool is not None:
            self._pool.close()

    def map_clients(self, job: ClientJob, tasks: Iterable[ClientTask]) -> Iterator[ClientResult]:
        """Yield results from whichever backend is in use; switch in the middle if it is time."""
        rest = iter(tasks)
        while not self._pool_is_ready():
            task = next(rest, None)
            if task is None:
                return
            begin = time.perf_counter()
            (result,) = self._serial.map_clients(job, [task])
            self._spent += time.perf_counter() - begin
            yield result
        assert self._pool is not None
        yield from self._pool.map_clients(job, rest)

    def _pool_is_ready(self) -> bool:
        if not self._may_switch or self._spent < POOL_COST_SECONDS:
            return False
        try:
            if self._pool is None:
                self._pool = Processes(self._serial.method, self._serial.population, self._workers)
            return self._pool.is_ready()
        except NotImportable as problem:
            self._may_switch = False
            if self._pool is not None:
                self._pool.close()
            self.say(one_process_line(problem))
            return False


def one_process_line(problem: NotImportable) -> str:
    """Say why all clients are computed in this process, and what would change that."""
    return (
        f"Computing in one process: worker processes cannot import method or model ({problem}). "
        "Put its class into a module of its own to use all cores."
    )
