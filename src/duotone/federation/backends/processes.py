"""A pool of one-thread worker processes over shared memory, one per core.

Several one-thread processes beat one many-thread process for small networks: there is nothing to
synchronise inside a layer. Workers are plain child processes of this one, without a daemon; they
die with it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait

from duotone.errors import TrainingError
from duotone.federation.backends import Backend, ClientJob, ClientResult, ClientTask, Failure
from duotone.federation.backends.wire import NotImportable, attach, receive, send, share
from duotone.federation.method import Method
from duotone.partition.partition import Population

_WORKER = "duotone.federation.backends.worker"
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Keep freed blocks instead of giving them back to the kernel: large activations come and go in
    # every step, and mapping them anew costs a fifth of the time of a dual VAE.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_TOP_PAD_": str(16 << 20),
}


class Processes(Backend):
    """Computes clients in worker processes.

    Args:
        method: The method; sent to the workers once.
        population: The samples; moved into memory that the workers share.
        workers: Number of processes.

    Raises:
        NotImportable: The method's model cannot be imported by another process.
    """

    def __init__(self, method: Method, population: Population, workers: int) -> None:
        self.population = population
        self._children: dict[Connection, subprocess.Popen[bytes]] = {}
        self._waiting: list[Connection] = []
        self._shared, layout = share(population.arrays())
        self._welcome = (method, self._shared, layout, population.form())
        population.adopt(attach(self._shared, layout))
        try:
            for _ in range(workers):
                self._launch()
        except (NotImportable, TrainingError):
            self.close()
            raise

    def _launch(self) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs:
            child = subprocess.Popen(
                # -P: a numpy.py where the user stands is not the library.
                [sys.executable, "-P", "-m", _WORKER, str(theirs.fileno())],
                pass_fds=(theirs.fileno(), self._shared),
                stdin=subprocess.DEVNULL,
                env={**os.environ, **WORKER_ENVIRONMENT},
                process_group=0,  # Ctrl-C is this process's to handle, while they still import too
            )
        connection = Connection(ours.detach())
        self._children[connection] = child
        self._waiting.append(connection)
        try:
            send(connection, sys.path)
            send(connection, self._welcome)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise TrainingError(self._ended(connection)) from error
        return connection

    def is_ready(self, *, patience: float | None = 0) -> bool:
        """Say whether every worker has loaded its libraries.

        Args:
            patience: Seconds to wait; ``None`` waits until it is so.

        Raises:
            NotImportable: A worker could not import the method or its model.
            TrainingError: A worker ended while it started.
        """
        while self._waiting:
            answered = wait(self._waiting, timeout=patience)
            if not answered:
                return False
            for connection in answered:
                assert isinstance(connection, Connection)
                try:
                    problem = receive(connection)
                except (EOFError, ConnectionResetError) as error:
                    raise TrainingError(self._ended(connection)) from error
                if problem is not None:
                    raise NotImportable(problem)
                self._waiting.remove(connection)
        return True

    def map_clients(self, job: ClientJob, tasks: Iterable[ClientTask]) -> Iterator[ClientResult]:
        """Yield results as they come; a task is fetched when a worker is free for it.

        A worker that dies is replaced and its client computed once more: a worker may have been
        killed for no fault of the client's. If that one dies too, the client has failed.
        """
        if not self._children:
            raise TrainingError("The worker processes have ended; start a new pool.")
        self.is_ready(patience=None)
        hand = _Hand(job, iter(tasks))
        idle = list(self._children)
        busy: dict[Connection, ClientTask] = {}
        try:
            while True:
                self._hand_out(hand, idle, busy)
                if not busy:
                    return
                for answered in wait(list(busy)):
                    assert isinstance(answered, Connection)
                    task = busy.pop(answered)
                    try:
                        result = received(answered, task)
                        idle.append(answered)
                    except (EOFError, ConnectionResetError):
                        reason = self._ended(answered)
                        idle.append(self._replaced(answered))
                        if hand.gives_again(task):
                            continue
                        result = ClientResult(task.client, failure=Failure(reason))
                    self._hand_out(hand, idle, busy)
                    yield result
        finally:
            if busy:  # the caller stopped early; what comes back now is not wanted
                self.close()

    def _hand_out(
        self, hand: _Hand, idle: list[Connection], busy: dict[Connection, ClientTask]
    ) -> None:
        """Give a task to every idle worker, as long as there are any."""
        while idle and (task := hand.next_task()) is not None:
            connection = idle.pop()
            try:
                if connection not in hand.told:
                    send(connection, ("job", hand.job))
                    hand.told.add(connection)
                send(connection, ("task", task))
                busy[connection] = task
            except (BrokenPipeError, ConnectionResetError):  # it died while it had nothing to do
                hand.again.append(task)
                idle.append(self._replaced(connection))

    def _replaced(self, dead: Connection) -> Connection:
        """Start a worker in the place of one that ended."""
        dead.close()
        self._children.pop(dead).wait()
        fresh = self._launch()
        self.is_ready(patience=None)
        return fresh

    def _ended(self, connection: Connection) -> str:
        code = self._children[connection].wait()
        return (
            f"its worker process ended with code {code}; if memory ran out, use fewer workers: "
            "--set workers=1"
        )

    def close(self) -> None:
        """End the workers; they are idle, or their work is no longer wanted."""
        for connection, child in self._children.items():
            connection.close()
            child.kill()
        for child in self._children.values():
            child.wait()
        self._children.clear()
        self._waiting.clear()
        if self._shared >= 0:
            os.close(self._shared)
            self._shared = -1


@dataclass(slots=True)
class _Hand:
    """The tasks of one job that are still to be given out.

    Attributes:
        job: What to do with each client.
        queue: The tasks.
        again: Tasks whose worker died.
        told: The workers that know the job.
        lost: Clients whose worker died once.
    """

    job: ClientJob
    queue: Iterator[ClientTask]
    again: list[ClientTask] = field(default_factory=list)
    told: set[Connection] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    def next_task(self) -> ClientTask | None:
        return self.again.pop() if self.again else next(self.queue, None)

    def gives_again(self, task: ClientTask) -> bool:
        """Put a task whose worker died back, unless that has happened before."""
        if task.client in self.lost:
            return False
        self.lost.add(task.client)
        self.again.append(task)
        return True


def received(connection: Connection, task: ClientTask) -> ClientResult:
    """Return a worker's answer to a task; one that cannot be read is a failure.

    Raises:
        EOFError: The worker is gone.
    """
    try:
        answer: ClientResult = receive(connection)
        return ClientResult(task.client, answer.value, answer.failure)
    except (EOFError, ConnectionResetError):
        raise
    except Exception as error:  # whatever a strange object does when it is put together again
        failure = Failure(f"its answer cannot be read: {type(error).__name__}: {error}")
        return ClientResult(task.client, failure=failure)


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
