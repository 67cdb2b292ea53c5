"""From settings to a run that can start: check everything, then build it.

All problems with settings are collected and reported together, before anything is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeAlias

import torch
from torch import nn

from duotone.config import RunConfig, merged, sifted
from duotone.data import lasting_name
from duotone.errors import ConfigError, DuotoneError, MissingExtraError, Problems, own_frame
from duotone.federation.attacks import Attack, attack_of
from duotone.federation.method import Method
from duotone.federation.personalise import Way, Wish, rules_with, ways
from duotone.federation.robust import shortage
from duotone.federation.settings import MethodSettings
from duotone.federation.system import System, system_of
from duotone.measures import chosen_measures
from duotone.methods import METHODS
from duotone.methods.printed import printed_settings
from duotone.networks import MODELS, default_model
from duotone.networks.reading import as_network, check_head, find_head
from duotone.partition import Population
from duotone.registry import import_object
from duotone.runs.draft import OBJECT, Data, Draft, check_not_object, with_tables
from duotone.runs.parts import part_sizes
from duotone.types import DataInfo, NewcomerRule

Model: TypeAlias = nn.Module | Callable[..., nn.Module]


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that can start.

    Attributes:
        config: The resolved configuration: nothing is left to a default.
        method: The method, ready to train.
        population: Every client's samples.
        rule: What newcomers start from.
        ways: How models may be adjusted to a client's inputs.
        attack: Which members are hostile, and what they do; ``None`` if all are honest.
        system: Which members are slow or drop out; ``None`` if none are.
    """

    config: RunConfig
    method: Method
    population: Population
    rule: NewcomerRule
    ways: tuple[Way, ...]
    attack: Attack | None = None
    system: System | None = None

    @property
    def is_watched(self) -> bool:
        """Whether updates are compared with each other: where anything guards against them."""
        is_robust = self.method.config.aggregate != "mean"
        return any((self.attack, self.config.max_norm, self.config.set_aside, is_robust))


def plan_run(
    values: Mapping[str, Any],
    *,
    data: Data | None = None,
    model: Model | None = None,
    problems: Problems | None = None,
    population: Population | None = None,
) -> Plan:
    """Check a configuration as a whole and build what it describes.

    Args:
        values: The configuration as nested tables.
        data: A data set made in Python, instead of the one the configuration names.
        model: A model made in Python, likewise.
        problems: What is already known to be wrong, to be reported with the rest.
        population: The clients, where they are known already and not made from data.

    Raises:
        ConfigError: Something is wrong; the message has all problems, with the settings and with
            what they ask of this data.
        DataError: The data cannot be read, and nothing else is wrong.
    """
    problems = problems or Problems()
    values = with_tables(values)
    values = merged(printed_settings(values), values)
    draft = Draft(values, data, problems, population)
    base = draft.base
    given = values["method"].pop("name", None)
    method_class, settings = _method_and_settings(given, values["method"], problems)
    device = problems.checked(lambda: _device(base.device))
    problems.checked(lambda: _check_backend(base.backend, device))
    problems.checked(lambda: chosen_measures(base.measure))
    model, is_usable = _given_model(method_class, model, base.model, problems)
    if settings is not None and base.newcomers != "auto":
        problems.checked(
            partial(_check_rule, method_class, settings, base.newcomers, base.personalise)
        )
    is_made_here = data is None and population is None
    population = draft.population(problems)
    method: Any = None
    chosen: Any = None
    attack: Attack | None = None
    system: System | None = None
    if population is not None:
        members = population.partition.members
        attack = problems.checked(lambda: attack_of(base.attack, members, base.seed))
        system = problems.checked(partial(system_of, base.system, population, base.seed))
        drawn = base.sampled or min(10, len(members))
        problems.checked(partial(_check_aggregate, settings, drawn))
    if population is not None and settings is not None and is_usable:
        population.labelled, population.keeps_unlabelled = base.labels, method_class.uses_unlabelled
        used, name = _model_and_name(method_class, model, base.model, population.info)
        base = base.model_copy(update={"model": name})
        method = method_class(settings, as_network(used), device or "cpu")
        chosen = problems.checked(lambda: _tried(base.personalise, method, population))
    problems.report()
    assert settings is not None
    assert population is not None
    assert draft.holding is not None
    config = base.model_copy(
        update={
            "data": lasting_name(base.data) if is_made_here else f"{OBJECT}{draft.dataset.name}",
            "rounds": base.rounds or method_class.rounds,
            "sampled": base.sampled or min(10, len(population.partition.members)),
            "method": {"name": _method_name(given), **settings.model_dump()},
            "partition": {"scheme": draft.scheme, **draft.holding.model_dump()},
        }
    )
    rules = rules_with(base.personalise, method_class.rules(settings))
    rule = rules[0] if base.newcomers == "auto" else base.newcomers
    return Plan(config, method, population, rule, chosen, attack, system)


def _method_and_settings(
    given: Any, table: Mapping[str, Any], problems: Problems
) -> tuple[Any, MethodSettings | None]:
    """Return the class of a method and its settings; ``None`` in place of what is wrong."""
    method_class = problems.checked(lambda: _method(given))
    if method_class is None:
        return None, None
    owner = f"the method {method_class.name!r}"
    settings, wrong = sifted(method_class.Config, table, owner=owner, prefix="method.")
    problems.add(wrong.values())
    return method_class, settings


def _given_model(
    method_class: type[Method] | None, given: Model | None, name: str | None, problems: Problems
) -> tuple[Model | None, bool]:
    """Return the model that was given or named, if any, and whether the run can use it."""
    if method_class is not None and method_class.own_model is not None:
        own = method_class.own_model
        problems.checked(lambda: _check_own(own, name if given is None else given))
    elif given is None and name is not None:
        model = problems.checked(lambda: _model(name))
        return model, model is not None
    return given, True


def _model_and_name(
    method_class: type[Method], model: Model | None, name: str | None, info: DataInfo
) -> tuple[Model, str]:
    """Return the model a run uses, and what its configuration file calls it."""
    if model is not None:
        return model, name or model_name(model)
    default = default_model(info, method_class.table_model)
    return MODELS.load(default), method_class.own_model or default


def _method(given: type[Method] | str | None) -> type[Method]:
    if given is None or isinstance(given, Mapping):
        raise ConfigError("No method was named. List them with: duotone methods")
    check_not_object("method", given)
    method_class = METHODS.load(given) if isinstance(given, str) else given
    if not (isinstance(method_class, type) and issubclass(method_class, Method)):
        raise ConfigError(
            f"{given!r} is not a method: give a name or a subclass of duotone.Method."
        )
    if not hasattr(method_class, "name"):
        raise ConfigError(
            f"The method {method_class.__qualname__} has no name; give it one: name = '…'."
        )
    return method_class


def _model(name: str) -> Model:
    check_not_object("model", name)
    model: Model = MODELS.load(name)
    return model


def _tried(wish: Wish, method: Method, population: Population) -> tuple[Way, ...]:
    """Try the model, and then what may be adjusted in it."""
    _check_model(method, population.info)
    return _ways(wish, method, population)


def _ways(wish: Wish, method: Method, population: Population) -> tuple[Way, ...]:
    info = population.info
    if wish == "none":
        return ("none",)
    if info.task != "classes":
        raise ConfigError(
            f"personalise={wish} is for classes, and these data have numbers as targets."
        )
    can = ways(wish, method, info)
    if len(can) == 1:
        raise ConfigError(
            f"personalise={wish} has nothing to change: prior needs a last layer with a bias, norm "
            "needs BatchNorm, context a method that finds concepts, such as fedvc."
        )
    if not any(len(population.partition[client].val) for client in population.partition.members):
        raise ConfigError(
            f"personalise={wish} is voted on with validation samples, and no member has any; set "
            "partition.validation above 0."
        )
    return can


def _check_rule(
    method_class: type[Method], settings: MethodSettings, rule: NewcomerRule, wish: Wish
) -> None:
    rules = rules_with(wish, method_class.rules(settings))
    if rule not in rules:
        can = " or ".join(rules)
        raise ConfigError(
            f"The method {method_class.name!r} cannot serve newcomers {rule}; it can do {can}. "
            "Set newcomers accordingly, or leave it at auto."
        )


def _check_aggregate(settings: MethodSettings | None, drawn: int) -> None:
    if settings and (short := shortage(settings.aggregate, drawn, settings.hostile)):
        raise ConfigError(f"{short}; draw more with --sampled, or lower hostile.")


def _check_own(own: str, asked: Model | str | None) -> None:
    if asked not in (None, own):
        raise ConfigError(f"This method brings its own network, {own!r}; leave the model out.")


def _check_model(method: Method, info: DataInfo) -> None:
    """Try the model on two samples, so that a wrong one fails now and not after training."""
    x = info.blank(2)
    doing = "be made"
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        try:
            model = method.build(info).eval()
            doing = f"process samples of shape {info.shape}"
            found = tuple(method.predict(model, x).shape)
            if found != (2, info.outputs):
                raise ConfigError(
                    f"The model gives outputs of shape {found} for two samples; this data needs "
                    f"{(2, info.outputs)}: one score per class."
                )
            doing = "be read for representations"
            method.encode(model, x)
            if method.config.head is not None:
                network = method.network(info).eval()
                check_head(network, find_head(network, method.config.head), x)
        except DuotoneError:
            raise
        except Exception as error:
            own = own_frame(error)
            place = f" (in your own code, {own})" if own else ""
            text = " These samples are text: --set model=char-gru" if info.is_text else ""
            raise ConfigError(
                f"The model cannot {doing}: {type(error).__name__}: {error}{place}{text}"
            ) from error


def model_name(model: Model) -> str:
    """Return what a configuration file calls a model that was given in Python.

    A class or function that can be imported is written as ``"module:Name"``, so that the file
    repeats the run; anything else can only be named.
    """
    return f"{OBJECT}{type(model).__qualname__}" if isinstance(model, nn.Module) else _path(model)


def _method_name(method: type[Method] | str) -> str:
    """Return what a configuration file calls a method: its known name, or as for a model."""
    if isinstance(method, str):
        return method
    is_known = method.name in METHODS and METHODS.load(method.name) is method
    return method.name if is_known else _path(method)


def _path(thing: Callable[..., Any]) -> str:
    module = getattr(thing, "__module__", "object")
    name = f"{module}:{getattr(thing, '__qualname__', repr(thing))}"
    try:
        is_importable = import_object(name) is thing
    except (ImportError, AttributeError, ValueError):
        is_importable = False
    return name if is_importable and module != "__main__" else OBJECT + name.partition(":")[2]


def _check_backend(wanted: str, device: str | None) -> None:
    needed = {"flower": ("flwr",), "flower-ray": ("flwr", "ray")}.get(wanted, ())
    if any(find_spec(package) is None for package in needed):
        what = "Flower" if wanted == "flower" else "Flower with Ray"
        raise MissingExtraError(
            f"backend = {wanted!r} needs {what}, which is not installed; install it: pip install "
            f"'duotone[{wanted}]'"
        )
    if wanted == "flower-ray" and device == "cuda":
        raise ConfigError("backend = 'flower-ray' computes without GPUs; set device = 'cpu'.")


def _device(wanted: str) -> str:
    available = torch.cuda.is_available()
    if wanted == "cuda" and not available:
        raise ConfigError("device = 'cuda' was asked for, but torch sees no GPU; use cpu or auto.")
    return "cuda" if wanted in ("auto", "cuda") and available else "cpu"


def facts_of(plan: Plan) -> dict[str, Any]:
    """Return what identifies the data and the partition of a run, and what the data is called."""
    dataset = plan.population.dataset
    preparation = dataset.preparation
    return {
        "data_fingerprint": dataset.fingerprint(),
        "class_names": None if dataset.class_names is None else list(dataset.class_names),
        "preparation": None if preparation is None else preparation.as_json(),
        "partition_fingerprint": plan.population.partition.fingerprint(),
        "members": len(plan.population.partition.members),
        "newcomers": len(plan.population.partition.newcomers),
        "newcomer_rule": plan.rule,
        "parts": {
            part: {"parameters": size.parameters, "buffers": size.buffers, "bytes": size.bytes}
            for part, size in part_sizes(plan.method, plan.population.info).items()
        },
    }
