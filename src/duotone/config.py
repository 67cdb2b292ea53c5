"""Settings: one frozen type for the Python API, the TOML file and the command line.

A run is described by a small tree. The top level says what to run; two tables, ``partition`` and
``method``, carry the settings of the chosen partition and method, which check them themselves::

    data = "digits"
    rounds = 30

    [partition]
    scheme = "groups"
    alpha = 0.3

    [method]
    name = "fedavg"
    lr = 0.1

Values come from the defaults, then a file, then ``--set key=value``; the last one wins.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from duotone.errors import ConfigError
from duotone.files import read_regular
from duotone.registry import did_you_mean
from duotone.synonyms import synonym


class Settings(BaseModel):
    """Base of every group of settings: frozen, and a name nobody knows is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


MANY_CLIENTS = 1_000
"""Beyond this, not every client is evaluated, and not every client's model is kept."""


class RunConfig(Settings):
    """What one run does. What is ``None`` is filled in before the run starts."""

    data: str = "digits"
    """A data set's name, a .npz, .csv or .parquet file, or a folder; see how-to.md."""
    style: str = "none"
    """Give each client its own look: none, marks, padpaf4, padpaf8, padpaf-new or padpaf10."""
    model: str | None = None
    """The network; by default cnn-bn for images and mlp for tables (mlp-bn with fedbn)."""
    rounds: int | None = Field(None, ge=1, le=10_000_000)
    """How many rounds; by default the method's own number, as published the printed one."""
    scale: float = Field(1.0, gt=0, le=1)
    """Share of these rounds to make: 0.1 stops after a tenth, and says so everywhere."""
    sampled: int | None = Field(None, ge=1)
    """Members drawn per round; by default 10, or all if there are fewer."""
    seed: int = Field(0, ge=0)
    """The source of every random draw."""
    evaluate_every: int = Field(5, ge=1)
    """Rounds between two evaluations, times `scale`; the last round is always evaluated."""
    evaluate_clients: int = Field(MANY_CLIENTS, ge=1)
    """Evaluate at most this many members and newcomers each, a fixed random choice."""
    labels: int | None = Field(None, ge=1)
    """Training samples per client with a label; by default all. Some methods use the rest too."""
    newcomers: Literal["auto", "zero-shot", "label-free", "few-shot"] = "auto"
    """What newcomers start from; auto is the best the method can use."""
    personalise: Literal["none", "prior", "norm", "context", "auto"] = "none"
    """Adjust models to each client's inputs: class shares, BatchNorm, or what members vote for."""
    shots: int | None = Field(None, ge=1)
    """Training samples a newcomer has, in few-shot with their labels; by default all of them."""
    curve: tuple[Annotated[int, Field(ge=0)], ...] = (0, 1, 5, 20)
    """Numbers of labelled samples at which newcomers are also scored in the end; [] for none."""
    measure: str = "full"
    """What is measured in the end: full, fast, none, or measures by name: probes,swaps."""
    latents: int = Field(200, ge=0, le=1_000_000)
    """Samples per client and split whose representation is saved; 0 saves none."""
    max_norm: float | None = Field(None, gt=0)
    """Refuse updates that moved further than this; by default no bound."""
    max_bytes: int | None = Field(None, ge=1)
    """Refuse what a client sends at once if it is larger than this; by default no bound."""
    set_aside: int | None = Field(None, ge=1)
    """Refusals after which a member is asked no more; by default it always is."""
    quorum: int = Field(1, ge=1)
    """Members whose updates a round needs; with fewer the run stops."""
    level: Literal["scores", "codes", "simulation"] = "simulation"
    """What the server may learn of single clients: scores, codes of samples too, or everything."""
    backend: Literal["auto", "serial", "processes", "batched", "flower", "flower-ray"] = "auto"
    """Where clients are computed; all give the same results, batched to rounding."""
    workers: int | None = Field(None, ge=1, le=1024)
    """Worker processes; by default one per core."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where tensors live; auto takes a GPU if there is one."""
    table: dict[str, Any] | None = None
    """Which columns of a table are label, client and features: settings of their own."""
    attack: dict[str, Any] | None = None
    """What hostile members do, for studies: the attack's name and its settings."""
    system: dict[str, Any] | None = None
    """Stragglers and drop-out, for studies: dropout, speeds, shares, deadline."""
    partition: dict[str, Any] = Field(default_factory=dict)
    """Who holds which samples: the scheme and its settings."""
    method: dict[str, Any] = Field(default_factory=dict)
    """The method's name and its settings."""

    @property
    def rounds_made(self) -> int:
        """How many rounds a resolved run makes: all of them, or its `scale` of them.

        >>> RunConfig(rounds=200, scale=0.1).rounds_made
        20
        """
        assert self.rounds is not None
        return max(1, round(self.rounds * self.scale))

    @property
    def rounds_between(self) -> int:
        """Rounds between two evaluations: a shortened run is evaluated as often as a whole one."""
        return max(1, round(self.evaluate_every * self.scale))


NAME_OF_TABLE = {"method": "name", "partition": "scheme"}
"""What names the choice in each table: ``method = "fedavg"`` is short for its ``name``."""

_MOST_BYTES = 2**20
_DEEPEST = 16
"""Settings lie in tables in tables, never as deep as this."""

AnySettings = TypeVar("AnySettings", bound=Settings)


def validated(
    settings_type: type[AnySettings], values: Mapping[str, Any], *, owner: str, prefix: str = ""
) -> AnySettings:
    """Check some settings and fill in the defaults.

    Args:
        settings_type: The settings type.
        values: What was given.
        owner: Whose settings these are, for messages: "the partition 'groups'".
        prefix: What stands before a name in the file: "partition.".

    Raises:
        ConfigError: Settings are wrong; the message has all of them.
    """
    settings, problems = sifted(settings_type, values, owner=owner, prefix=prefix)
    if settings is None or problems:
        raise ConfigError(*problems.values())
    return settings


def sifted(
    settings_type: type[AnySettings], values: Mapping[str, Any], *, owner: str, prefix: str = ""
) -> tuple[AnySettings | None, dict[str, str]]:
    """Check some settings; return those that are right, and the problems of the others by name.

    Wrong ones are at their defaults in what is returned, so that the rest can be checked further:
    how settings agree with each other, and with the data. It is ``None`` if there is no such rest.

    Args:
        settings_type: The settings type.
        values: What was given.
        owner: Whose settings these are, for messages.
        prefix: What stands before a name in the file.
    """
    left, problems = dict(values), dict[str, str]()
    while True:
        try:
            return settings_type.model_validate(left), problems
        except ValidationError as error:
            found = _problems(settings_type, error, owner, prefix)
        wrong = {name for name in found if name in left}
        # A check of several settings says nothing if one of them was not taken as given.
        problems |= {
            name: line
            for name, line in found.items()
            # What was wrong and is needed is not missing as well.
            if name not in problems
            and (name or not any(f"{prefix}{known}" in line for known in problems))
        }
        if not wrong:
            return None, problems
        left = {name: value for name, value in left.items() if name not in wrong}


def _problems(
    settings_type: type[Settings], error: ValidationError, owner: str, prefix: str
) -> dict[str, str]:
    problems: dict[str, str] = {}
    for detail in error.errors():
        name = str(detail["loc"][0]) if detail["loc"] else ""
        message = _plain(detail["type"], prefix + name) or detail["msg"]
        message = message.removeprefix("Value error, ").removeprefix("Input ")
        if not name:
            problems[name] = message
        elif detail["type"] == "extra_forbidden":
            known = list(settings_type.model_fields)
            own = synonym(name, (*known, *RunConfig.model_fields))
            hint = f" Did you mean {own!r}?" if own else did_you_mean(name, known)
            hint = hint or f" It has: {', '.join(known)}."
            problems[name] = f"{_capital(owner)} has no setting {prefix}{name}.{hint}"
        elif detail["type"] == "missing":
            meaning = settings_type.model_fields[name].description
            problems[name] = f"{_capital(owner)} needs {prefix}{name}: {meaning}"
        elif name in problems:  # one more of the forms that this setting may have
            problems[name] = problems[name].removesuffix(".") + f", or {message}."
        else:
            problems[name] = f"{prefix}{name} = {detail['input']!r} is wrong: it {message}."
    return problems


def _plain(kind: str, name: str) -> str:
    """Say what a setting should be where pydantic says it in Python's words; else nothing."""
    if kind == "dict_type":
        return f"has settings of its own; give {name}.KEY = VALUE"
    if kind in ("tuple_type", "list_type"):
        return "should be a list, such as [1, 5]"
    return "should have at least one entry" if kind == "too_short" else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def read_toml(path: Path) -> dict[str, Any]:
    """Read a configuration file.

    Raises:
        ConfigError: It is missing, not TOML, or no file that a person would write.
    """
    try:
        content = read_regular(path.resolve(), most=_MOST_BYTES)
        return parse_toml(content.decode("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"There is no configuration file {path}.") from None
    except IsADirectoryError:
        raise ConfigError(f"{path} is a folder, not a configuration file.") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"The configuration file {path} cannot be read: {error}.") from error


def parse_toml(text: str) -> dict[str, Any]:
    """Return the settings in a text.

    Raises:
        ValueError: It is not TOML, or tables lie in tables deeper than settings do.
    """
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
    level: list[Any] = [values]
    for _ in range(_DEEPEST):
        level = [inner for value in level if isinstance(value, dict | list) for inner in _in(value)]
    if level:
        raise ValueError("its values are nested too deeply")
    return values


def _in(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def write_toml(values: Mapping[str, Any]) -> str:
    """Return settings as TOML; what is ``None`` is left out."""
    return tomli_w.dumps(_without_none(values))


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes`` on top, table by table.

    >>> merged({"a": 1, "t": {"b": 2}}, {"t": {"c": 3}})
    {'a': 1, 't': {'b': 2, 'c': 3}}
    """
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        both_tables = isinstance(old, Mapping) and isinstance(value, Mapping)
        result[key] = merged(old, value) if both_tables else value  # type: ignore[arg-type]
    return result


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings by their dotted names; what is ``None`` is left out."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        elif value is not None:
            yield prefix + key, value


def parse_assignment(text: str) -> dict[str, Any]:
    """Turn ``key=value`` from the command line into a nested mapping.

    The value is read as TOML, and as plain text where it is not TOML. A key without a dot that is
    not a setting of the run belongs to the method, so ``lr=0.05`` means ``method.lr=0.05``.

    >>> parse_assignment("partition.alpha=0.1")
    {'partition': {'alpha': 0.1}}
    >>> parse_assignment("lr=0.05")
    {'method': {'lr': 0.05}}
    >>> parse_assignment("model=mlp")
    {'model': 'mlp'}

    Raises:
        ConfigError: There is no equals sign.
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError(f"--set takes key=value, such as --set lr=0.05. Got {text!r}.")
    try:
        parsed: Any = parse_toml(f"value = {value}")["value"]
    except ValueError:
        parsed = value
    if key.count(".") >= _DEEPEST:
        raise ConfigError(f"--set knows no setting as deep as {key[:40]!r}….")
    return placed(key, parsed)


def placed(key: str, value: Any) -> dict[str, Any]:
    """Return the nested mapping in which a setting has a value.

    A key without a dot that is not a setting of the run belongs to the method.

    >>> placed("lr", 0.05)
    {'method': {'lr': 0.05}}
    """
    path = key.split(".")
    if key in NAME_OF_TABLE and isinstance(value, str):
        path = [key, NAME_OF_TABLE[key]]
    elif len(path) == 1 and key not in RunConfig.model_fields:
        path = ["method", key]
    for part in reversed(path):
        value = {part: value}
    result: dict[str, Any] = value
    return result
