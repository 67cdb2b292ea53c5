"""Draw one client's samples as another would have them, and say what that gives away."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from duotone.data.dataset import Array
from duotone.errors import ConfigError
from duotone.federation.backends import ClientTask
from duotone.federation.backends.serial import Serial
from duotone.federation.method import Method
from duotone.measures.attackers import SHOWN
from duotone.measures.decoding import choose_holders
from duotone.measures.exposure import Exposure, exposure
from duotone.measures.judges import train_judges
from duotone.measures.judging import dealt_anew, judges_of_unseen, lacks_labels
from duotone.measures.measure import Scene
from duotone.measures.sheet import pixels
from duotone.measures.stylists import find_stylists, own_styles, put_on, restyles, taken_off
from duotone.methods import METHODS
from duotone.partition.partition import Population
from duotone.runs import Run, RunFolder
from duotone.runs.draft import Data
from duotone.runs.generate import check_client, open_finished
from duotone.runs.last_round import last_serving
from duotone.runs.plan import Model, Plan

_TESTED = 300
"""Test samples of each client by which it is measured what re-styled samples give away."""


@dataclass(frozen=True, slots=True)
class Restyled:
    """Samples of one client as another would have them.

    Attributes:
        source: Whose samples they are.
        target: Whose style they have.
        original: The samples as they were: uint8 images ``(samples, height, width, channels)``, or
            features as float32.
        x: The same re-styled.
        y: Their labels, if they are the source's own test samples.
    """

    source: str
    target: str
    original: Array
    x: Array
    y: Array | None


@dataclass(frozen=True, slots=True)
class Anonymised:
    """Re-styled samples with what they give away.

    Attributes:
        samples: The samples.
        exposure: What was measured; ``exposure.statement`` says it in sentences.
    """

    samples: Restyled
    exposure: Exposure

    @property
    def x(self) -> Array:
        """The re-styled samples."""
        return self.samples.x


def restyle(
    run: Run | str | Path,
    images: Array | None = None,
    *,
    source: str,
    target: str,
    count: int = 10,
    seed: int = 0,
    method: type[Method] | None = None,
    data: Data | None = None,
    model: Model | None = None,
) -> Restyled:
    """Draw samples of one client as another would have them, with the models they end with.

    Args:
        run: A finished run of a method that can do it, or its folder.
        images: Samples of the source, images as uint8 ``(samples, height, width[, channels])`` or
            features ``(samples, features)``; by default its first test samples.
        source: Whose samples they are: a member or a newcomer.
        target: Whose style they get.
        count: How many test samples, if none are given.
        seed: Of the choice among the target's styles.
        method: The method again, if it was made in Python.
        data: The data again, likewise.
        model: The model again, likewise.

    Raises:
        RunError: The run is not finished.
        UnknownNameError: It has no such client.
        ConfigError: Its method cannot do it, or the samples have another form.
    """
    path, plan = open_finished(run, method=method, data=data, model=model, again="restyle")
    _check(path, plan, source, target)
    return _restyled(path, plan, images, source, target, count, seed, redrawn=False)


def anonymise(
    run: Run | str | Path,
    images: Array | None = None,
    *,
    client: str,
    reference: str,
    count: int = 10,
    seed: int = 0,
    method: type[Method] | None = None,
    data: Data | None = None,
    model: Model | None = None,
) -> Anonymised:
    """Draw a client's samples anew as a reference client would have them, and attack them.

    They are drawn from codes, or from latents that are found for them: no stroke of theirs is left,
    which :func:`restyle` keeps where it can. Whether the label is kept and the client is found
    again is measured on its test samples, by judges and attackers that were trained on training
    samples of all clients. There is no guarantee: a better attacker may find more.

    Args:
        run: A finished run of a method that can re-style, or its folder.
        images: As in :func:`restyle`.
        client: Whose samples they are.
        reference: Whose style they get: another client.
        count: How many test samples are returned, if no samples are given.
        seed: Of every random draw.
        method: The method again, if it was made in Python.
        data: The data again, likewise.
        model: The model again, likewise.

    Raises:
        RunError: The run is not finished.
        UnknownNameError: It has no such client.
        ConfigError: Its method cannot do it, the reference is the client itself, or the samples
            have another form.
    """
    path, plan = open_finished(run, method=method, data=data, model=model, again="anonymise")
    _check(path, plan, client, reference)
    if client == reference:
        raise ConfigError(
            f"Samples of client {client!r} in its own style hide nothing; choose another client as "
            "the reference."
        )
    samples = _restyled(path, plan, images, client, reference, count, seed, redrawn=True)
    return Anonymised(samples, _exposure(path, plan, client, reference, seed))


def pair_sheet(original: Array, x: Array) -> Array:
    """Lay images out in pairs of rows of at most ten: originals above, re-styled ones below."""
    columns = min(10, len(x))
    blocks = -(-len(x) // columns)
    page = np.full((2, blocks * columns, *x.shape[1:]), 255, np.uint8)
    page[0, : len(x)], page[1, : len(x)] = original, x
    rows = page.reshape(2, blocks, columns, *x.shape[1:]).swapaxes(0, 1)
    return rows.reshape(2 * blocks, columns, *x.shape[1:])


def _check(path: Path, plan: Plan, *clients: str) -> None:
    if not restyles(plan.method):
        able = [name for name in METHODS if _can(name)]
        raise ConfigError(
            f"The method {plan.method.name!r} of {path} cannot re-style samples; those that can: "
            f"{', '.join(able)}."
        )
    for client in clients:
        check_client(path, plan.population, client)


def _can(name: str) -> bool:
    method = METHODS.load(name)
    return hasattr(method, "take_off") or hasattr(method, "decode")


def _restyled(
    path: Path,
    plan: Plan,
    images: Array | None,
    source: str,
    target: str,
    count: int,
    seed: int,
    *,
    redrawn: bool,
) -> Restyled:
    method, population = plan.method, plan.population
    if images is None:
        if count < 1:
            raise ConfigError(f"{count} samples were asked for; ask for at least one.")
        test = population.data(source, "test").first(count)
        x, y = test.x, test.labels.numpy()
        if not len(x):
            raise ConfigError(f"Client {source!r} of {path} has no test samples; give some.")
    else:
        x, y = _as_inputs(population, images), None
    with RunFolder(path).reading() as last:
        serving = last_serving(plan, last)
        tasks = [ClientTask(client, last.get(client)) for client in (source, target)]
    model = serving.model(method, population, tasks[0])
    content = taken_off(method, model, x, seed, source, redrawn=redrawn)
    # Both clients use one network: the source's is no longer needed.
    model = serving.model(method, population, tasks[1])
    styles = own_styles(method, model, population.data(target).x)
    made = put_on(method, model, content, styles, seed, source, target)
    return Restyled(source, target, _as_given(population, x), _as_given(population, made), y)


def _exposure(path: Path, plan: Plan, source: str, target: str, seed: int) -> Exposure:
    config, population = plan.config, plan.population
    dealt = dealt_anew(config, population.partition) if lacks_labels(population) else None
    if dealt is None:
        judges = train_judges(population, seed)
    else:
        judges = judges_of_unseen(config, population.partition, dealt)
    chosen = choose_holders(population.partition, judges.style_of, seed)
    chosen += [client for client in (source, target) if client not in chosen]
    for client in (source, target):
        if not population.partition.size(client, "test"):
            raise ConfigError(
                f"Client {client!r} of {path} has no test samples to measure by; use restyle."
            )
    with RunFolder(path).reading() as last:
        scene = Scene(
            plan.method,
            population,
            last_serving(plan, last),
            chosen,
            last,
            Serial(plan.method, population),
            config,
            RunFolder(path).metrics(),
        )
        stylists = find_stylists(
            scene,
            chosen,
            shown=SHOWN // len(chosen),
            tested=_TESTED,
            redrawn=True,
        )
    return exposure(plan.method, judges, stylists, source, target, population, seed)


def _as_inputs(population: Population, images: Array) -> Tensor:
    """Return given samples as a model takes them.

    Raises:
        ConfigError: They are not of the form of the run's samples.
    """
    shape = population.info.shape
    if population.info.is_image:
        given = images[..., np.newaxis] if images.ndim == 3 else images
        expected = (*shape[1:], shape[0])
        if given.dtype != np.uint8 or given.shape[1:] != expected or not len(given):
            raise ConfigError(
                "Images are given as uint8 (samples, height, width, channels), here "
                f"(…, {', '.join(map(str, expected))}). Got {images.dtype} {images.shape}."
            )
        return torch.from_numpy(given).float().div_(255).permute(0, 3, 1, 2)
    if images.shape[1:] != shape or not len(images):
        raise ConfigError(
            f"Samples are given as (samples, {shape[0]}) features. Got {images.shape}."
        )
    return torch.from_numpy(images.astype(np.float32))


def _as_given(population: Population, x: Tensor) -> Array:
    return pixels(x) if population.info.is_image else x.numpy()
