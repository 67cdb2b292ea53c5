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
from multiprocessing.connection import Connection, wait
from typing import Any

from duotone.errors import TrainingError
from duotone.federation.backends import Backend, ClientJob, ClientResult, ClientTask
from duotone.federation.backends.wire import NotImportable, attach, receive, send, share
from duotone.federation.method import Method
from duotone.partition.partition import Population

_WORKER = "duotone.federation.backends.worker"
_WORKER_ENVIRONMENT = {
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
        shared, layout = share(population.arrays())
        try:
            for _ in range(workers):
                connection = self._launch(shared)
                self._send(connection, sys.path)
                self._send(connection, (method, shared, layout, population.labels()))
        except (NotImportable, TrainingError):
            self.close()
            raise
        finally:
            population.adopt(attach(shared, layout))
            os.close(shared)
        self._waiting = list(self._children)

    def _launch(self, shared: int) -> Connection:
        ours, theirs = socket.socketpair()
        with theirs:
            child = subprocess.Popen(
                # -P: a numpy.py where the user stands is not the library.
                [sys.executable, "-P", "-m", _WORKER, str(theirs.fileno())],
                pass_fds=(theirs.fileno(), shared),
                stdin=subprocess.DEVNULL,
                env={**os.environ, **_WORKER_ENVIRONMENT},
                process_group=0,  # Ctrl-C is this process's to handle, while they still import too
            )
        connection = Connection(ours.detach())
        self._children[connection] = child
        return connection

    def is_ready(self, *, patience: float | None = 0) -> bool:
        """Say whether every worker has loaded its libraries.

        Args:
            patience: Seconds to wait; ``None`` waits until it is so.

        Raises:
            NotImportable: A worker could not import the method or its model.
        """
        while self._waiting:
            answered = wait(self._waiting, timeout=patience)
            if not answered:
                return False
            for connection in answered:
                assert isinstance(connection, Connection)
                problem = self._receive(connection)
                if problem is not None:
                    raise NotImportable(problem)
                self._waiting.remove(connection)
        return True

    def map_clients(self, job: ClientJob, tasks: Iterable[ClientTask]) -> Iterator[ClientResult]:
        """Yield results as they come; a task is fetched when a worker is free for it."""
        if not self._children:
            raise TrainingError("The worker processes have ended; start a new pool.")
        self.is_ready(patience=None)
        queue = iter(tasks)
        busy: dict[Connection, str] = {}
        try:
            for connection, task in zip(self._children, queue, strict=False):
                busy[connection] = task.client
                self._send(connection, ("job", job))
                self._send(connection, ("task", task))
            while busy:
                for answered in wait(list(busy)):
                    assert isinstance(answered, Connection)
                    outcome, value = self._receive(answered, busy[answered])
                    client = busy.pop(answered)
                    if outcome == "failed":
                        raise value
                    following = next(queue, None)
                    if following is not None:
                        busy[answered] = following.client
                        self._send(answered, ("task", following))
                    yield ClientResult(client, value)
        finally:
            if busy:  # somebody stopped in the middle; what comes back now belongs to nobody
                self.close()

    def _send(self, connection: Connection, message: object) -> None:
        try:
            send(connection, message)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self._ended(connection) from error

    def _receive(self, connection: Connection, client: str | None = None) -> Any:
        try:
            return receive(connection)
        except (EOFError, ConnectionResetError) as error:
            raise self._ended(connection, client) from error

    def _ended(self, connection: Connection, client: str | None = None) -> TrainingError:
        code = self._children[connection].wait()
        doing = f" while computing client {client!r}" if client else ""
        return TrainingError(
            f"A worker process ended with code {code}{doing}; if memory ran out, use fewer "
            "workers: --set workers=1"
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
