"""Read a finished run: where in a hidden layer of its model clients differ."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from duotone.errors import RunError
from duotone.federation.answers import AnswerLog
from duotone.federation.backends.choice import make_backend
from duotone.federation.engine import MemoryStates, before_first_round, collect
from duotone.federation.method import Method
from duotone.methods import METHODS
from duotone.methods.concepts.aligned_layer import plain
from duotone.methods.concepts.fedcd import FedCD
from duotone.methods.concepts.fedcd_settings import FedCDConfig
from duotone.runs import Plan, Run, RunObserver, given_again, plan_run, prepare
from duotone.runs.draft import Data
from duotone.runs.execute import execute
from duotone.runs.generate import finished
from duotone.runs.plan import Model
from duotone.types import Params, ServerState


def align(
    run: Run | str | Path,
    *,
    layer: str | None = None,
    rank: int | None = None,
    out: str | Path | None = None,
    method: type[Method] | None = None,
    data: Data | None = None,
    model: Model | None = None,
    observers: Sequence[RunObserver] = (),
) -> Run:
    """Split a hidden layer of a trained model by what tells clients apart.

    The model stays as it is. With an orthonormal P, training by FedCD is training by FedAvg, so the
    reading of a FedAvg run is a FedCD run, and that is what is written: with codes, scores and a
    report like any other. If nothing that tells clients apart is found, a message says so, and the
    local code has no dimension.

    Args:
        run: A finished run of a method whose clients share the whole model, or its folder.
        layer: The hidden layer; by default the first linear one that is not the last.
        rank: Dimensions of the local code; by default those that stand out, none if chance explains
            them.
        out: The folder to make; by default that of the run with ``-aligned`` behind its name.
        method: The method again, if it was made in Python.
        data: The data again, likewise.
        model: The model again, likewise.
        observers: Told what happens.

    Raises:
        RunError: The run is not finished, or its clients have parts of the model of their own.
        ConfigError: The model has no such layer.
    """
    source = finished(run)
    values = given_again(source.folder, method=method, data=data, model=model, again="align")
    trained_as = method or METHODS.load(values["method"]["name"])
    settings = _settings_of_fedcd(source, trained_as, values["method"])
    values["method"] = {**settings, "layer": layer, "rank": rank}
    plan = plan_run(values, data=data, model=model)
    with source.folder.reading() as last:
        given, round, notes = plain(last.server().shared), last.round, last.notes
    server = _aligned(source, trained_as, plan, given, round)
    place = Path(out) if out else source.path.with_name(f"{source.path.name}-aligned")
    folder = prepare(plan, place)
    folder.update_facts(aligned_from=str(source.path))
    with folder.locked(), folder.writing() as store:
        shutil.copyfile(source.path / "metrics.csv", folder.path / "metrics.csv")
        store.commit(round, server, {**notes, "config": store.last.notes["config"]})
    execute(folder, plan, observers)
    return Run(folder.path)


def _settings_of_fedcd(
    source: Run, trained_as: type[Method], trained: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings with which FedCD reads a model that was trained by another method.

    Raises:
        RunError: Clients change the model before they use it.
    """
    own = {key: value for key, value in trained.items() if key != "name"}
    if trained_as.rules(trained_as.Config(**own)) != ("zero-shot",):
        raise RunError(
            f"{source.path}: clients of {trained_as.name!r} change the model before they use it; "
            "align reads models that all clients share. Train fedavg instead."
        )
    kept = {key: value for key, value in own.items() if key in FedCDConfig.model_fields}
    return {**kept, "variant": "duotone", "complement": "oblique", "name": FedCD.name}


def _aligned(
    source: Run, trained_as: type[Method], plan: Plan, given: Params, round: int
) -> ServerState:
    """Return the server of FedCD around a trained model, with what it collects from members.

    Raises:
        RunError: Clients have parts of the model of their own.
    """
    config, population, fedcd = plan.config, plan.population, plan.method
    assert isinstance(fedcd, FedCD)
    before = before_first_round(
        population, rounds=config.rounds_made, sampled=config.sampled, seed=config.seed
    )
    started = fedcd.start(before).shared
    if given.keys() != plain(started).keys():
        raise RunError(
            f"{source.path}: clients of {trained_as.name!r} have parts of the model of their own; "
            "align reads models that all clients share."
        )
    server = ServerState({**started, **given})
    info = replace(before, round=round)
    log = AnswerLog()
    with make_backend(fedcd, population, config, warnings.warn) as backend:
        told = collect(fedcd, server, population, info, MemoryStates(), backend, log)
    for client, reason in log.refused.items():
        warnings.warn(f"Client {client!r} was left out: {reason}.", stacklevel=3)
    return fedcd.pool(server, told, info)
