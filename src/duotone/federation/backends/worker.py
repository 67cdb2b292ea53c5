"""The other end of a worker process: ``python -m duotone.federation.backends.worker FD``."""

from __future__ import annotations

import ctypes
import signal
import sys
from multiprocessing.connection import Connection

import torch

from duotone.federation.backends import ClientResult, Failure
from duotone.federation.backends.serial import compute
from duotone.federation.backends.wire import attach, receive, send
from duotone.partition.partition import Population


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies, where it can (Linux)."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main(descriptor: int) -> None:
    """Serve tasks until the parent closes the connection or is gone."""
    die_with_parent()
    torch.set_num_threads(1)
    connection = Connection(descriptor)
    try:
        sys.path[:] = receive(connection)
        try:
            method, shared, layout, labels = receive(connection)
        except Exception as error:  # whatever importing somebody's model may raise
            send(connection, f"{type(error).__name__}: {error}")
            return
        population = Population.from_arrays(attach(shared, layout), labels)
        send(connection, None)
        job = None
        while True:
            message = receive(connection)
            if message[0] == "job":
                job = message[1]
                continue
            assert job is not None
            result = compute(job, method, population, message[1])
            try:
                send(connection, result)
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:  # an answer that cannot be packed, for any reason
                failure = Failure(f"its answer cannot be sent: {error}")
                send(connection, ClientResult(result.client, failure=failure))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is done, or gone


if __name__ == "__main__":
    main(int(sys.argv[1]))
