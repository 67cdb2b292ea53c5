"""What came back from the clients that were asked: answers, and who gave none and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from duotone.errors import ClientError, TrainingError
from duotone.federation.backends import Backend, ClientJob, ClientTask, Failure
from duotone.federation.levels import check_level
from duotone.federation.screening import Refused
from duotone.partition.partition import Population


@dataclass(slots=True)
class AnswerLog:
    """Who gave no usable answer, and why.

    Attributes:
        refused: Client to reason.
        dropped: Client to what was taken out of its answer; the rest counts.
        failures: What clients raised, if they did.
    """

    refused: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def raise_common(self) -> None:
        """Raise what every client raised on purpose: it is no client's fault.

        A missing layer, say, or a method that cannot serve newcomers.
        """
        raised = [failure.error for failure in self.failures if failure.error is not None]
        if len(raised) < len(self.refused):
            return
        for error in raised:
            if not isinstance(error, ClientError):
                raise error

    def require(self, quorum: int, good: int, round: int, absent: int = 0) -> None:
        """Make sure that a round has enough updates.

        Args:
            quorum: How many it needs.
            good: How many it has.
            round: Which round it is.
            absent: How many members dropped out or were late.

        Raises:
            TrainingError: It has not.
        """
        if good >= quorum:
            return
        if good == 0:
            self.raise_common()
        if not self.refused and absent:
            raise TrainingError(
                f"Round {round}: {absent} of {good + absent} members dropped out or were late, and "
                f"a round needs {quorum}; lower quorum or system.dropout, or draw more members."
            )
        if not self.refused:
            raise TrainingError(
                f"Round {round}: {good} members are left to be asked, and a round needs {quorum}; "
                "the others were refused too often and are set aside. Raise set_aside."
            )
        client, reason = min(self.refused.items())
        asked = good + len(self.refused)
        how_many = "nobody" if good == 0 else f"only {good}"
        advice = " A smaller learning rate often helps: --set lr=…"
        if self.failures:
            advice = " The whole traceback: --debug." if self.failures[0].details else ""
        error = TrainingError(
            f"Round {round}: of {asked} clients {how_many} sent a usable update, and a round needs "
            f"{quorum}. Client {client!r} was left out because {reason}.{advice}"
        )
        for failure in self.failures[:1]:
            error.add_note(failure.details)
        raise error


def answers(
    backend: Backend,
    job: ClientJob,
    tasks: Iterable[ClientTask],
    asked: Sequence[str],
    log: AnswerLog,
    population: Population | None = None,
) -> Iterator[tuple[str, Any]]:
    """Yield clients with their answers, as they come; write down who failed or gave none.

    An answer is that of the client who was asked, whatever name stands in it. It goes into the
    backend's ledger. A job with a method ``screened`` says what is left of an answer, or raises
    :class:`~duotone.federation.screening.Refused`; updates and statistics are screened by the
    engine.

    Args:
        backend: Where clients are computed.
        job: What they are asked.
        tasks: Whom, and with which state.
        asked: The names of those.
        log: Where it is written down.
        population: What the server knows of the clients, if the job's screening needs it.

    Raises:
        DisclosureError: The job asks for more than the server may learn.
    """
    check_level(job, backend.level)
    screened = getattr(job, "screened", None)
    waiting = set(asked)
    for result in backend.map_clients(job, tasks):
        if result.client not in waiting:  # nobody asked, or it has answered
            continue
        waiting.remove(result.client)
        if result.failure is not None:
            log.failures.append(result.failure)
            log.refused[result.client] = f"it failed: {result.failure.reason}"
            continue
        value = result.value
        backend.ledger.enter(job, result.client, value)
        if screened is not None:
            try:
                value = screened(value, result.client, population)
            except Refused as reason:
                log.refused[result.client] = str(reason)
                continue
            except Exception as error:  # a strange object may raise anything when it is read
                log.refused[result.client] = f"its answer cannot be read ({type(error).__name__})"
                continue
        yield result.client, value
    for client in waiting:
        log.refused[client] = "it did not answer"
