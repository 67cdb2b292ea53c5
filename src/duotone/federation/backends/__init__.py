"""Where clients are computed: in this process, or in a pool of worker processes.

All backends give the same results, bit for bit: a client is always computed by one thread, from
random streams that belong to it, and results are put in order before they are added up. Clients
side by side (``batched``) are promised to agree to rounding only.
"""

from __future__ import annotations

import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from duotone.errors import DuotoneError, own_frame
from duotone.federation.ledger import Ledger
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.partition.partition import Population
from duotone.types import ClientState


@dataclass(frozen=True, slots=True)
class Home:
    """Where a client of a federation keeps what is its own.

    Attributes:
        folder: A folder for one run.
        data: Its samples, as for ``duotone run --data``.
    """

    folder: Path
    data: str


@dataclass(frozen=True, slots=True)
class ClientTask:
    """One client to be computed, with the state it has stored (``None``: it has none yet).

    A state that is kept elsewhere is only named: :class:`~duotone.types.FarState`. Only a client
    on a machine of its own has a home.
    """

    client: str
    state: ClientState | None
    home: Home | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a client gave no answer.

    Attributes:
        reason: In one line.
        error: What was raised, if it was raised on purpose; it says more of what to do.
        details: The traceback, for the author of a method.
    """

    reason: str
    error: DuotoneError | None = None
    details: str = ""

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Describe an exception that a client's computation raised."""
        if isinstance(error, DuotoneError):
            return cls(str(error), error)
        frames = traceback.extract_tb(error.__traceback__)
        place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
        if own := own_frame(error):
            place = f" (in your own code, {own})"
        details = "".join(traceback.format_exception(error))
        return cls(f"{type(error).__name__}: {error}{place}", None, details)


@dataclass(frozen=True, slots=True)
class ClientResult:
    """What a job returned for one client; or why it returned nothing, which is a result as well.

    Attributes:
        client: Whose result it is: the client of the task, whatever the answer says.
        value: The answer.
        failure: Why there is none.
    """

    client: str
    value: Any = None
    failure: Failure | None = None


class ClientJob(Protocol):
    """What to do with each client. Sent to worker processes, so it must be picklable."""

    def __call__(self, method: Method, population: Population, task: ClientTask) -> Any:
        """Compute one client."""
        ...


class Backend(ABC):
    """Maps a job over clients. Use as a context manager; leaving it frees everything."""

    say: Callable[[str], None] = staticmethod(warnings.warn)
    """Told in one line what the user should know, such as that a client was left out."""
    level: Level = "simulation"
    """What the server may learn; jobs that ask for more are refused."""
    is_far: bool = False
    """Whether clients are on machines of their own, and keep there what is theirs."""

    @cached_property
    def ledger(self) -> Ledger:
        """What clients sent."""
        return Ledger()

    @abstractmethod
    def map_clients(self, job: ClientJob, tasks: Iterable[ClientTask]) -> Iterator[ClientResult]:
        """Yield a result for every task, in any order.

        A client whose computation fails yields its failure; it never stops the others.
        """

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
