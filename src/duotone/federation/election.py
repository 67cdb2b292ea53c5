"""Members vote on how models are adjusted to a client's inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from duotone.federation.backends import Backend, ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.engine import ClientStates
from duotone.federation.levels import Level
from duotone.federation.method import Method
from duotone.federation.personalise import Personalisation, Way
from duotone.federation.screening import Refused, counts
from duotone.federation.serving import Serving, by_client
from duotone.networks.reading import in_batches
from duotone.partition.partition import Population

_CLEAR = 2.0  # standard errors of the difference; guessing gains so much in one of forty votes


@travels
@dataclass(frozen=True, slots=True)
class Ballot:
    """How a way fared on validation samples, against no change.

    Attributes:
        won: Samples that only the changed model got right.
        lost: Samples that only the unchanged one got right.
    """

    won: int
    lost: int

    @property
    def is_clear(self) -> bool:
        """Whether more was won than chance gives where nothing is to be won."""
        return self.won - self.lost > _CLEAR * math.sqrt(self.won + self.lost)


@dataclass(frozen=True, slots=True)
class Election:
    """What members decided.

    Attributes:
        chosen: How all clients, newcomers too, adjust their models.
        ballots: Of every way that was tried, all members' together.
    """

    chosen: Personalisation
    ballots: Mapping[Way, Ballot]

    @property
    def said(self) -> str:
        """The result in words.

        >>> chosen = Personalisation("none", (0.5, 0.5))
        >>> Election(chosen, {"prior": Ballot(3, 4)}).said
        'members voted for no change: prior won 3 validation samples and lost 4'
        """
        told = ", ".join(
            f"{way} won {ballot.won} validation samples and lost {ballot.lost}"
            for way, ballot in self.ballots.items()
        )
        choice = "no change" if self.chosen.way == "none" else self.chosen.way
        return f"members voted for {choice}: {told}"

    def as_json(self) -> dict[str, Any]:
        """Return it as run folders keep it."""
        ballots = {way: [ballot.won, ballot.lost] for way, ballot in self.ballots.items()}
        return {"way": self.chosen.way, "shares": list(self.chosen.shares), "ballots": ballots}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Election:
        """Return what :meth:`as_json` made a mapping of."""
        ballots = {way: Ballot(*counts) for way, counts in kept["ballots"].items()}
        return cls(Personalisation(kept["way"], tuple(kept["shares"])), ballots)


@travels
@dataclass(frozen=True, slots=True)
class CountJob:
    """Count a client's training labels."""

    level: ClassVar[Level] = "scores"
    sends: ClassVar[str] = "label counts"

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> NDArray[np.int64]:
        """Return one number per class."""
        labels = population.data(task.client).labels.numpy()
        return np.bincount(labels[labels >= 0], minlength=population.info.outputs)

    def screened(self, answer: Any, client: str, population: Population) -> NDArray[np.int64]:
        """Return the counts, if they are no more than the samples a client is enrolled with."""
        most = population.partition.size(client, "train")
        return counts(answer, "label counts", (population.info.outputs,), most)


@travels
@dataclass(frozen=True, slots=True)
class VoteJob:
    """Compare ways to adjust a client's model on its validation samples."""

    level: ClassVar[Level] = "scores"
    sends: ClassVar[str] = "votes"

    serving: Serving
    options: Sequence[Personalisation]

    def __call__(self, method: Method, population: Population, task: ClientTask) -> list[Ballot]:
        """Return a ballot for each option."""
        data = population.data(task.client, "val")

        def right(serving: Serving) -> Tensor:
            model = serving.model(method, population, task)  # some methods train here
            return is_right(model)

        @torch.inference_mode()
        def is_right(model: nn.Module) -> Tensor:
            outputs = in_batches(lambda x: method.predict(model, x.to(method.device)), data.x)
            return outputs.argmax(dim=1).cpu() == data.labels

        plain = right(self.serving)
        ballots: list[Ballot] = []
        for option in self.options:
            found = right(replace(self.serving, chosen=option))
            ballots.append(Ballot(int((found & ~plain).sum()), int((plain & ~found).sum())))
        return ballots

    def screened(self, answer: Any, client: str, population: Population) -> list[Ballot]:
        """Return the ballots, if a client has one vote for each validation sample."""
        if not isinstance(answer, list) or len(answer) != len(self.options):
            raise Refused(f"it sent no {len(self.options)} ballots")
        most = population.partition.size(client, "val")
        for ballot in answer:
            counts(np.array([ballot.won, ballot.lost]), "votes", (2,), most)
        return answer


def vote(
    serving: Serving,
    ways: Sequence[Way],
    population: Population,
    states: ClientStates,
    backend: Backend,
    asked: Sequence[str] | None = None,
) -> Election:
    """Let members try some ways; return the one that clearly wins most, or no change.

    A member sends the counts of its labels and of its won and lost validation samples.

    Args:
        serving: How members get their models.
        ways: What they may change.
        population: Every client's samples.
        states: Where client states are kept.
        backend: Where clients are computed.
        asked: Which members; all if not given.
    """
    asked = population.partition.members if asked is None else asked
    members = [client for client in asked if population.partition.size(client, "val")]
    told = by_client(CountJob(), asked, population, states, backend)
    # One more of each class: with a count of zero there would be no ratio.
    known = 1 + sum(told.values(), np.zeros(population.info.outputs))
    shares = tuple((known / known.sum()).tolist())
    options = [Personalisation(way, shares) for way in ways if way != "none"]
    ballots = by_client(VoteJob(serving, options), members, population, states, backend)
    totals = {
        option.way: Ballot(
            sum(found[position].won for found in ballots.values()),
            sum(found[position].lost for found in ballots.values()),
        )
        for position, option in enumerate(options)
    }
    clear = [way for way, total in totals.items() if total.is_clear]
    best: Way = max(clear, key=lambda way: totals[way].won - totals[way].lost, default="none")
    return Election(Personalisation(best, shares), totals)
