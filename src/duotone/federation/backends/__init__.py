"""Where clients are computed: in this process, or in a pool of worker processes.

All backends give the same results, bit for bit: a client is always computed by one thread, from
random streams that belong to it, and results are put in order before anybody adds them up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from duotone.federation.method import Method
from duotone.partition.partition import Population
from duotone.types import ClientState


@dataclass(frozen=True, slots=True)
class ClientTask:
    """One client to be computed, with the state it has stored (``None``: it has none yet)."""

    client: str
    state: ClientState | None


@dataclass(frozen=True, slots=True)
class ClientResult:
    """What a job returned for one client."""

    client: str
    value: Any


class ClientJob(Protocol):
    """What to do with each client. Sent to worker processes, so it must be picklable."""

    def __call__(self, method: Method, population: Population, task: ClientTask) -> Any:
        """Compute one client."""
        ...


class Backend(ABC):
    """Maps a job over clients. Use as a context manager; leaving it frees everything."""

    @abstractmethod
    def map_clients(self, job: ClientJob, tasks: Iterable[ClientTask]) -> Iterator[ClientResult]:
        """Yield a result for every task, in any order."""

    def close(self) -> None:
        """Free what the backend holds; most hold nothing."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
