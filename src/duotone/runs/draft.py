"""The first half of a plan: who the clients are, from data, partition and style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from duotone.config import NAME_OF_TABLE, RunConfig, sifted
from duotone.data import dataset_from_object, load_dataset, table_settings
from duotone.data.dataset import Dataset
from duotone.data.styles import checked_style_set
from duotone.errors import ConfigError, Problems
from duotone.partition import (
    PartitionSettings,
    Population,
    build_population,
    resolve_settings,
)

Data: TypeAlias = Any
"""What :func:`duotone.data.objects.dataset_from_object` takes: arrays, frames, data sets."""
DEFAULT_SCHEME = "groups"
OBJECT = "object:"
"""What stands before the name of something made in Python that no file can give again."""


def plan_population(values: Mapping[str, Any], problems: Problems | None = None) -> Population:
    """Build just the clients of a configuration: data, partition and style.

    Raises:
        ConfigError: Something is wrong; the message has all problems.
        DataError: The data cannot be read, and nothing else is wrong.
    """
    problems = problems or Problems()
    population = Draft(with_tables(values), None, problems).population(problems)
    problems.report()
    assert population is not None
    return population


class Draft:
    """The part of a configuration that says who the clients are, as far as it is right.

    Args:
        values: The configuration; the name of the partition is taken out of its table.
        data: A data set made in Python, instead of the one that is named.
        problems: Told what is wrong.
        population: The clients, if they are known already.
    """

    def __init__(
        self,
        values: dict[str, Any],
        data: Data | None,
        problems: Problems,
        population: Population | None = None,
    ) -> None:
        self.known = population
        top = {key: value for key, value in values.items() if key not in NAME_OF_TABLE}
        base, wrong = sifted(RunConfig, top, owner="a run")
        problems.add(wrong.values())
        assert base is not None  # nothing in it must be given
        self.base = base
        names_clients = bool(base.table and "client" in base.table)
        default = "natural" if names_clients else DEFAULT_SCHEME
        self.scheme = str(values["partition"].pop("scheme", default))
        self.holding: PartitionSettings | None = problems.checked(
            lambda: resolve_settings(self.scheme, values["partition"])
        )
        self.dataset: Any = None
        if population is not None:
            self.dataset = population.dataset
        elif data is not None:
            self.dataset = problems.checked(
                lambda: dataset_from_object(data, table_settings(base.table))
            )
        elif "data" not in wrong:
            self.dataset = problems.checked(lambda: _named_dataset(base.data, base.table))
        self.style_set: str | None = problems.checked(
            lambda: checked_style_set(base.style, self.dataset)
        )

    def population(self, problems: Problems) -> Population | None:
        """Deal the samples out to clients; ``None`` if that cannot be done.

        With a wrong style set they have no style, so that everything else can be checked.
        """
        base, holding, dataset = self.base, self.holding, self.dataset
        if dataset is None or holding is None:
            return None
        style_set = self.style_set or "none"
        population: Population | None = self.known or problems.checked(
            lambda: build_population(dataset, self.scheme, holding, style_set, seed=base.seed)
        )
        if population is not None:
            members = len(population.partition.members)
            problems.checked(lambda: _check_sampled(base.sampled, members))
            problems.checked(lambda: _check_quorum(base.quorum, base.sampled or min(10, members)))
        return population


def with_tables(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which ``method`` and ``partition`` are tables, where names were given."""
    result = dict(values)
    for key, name in NAME_OF_TABLE.items():
        value = result.get(key, {})
        result[key] = dict(value) if isinstance(value, Mapping) else {name: value}
    return result


def check_not_object(what: str, name: object) -> None:
    """Refuse a name that stands for something made in Python.

    Raises:
        ConfigError: It does.
    """
    if isinstance(name, str) and name.startswith(OBJECT):
        raise ConfigError(
            f"{what} = {name!r} was made in Python, which a file cannot do again; give it: "
            f"duotone.run(…, {what}=…)"
        )


def _named_dataset(name: str, table: Mapping[str, Any] | None) -> Dataset:
    check_not_object("data", name)
    return load_dataset(name, table=table)


def _check_quorum(quorum: int, drawn: int) -> None:
    if quorum > drawn:
        raise ConfigError(f"quorum = {quorum} is wrong: only {drawn} members are drawn per round.")


def _check_sampled(sampled: int | None, members: int) -> None:
    if sampled is not None and sampled > members:
        raise ConfigError(
            f"{sampled} clients per round were asked for, but there are only {members} members; "
            "lower --sampled."
        )
