"""Personalise a classifier where it is used, from inputs alone.

A shared model meets clients with other shares of the classes than in training, or another style.
Three things can be corrected without a label: the shares of the classes, by a shift of the last
layer's bias (:func:`shifted_bias`); the statistics of BatchNorm; and, for methods that find
concepts, the last layer, which can be one for each concept. Each can do harm where another is
needed, so members vote on their validation samples whether to use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from duotone.federation.backends.codec import travels
from duotone.federation.local_training import refresh_statistics
from duotone.federation.method import Method
from duotone.federation.params import stored
from duotone.federation.protocols import SwitchesContext
from duotone.networks.reading import in_batches
from duotone.types import DataInfo, NewcomerRule, Params, RoundInfo

Way: TypeAlias = Literal["none", "prior", "norm", "context"]
Wish: TypeAlias = Literal["none", "prior", "norm", "context", "auto"]

STRENGTH = 80.0
"""How many samples like those of training a client's own count against."""
_STEPS = 200
_STILL = 1e-7


@travels
@dataclass(frozen=True, slots=True)
class Personalisation:
    """How clients change a model before they use it.

    Attributes:
        way: What they change.
        shares: Shares of the classes in the members' training samples.
    """

    way: Way
    shares: tuple[float, ...]


def estimate_shares(probabilities: Tensor, trained: Tensor, strength: float = STRENGTH) -> Tensor:
    """Return the shares of the classes among some samples, from a classifier's answers alone.

    EM of Saerens, Latinne, Decaestecker (*Adjusting the Outputs of a Classifier to New a Priori
    Probabilities*, Neural Computation 2002), with the shares of training as a Dirichlet prior: a
    few samples, or overconfident predictions, then change little.

    Args:
        probabilities: ``(samples, classes)``.
        trained: Shares of the classes that the classifier was trained with, none of them zero.
        strength: How many samples the prior counts for.
    """
    shares = trained
    for _ in range(_STEPS):
        weighted = probabilities * (shares / trained)
        answers = weighted / weighted.sum(dim=1, keepdim=True)
        new = (answers.sum(dim=0) + strength * trained) / (len(probabilities) + strength)
        if (new - shares).abs().max() < _STILL:
            return new
        shares = new
    return shares


def shifted_bias(bias: Tensor, shares: Tensor, trained: Tensor) -> Tensor:
    """Return a last layer's bias for other shares of the classes: Bayes' rule in logits."""
    return bias + (shares / trained).log().to(bias)


def personalised(
    method: Method, params: Params, x: Tensor, info: RoundInfo, chosen: Personalisation
) -> Params:
    """Return a client's parameters, adjusted to its inputs.

    Args:
        method: Makes a model of the parameters.
        params: What the client would use otherwise.
        x: Its training inputs.
        info: The round.
        chosen: What to change.
    """
    if chosen.way == "none":
        return params
    model = method.load(params, info.data).eval()
    if chosen.way == "context":
        switch = _context_switch(method, model)
        assert switch is not None, "ways() offers this only where there is one"
        return {**params, switch: torch.ones(())}
    if chosen.way == "norm":
        refresh_statistics(model, x)
        fresh = {name: stored(buffer) for name, buffer in model.named_buffers()}
        # A few inputs say little about a variance; members vote with many.
        own = len(x) / (len(x) + STRENGTH)
        return {
            name: torch.lerp(tensor, fresh[name], own)
            if name in fresh and tensor.is_floating_point()
            else tensor
            for name, tensor in params.items()
        }
    with torch.inference_mode():
        logits = in_batches(lambda part: method.predict(model, part), x)
    trained = torch.tensor(chosen.shares, dtype=torch.float64)
    shares = estimate_shares(logits.double().softmax(dim=1).cpu(), trained)
    name = bias_name(method)
    return {**params, name: shifted_bias(params[name], shares, trained)}


def ways(wish: Wish, method: Method, data: DataInfo) -> tuple[Way, ...]:
    """Return what a wish allows for a method's classifier; "none" is always among it."""
    model = method.module(data)
    can: Mapping[Way, bool] = {
        "prior": bias_name(method) in dict(model.named_parameters()),
        "norm": any(isinstance(layer, _BatchNorm) for layer in model.modules()),
        "context": _context_switch(method, model) is not None,
    }
    return ("none", *(way for way, possible in can.items() if possible and wish in (way, "auto")))


def _context_switch(method: Method, model: nn.Module) -> str | None:
    return method.context_switch(model) if isinstance(method, SwitchesContext) else None


def bias_name(method: Method) -> str:
    """Return what the last layer's bias is called, if there is one."""
    return f"{method.head}.bias" if method.head else "bias"


def rules_with(wish: Wish, rules: tuple[NewcomerRule, ...]) -> tuple[NewcomerRule, ...]:
    """Return what newcomers can start from when a method is personalised.

    A personalised zero-shot method also offers label-free.
    """
    if wish == "none" or "label-free" in rules or "zero-shot" not in rules:
        return rules
    position = rules.index("zero-shot")
    return (*rules[:position], "label-free", *rules[position:])
