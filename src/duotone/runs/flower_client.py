"""A client of a Flower federation: what a hospital's node answers.

The node's own settings say whose data it holds and where: ``client``, ``data``, ``states`` and
``level`` (what it lets the server learn). :mod:`duotone.runs.flower_worker` keeps everything loaded
between messages; without it everything is read anew for each. Only the states last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duotone.config import RunConfig
from duotone.data import load_dataset
from duotone.data.dataset import Dataset
from duotone.errors import ClientError, ConfigError
from duotone.federation.backends import Home
from duotone.federation.backends.codec import also_in
from duotone.federation.backends.flower import answered
from duotone.federation.backends.node import Node
from duotone.federation.backends.node_store import NodeStore
from duotone.federation.levels import LEVELS, Level
from duotone.messenger import Answer, Arrays, Facts
from duotone.methods import METHODS
from duotone.networks import default_model
from duotone.registry import check_file
from duotone.runs.flower_jobs import RunWords
from duotone.runs.last_round import method_again
from duotone.runs.own_part import population_at_node
from duotone.types import Role

# Where jobs are, those of every round first: a node's process lives for one message, and loading
# all measures would take longer than most answers.
also_in(
    "duotone.runs.flower_jobs",
    "duotone.federation.election",
    "duotone.measures.evaluation",
    "duotone.measures.asked",
    "duotone.measures.calibration",
    "duotone.measures.codes",
    "duotone.measures.decoding",
    "duotone.measures.drawing",
    "duotone.measures.mixtures",
    "duotone.measures.refusals",
    "duotone.measures.stylists",
)
_RUN_NAME = re.compile(r"[0-9a-f]{8,64}")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What a node says of itself; the server has no part in it.

    Attributes:
        client: Whose data it holds.
        data: A file, folder or name, as for ``duotone run --data``.
        states: The folder for the client's states.
        level: What it lets a server learn.
    """

    client: str
    data: str
    states: Path
    level: Level = "scores"

    def text(self, worker: Path) -> str:
        """Return the settings as Flower takes them, with the socket of the client's worker."""
        given = {"client": self.client, "data": self.data, "states": str(self.states)}
        given |= {"level": self.level, "worker": str(worker)}
        return " ".join(f"{name}={json.dumps(value)}" for name, value in given.items())

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> NodeSettings:
        """Return the settings that Flower was started with.

        Raises:
            ConfigError: One is missing or wrong.
        """
        missing = [name for name in ("client", "data", "states") if not given.get(name)]
        if missing:
            raise ConfigError(f"The node was started without {', '.join(missing)}.")
        level = given.get("level", "scores")
        if level not in LEVELS:
            raise ConfigError(f"level = {level!r} is wrong; it is one of {', '.join(LEVELS)}.")
        return cls(str(given["client"]), str(given["data"]), Path(str(given["states"])), level)


def answer(given: Mapping[str, Any], facts: Facts, arrays: Arrays) -> Answer:
    """Return the reply to one message, in a process that has nothing loaded yet.

    Args:
        given: The settings that Flower was started with.
        facts: The message.
        arrays: Its arrays.
    """
    settings = NodeSettings.read(given)
    return answered(lambda run: make_node(settings, RunWords.read(run)), facts, arrays)


def make_node(settings: NodeSettings, words: RunWords, dataset: Dataset | None = None) -> Node:
    """Return a node for a run.

    Args:
        settings: What the node says of itself.
        words: What the server says of the run.
        dataset: The client's samples, if they are loaded already.

    Raises:
        ClientError: The run's name is not one.
        DuotoneError: Data, method or model cannot be had.
    """
    if not _RUN_NAME.fullmatch(words.run):  # it becomes the name of a folder
        raise ClientError(f"the run is called {words.run!r}")
    name = words.method["name"]
    if name not in METHODS:  # anything else would be code that the server chose
        raise ClientError(f"this node knows no method {name!r}")
    check_file({"model": words.model})
    role: Role = "newcomer" if settings.client in words.newcomers else "member"
    dataset = dataset or load_dataset(settings.data)
    if dataset.columns is not None:
        raise ClientError("its data is a table with columns, which needs all clients' statistics")
    config = RunConfig(
        seed=words.seed,
        labels=words.labels,
        method=dict(words.method),
        partition=dict(words.partition),
    )
    population = population_at_node(dataset, settings.client, role, config, words.data)
    model = words.model or default_model(population.info, METHODS.load(name).table_model)
    method = method_again(words.method, model, population.info)
    home = Home(settings.states / words.run, settings.data)
    return Node(method, population, NodeStore(home.folder), settings.level, home)
