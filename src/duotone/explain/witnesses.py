"""Whom an answer is compared with: all members, or the shared model alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from duotone.errors import ConfigError, DuotoneError, RunError
from duotone.federation.backends.serial import one_thread
from duotone.measures.asked import BACKGROUND, as_answers, background, witnesses_among
from duotone.measures.decomposition import Decomposition, FloatArray, decomposed
from duotone.runs import Run
from duotone.runs.client import Client
from duotone.runs.explanation import Reference
from duotone.runs.last_round import serving_after
from duotone.runs.opened import OpenedRun
from duotone.runs.served import Who
from duotone.types import ClientData

REFERENCES: dict[Reference, str] = {
    "members": "all members",
    "shared": "the shared model",
}


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """What ``answers.json`` says.

    Attributes:
        members: Those that answered.
        asked: Those whose samples everybody was asked about.
        samples: How many samples that were.
        usual: What each client says of anything.
        groups: The group of each client.
        places: Where clients lie by how they answer.
        flips: Share of a client's decisions that another's local part changes.
        ways: Which decisions become which.
    """

    members: list[str]
    asked: list[str]
    samples: int
    usual: dict[str, list[float]]
    groups: dict[str, str]
    places: dict[str, tuple[float, float]]
    flips: dict[str, dict[str, float]] = field(default_factory=dict)
    ways: list[list[int]] = field(default_factory=list)


_Table = TypeAdapter(AnswerTable)


def read_answers(run: Run) -> AnswerTable | None:
    """Return what a run wrote down of how its clients answer; ``None`` if it did not.

    Raises:
        RunError: The file is damaged.
    """
    content = run.folder.table("answers")
    if content is None:
        return None
    try:
        return _Table.validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise RunError(
            f"{run.path / 'answers.json'} is damaged ({'.'.join(map(str, first['loc']))}: "
            f"{first['msg'].lower()}); restore it from a copy."
        ) from error


@dataclass
class Federation:
    """A finished run, as explanations need it; models are opened once.

    Args:
        opened: The run.
    """

    opened: OpenedRun
    _clients: dict[str, Client] = field(default_factory=dict)

    @cached_property
    def table(self) -> AnswerTable | None:
        """What the run wrote down of how its clients answer; ``None`` for runs that did not.

        Raises:
            RunError: The file is damaged.
        """
        return read_answers(self.opened.run)

    @cached_property
    def is_one_client(self) -> bool:
        """Whether the run is kept by one client of a federation, where nobody else's part is."""
        return "client" in self.opened.run.folder.facts()

    @cached_property
    def members(self) -> list[str]:
        """The members that stand for everybody; one client that keeps a run alone is all it has."""
        if self.table is not None:
            return self.table.members
        if self.is_one_client:
            return list(self.opened.clients)
        every = [name for name, who in self.opened.clients.items() if who.role == "member"]
        return witnesses_among(every, self.opened.run.config.seed)

    def distances(self, name: str) -> dict[str, float]:
        """Return how far other clients lie from one by how they answer; empty if nobody knows."""
        if self.table is None or name not in self.table.places:
            return {}
        places = {other: np.array(place) for other, place in self.table.places.items()}
        mine = places.pop(name)
        return {other: float(np.linalg.norm(mine - place)) for other, place in places.items()}

    def client(self, name: str) -> Client:
        """Return a client with its model of the last round."""
        if name not in self._clients:
            self._clients[name] = self.opened.client(name)
        return self._clients[name]

    def others(self, client: Client, most: int | None = None) -> list[Client]:
        """Return members beside a client: all, or some that are spread evenly over the list."""
        names = [name for name in self.members if name != client.name]
        if most is not None and len(names) > most:
            places = np.linspace(0, len(names) - 1, most).round().astype(int)
            names = [names[place] for place in places]
        return [self.client(name) for name in names]

    def usual(self, client: Client) -> FloatArray:
        """Return what a client says of anything, ``(outputs,)``.

        Raises:
            RunError: The run did not write it down, and its data is not at hand.
        """
        known = {} if self.table is None else self.table.usual
        if client.name in known and self._is_of_run(client):
            return np.asarray(known[client.name], np.float64)
        answers = as_answers(client.scores_from(self.background), client.facts.info)
        return np.asarray(answers.mean(axis=0))

    def _is_of_run(self, client: Client) -> bool:
        """Whether a client is as the run made it; a newcomer may have joined anew by its name."""
        return client.role == "member" or client is self._clients.get(client.name)

    @cached_property
    def background(self) -> Tensor:
        """Samples of members that stand for anything that may be asked.

        Raises:
            RunError: The data is not at hand.
        """
        members = self.members if self.table is None else self.table.asked
        try:
            return background(self.opened.plan.population, members)[0]
        except DuotoneError as error:
            raise RunError(
                f"{self.opened.path} does not say what this client answers to anything, and its "
                f"data cannot be read to ask it: {error}"
            ) from error

    def own_samples(self, name: str) -> ClientData | None:
        """Return a client's own training samples; ``None`` if they are not at hand."""
        try:
            population = self.opened.plan.population
        except DuotoneError:
            return None
        if name not in population.partition or not population.partition.size(name):
            return None
        return population.data(name)

    @cached_property
    def shared_model(self) -> Client:
        """What the server alone would answer with: the model of a client that gave nothing.

        Raises:
            ConfigError: The method has no such model.
        """
        opened = self.opened
        method = opened.method
        if "zero-shot" not in method.rules(method.config):
            advice = (
                "there is nobody to compare with at this client's own machine."
                if self.is_one_client
                else "compare with all members instead: reference='members'."
            )
            raise ConfigError(
                f"The shared part of {method.name} answers nothing by itself, its rest is local; "
                f"{advice}"
            )
        members = int(opened.run.folder.facts()["members"])
        with opened.run.folder.reading() as last, one_thread():
            serving = serving_after(last, opened.run.config, opened.info, members, "zero-shot")
            params = method.personal(
                serving.server, method.first_state(serving.server, serving.info)
            )
        return opened.made("the shared model", Who("newcomer", "", 0), last.round, params)


@dataclass(frozen=True, slots=True)
class Compared:
    """One client's answer beside those of its witnesses.

    Attributes:
        parts: What the answer is made of.
        answer: The answer, ``(outputs,)``.
        witnesses: Whom it is compared with.
        told: What they say of the sample, ``(witnesses, outputs)``.
        needed: What was needed to say so, one line each.
    """

    parts: Decomposition
    answer: FloatArray
    witnesses: list[Client]
    told: FloatArray
    needed: tuple[str, ...]


def compare(federation: Federation, client: Client, x: Tensor, reference: Reference) -> Compared:
    """Take a client's answer to one sample apart.

    Args:
        federation: The run.
        client: Whose answer it is.
        x: The sample, as a network sees it, ``(1, …)``.
        reference: Whom it is compared with.

    Raises:
        ConfigError: The method has no shared model to compare with.
        RunError: Data is needed and not at hand.
    """
    info = client.facts.info
    answer = as_answers(client.scores_from(x), info)
    if reference == "members":
        witnesses = [
            client if n == client.name else federation.client(n) for n in federation.members
        ]
        usual = federation.usual(client)
        usual_of = np.stack([federation.usual(witness) for witness in witnesses])
        needed = (
            f"the local parts of {len(witnesses)} members",
            "what they say of test samples of all members, as means",
        )
    else:
        witnesses = [federation.shared_model]
        own = federation.own_samples(client.name)
        if own is None:
            raise RunError(
                f"Compared with the shared model, client {client.name!r} needs its own samples, "
                f"and the data of {federation.opened.path} is not at hand."
            )
        seen = own.x[:BACKGROUND]
        usual, only = (
            as_answers(c.scores_from(seen), info).mean(axis=0) for c in (client, witnesses[0])
        )
        usual_of = only[np.newaxis]
        needed = ("the shared model", f"the own part and {len(seen)} own samples of {client.name}")
    told = np.stack([as_answers(witness.scores_from(x), info) for witness in witnesses])
    parts = decomposed(answer, told, np.asarray(usual), usual_of)
    return Compared(parts, answer[0], witnesses, told[:, 0], needed)
