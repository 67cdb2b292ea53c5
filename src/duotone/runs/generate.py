"""Draw new samples with a client's model of a finished run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from duotone.data.dataset import Array
from duotone.errors import ConfigError, RunError, UnknownNameError
from duotone.federation.backends import ClientTask
from duotone.federation.method import Method
from duotone.federation.protocols import Generates
from duotone.measures.drawing import asks_labels, generated, known_labels, own_labels
from duotone.measures.sheet import pixels
from duotone.methods import METHODS
from duotone.partition.partition import Population
from duotone.registry import did_you_mean
from duotone.runs import Run, RunFolder, given_again, load_run, plan_run
from duotone.runs.draft import Data
from duotone.runs.last_round import last_serving
from duotone.runs.plan import Model, Plan
from duotone.seeding import derive


@dataclass(frozen=True, slots=True)
class Samples:
    """What a client's model generated.

    Attributes:
        client: Whose model it was.
        x: Images as uint8 ``(samples, height, width, channels)``, or features as float32.
        label: The label asked for.
        is_seen: Whether the client has training samples of that label; ``None`` without a label.
    """

    client: str
    x: Array
    label: int | None
    is_seen: bool | None


def generate(
    run: Run | str | Path,
    client: str,
    *,
    label: int | None = None,
    count: int = 20,
    seed: int = 0,
    method: type[Method] | None = None,
    data: Data | None = None,
    model: Model | None = None,
) -> Samples:
    """Draw samples with the model that a client uses at the end of a run.

    Equal seeds are equal draws at every client, so that what clients make of them can be compared.

    Args:
        run: A finished run of a method that draws samples, or its folder.
        client: A member or a newcomer.
        label: A class, which the client need not have; only for methods that can be told. By
            default these are told labels as often as the client has them.
        count: How many samples.
        seed: Of the draws.
        method: The method again, if it was made in Python.
        data: The data again, likewise.
        model: The model again, likewise.

    Raises:
        RunError: The run is not finished.
        UnknownNameError: It has no such client.
        ConfigError: Its method draws no samples, or none of this label.
    """
    if count < 1:
        raise ConfigError(f"{count} samples were asked for; ask for at least one.")
    path, plan = open_finished(run, method=method, data=data, model=model, again="generate")
    used, population = plan.method, plan.population
    if not isinstance(used, Generates):
        raise ConfigError(
            f"The method {used.name!r} of {path} cannot draw samples; those that can: "
            f"{', '.join(_drawing())}."
        )
    check_client(path, population, client)
    if label is not None:
        _check_label(used, population, label)
    with RunFolder(path).reading() as last:
        task = ClientTask(client, last.get(client))
        network = last_serving(plan, last).model(used, population, task)
    generator = torch.Generator().manual_seed(derive(seed, "generate", "asked"))
    draws = used.draw(network, count, generator)
    asked = None
    if label is not None:
        asked = torch.full((count,), label)
    elif asks_labels(used, population):
        asked = own_labels(population, client, count, seed)
    made = generated(used, network, draws, asked)
    return Samples(
        client,
        pixels(made) if population.info.is_image else made.numpy(),
        label,
        None if label is None else label in known_labels(population, client),
    )


def open_finished(
    run: Run | str | Path,
    *,
    method: type[Method] | None,
    data: Data | None,
    model: Model | None,
    again: str,
) -> tuple[Path, Plan]:
    """Return where a finished run is, and its plan.

    Args:
        run: The run or its folder.
        method: The method again, if it was made in Python.
        data: The data again, likewise.
        model: The model again, likewise.
        again: The function of :mod:`duotone` that was called.

    Raises:
        RunError: The run is not finished, or an object is missing.
    """
    source = finished(run)
    values = given_again(source.folder, method=method, data=data, model=model, again=again)
    return source.path, plan_run(values, data=data, model=model)


def finished(run: Run | str | Path) -> Run:
    """Return a run that is finished.

    Raises:
        RunError: It is not.
    """
    source = run if isinstance(run, Run) else load_run(run)
    if source.status != "finished":
        raise RunError(
            f"{source.path} is {source.status}; finish it first: duotone resume {source.path}"
        )
    return source


def check_client(path: Path, population: Population, client: str) -> None:
    """Make sure that a run has a client.

    Raises:
        UnknownNameError: It has not.
    """
    clients = list(population.partition)
    if client not in clients:
        raise UnknownNameError(
            f"{path} has no client {client!r}.{did_you_mean(client, clients)} The first of "
            f"{len(clients)} are: {', '.join(clients[:5])}."
        )


def _check_label(method: Method, population: Population, label: int) -> None:
    assert isinstance(method, Generates)
    classes = population.info.outputs
    if not asks_labels(method, population):
        raise ConfigError(
            f"Label {label} was asked for, but this model of {method.name!r} cannot be told one; "
            "leave the label out, or train one that is conditional."
        )
    if not 0 <= label < classes:
        raise ConfigError(f"There is no label {label}; the labels are 0 to {classes - 1}.")


def _drawing() -> list[str]:
    return [name for name in METHODS if hasattr(METHODS.load(name), "draw")]


def contact_sheet(images: Array) -> Array:
    """Lay images out in rows of at most ten; what is left of the last row is white."""
    columns = min(10, len(images))
    rows = -(-len(images) // columns)
    page = np.full((rows * columns, *images.shape[1:]), 255, np.uint8)
    page[: len(images)] = images
    return page.reshape(rows, columns, *images.shape[1:])
