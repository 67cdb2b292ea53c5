"""Which pixels or features an answer comes from: integrated gradients, with a check of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from duotone.errors import MissingExtraError
from duotone.federation.backends.serial import one_thread
from duotone.measures.decomposition import FloatArray
from duotone.runs.client import Client
from duotone.seeding import stream

_STEPS = 32
_MASKS = 40


@dataclass(frozen=True, slots=True)
class Attribution:
    """How much each pixel or feature adds to a number.

    Attributes:
        values: One for each input, in the form of one sample.
        total: The number at the sample less the number at the baseline.
        left: What the values do not account for: their sum is ``total - left``.
        faithfulness: Correlation between the values of random sets of inputs and what taking the
            inputs away does, from -1 to 1; ``None`` where nothing changes.
    """

    values: FloatArray
    total: float
    left: float
    faithfulness: float | None


def attribution(
    function: Callable[[Tensor], Tensor], x: Tensor, baseline: Tensor, seed: int = 0
) -> Attribution:
    """Attribute a number to the inputs it is computed from.

    Args:
        function: Gives one number for each sample of a batch.
        x: One sample, ``(1, …)``.
        baseline: What stands for "nothing particular", likewise.
        seed: Of the sets of inputs that are taken away for the check.

    Raises:
        MissingExtraError: captum is not installed.
    """
    try:
        from captum.attr import IntegratedGradients
    except ImportError as error:
        raise MissingExtraError(
            "Attributing an answer to pixels needs captum; install it with: "
            "pip install duotone[explain]"
        ) from error
    with one_thread():
        found = IntegratedGradients(function).attribute(
            x, baseline, n_steps=_STEPS, method="gausslegendre"
        )
        with torch.no_grad():
            total = float(function(x) - function(baseline))
            values = np.asarray(found.detach().cpu().double().numpy()[0], np.float64)
            score = _checked(function, x, baseline, values, seed)
    return Attribution(values, total, total - float(values.sum()), score)


def _checked(
    function: Callable[[Tensor], Tensor], x: Tensor, baseline: Tensor, values: FloatArray, seed: int
) -> float | None:
    """Take random sets of inputs away; return how well their values foretell what that does."""
    rng = stream(seed, "masks")
    per_place = values.sum(axis=0) if values.ndim == 3 else values
    share = rng.uniform(0.1, 0.9, (_MASKS, *[1] * per_place.ndim))
    away = rng.uniform(size=(_MASKS, *per_place.shape)) < share
    mask = torch.from_numpy(away[:, np.newaxis] if values.ndim == 3 else away)
    changed = function(torch.where(mask, baseline, x))
    lost = (function(x) - changed).double().cpu().numpy()
    foretold = (away * per_place).reshape(_MASKS, -1).sum(axis=1)
    if lost.std() < 1e-9 or foretold.std() < 1e-9:
        return None
    return float(np.corrcoef(lost, foretold)[0, 1])


def output_of(client: Client, output: int) -> Callable[[Tensor], Tensor]:
    """Return one output of a client's answers as a function of samples, with gradients."""
    network, method = client.model(), client.method
    is_class = client.facts.info.task == "classes"

    def function(x: Tensor) -> Tensor:
        scores = method.predict(network, x.to(method.device)).double()
        # A model may pass over its input altogether; gradients are then zero, not missing.
        scores = scores + 0 * x.flatten(1).sum(dim=1, keepdim=True)
        return (scores.softmax(dim=1) if is_class else scores)[:, output]

    return function


def mean_of(functions: Sequence[Callable[[Tensor], Tensor]]) -> Callable[[Tensor], Tensor]:
    """Return the mean of some functions."""

    def function(x: Tensor) -> Tensor:
        return torch.stack([own(x) for own in functions]).mean(dim=0)

    return function


def difference_of(
    first: Callable[[Tensor], Tensor], second: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    """Return the difference of two functions."""

    def function(x: Tensor) -> Tensor:
        return first(x) - second(x)

    return function
