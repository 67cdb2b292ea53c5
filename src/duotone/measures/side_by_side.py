"""Work that belongs to no single client, done in the worker processes of a run.

Judges, attackers and probes have nothing to do with each other, so each can be trained in a worker
while another one trains its neighbour. A piece of work is a function that other processes can
import, with what it needs; it is computed by one thread wherever it is done, so its bits do not
depend on where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from duotone.errors import TrainingError
from duotone.federation.backends import Backend, ClientJob, ClientResult, ClientTask
from duotone.federation.backends.auto import Auto
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.method import Method
from duotone.partition.partition import Population

Piece: TypeAlias = Callable[[Method, Population], Any]
"""One piece of work, given the method and the samples; those have no factors in a worker."""


@dataclass(frozen=True, slots=True)
class _PieceTask(ClientTask):
    """A piece of work in the place of a client."""

    piece: Piece | None = None


@dataclass(frozen=True, slots=True)
class _PieceJob:
    """Do a piece of work."""

    def __call__(self, method: Method, population: Population, task: ClientTask) -> Any:
        """Return what it gives."""
        assert isinstance(task, _PieceTask)
        assert task.piece is not None
        return task.piece(method, population)


def side_by_side(
    backend: Backend, method: Method, population: Population, pieces: Sequence[Piece]
) -> list[Any]:
    """Do pieces of work, in worker processes if the backend has any; return what they give.

    Args:
        backend: Whose workers are used. Clients on other machines do no such work.
        method: What pieces are given, if they are done here.
        population: Likewise.
        pieces: The longest first.

    Raises:
        TrainingError: A piece failed.
    """
    has_workers = isinstance(backend, Auto | Processes)
    where = backend if has_workers else Serial(method, population)
    job: ClientJob = _PieceJob()
    tasks = [_PieceTask(str(place), None, piece=piece) for place, piece in enumerate(pieces)]
    found: dict[str, ClientResult] = {}
    for result in where.map_clients(job, tasks):
        found[result.client] = result
    for result in found.values():
        if result.failure is not None:
            if result.failure.error is not None:
                raise result.failure.error
            error = TrainingError(f"Measuring failed: {result.failure.reason}.")
            error.add_note(result.failure.details)
            raise error
    return [found[task.client].value for task in tasks]
