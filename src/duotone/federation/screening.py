"""Check everything that leaves a client before it is used; refuse what is bad, and say why.

A method declares what leaves its clients: the shared tensors, by those it sent, and ``extra`` and
collected statistics, by :class:`~duotone.types.Form`. Whatever a client answers instead, nothing
in here raises: a reply becomes a clean update, or a reason to refuse it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from duotone.types import ClientState, ClientUpdate, FarState, Form, Params

LARGEST = 1e18
"""No honest number is larger; squares of larger ones do not fit into float32."""
LONGEST_NAME = 200

Forms = Mapping[str, Form]


class Refused(Exception):
    """A reply that must not be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Screened:
    """What is left of a reply.

    Attributes:
        update: What the server may use.
        dropped: What was taken out of it, in words; the rest counts.
    """

    update: ClientUpdate
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Screen:
    """What one client may answer.

    Attributes:
        client: Who was asked. An answer is its answer, whatever name stands in it.
        samples: How many samples it is enrolled with: the largest weight it may claim.
        sent: Returns the shared tensors that an update started from; an honest one has their form.
        extra: The declared form of what is sent besides.
        told: The declared names of its metrics.
        max_norm: Largest allowed Euclidean distance from what was sent, if bounded.
        max_bytes: Largest allowed size of all its tensors, if bounded.
    """

    client: str
    samples: int
    sent: Callable[[ClientUpdate], Params]
    extra: Forms = field(default_factory=dict)
    told: tuple[str, ...] = ()
    max_norm: float | None = None
    max_bytes: int | None = None

    def passed(self, reply: Any) -> Screened:
        """Return what may be used of a reply.

        Raises:
            Refused: Nothing may.
        """
        try:
            return self._passed(reply)
        except Refused:
            raise
        except Exception as error:  # a strange object may raise anything when it is read
            raise Refused(f"it cannot be read ({type(error).__name__}: {error})") from error

    def _passed(self, reply: Any) -> Screened:
        if not isinstance(reply, ClientUpdate):
            raise Refused(f"it is a {type(reply).__name__}, not an update")
        weight = self._weight(reply.weight)
        extra = matching(reply.extra, self.extra)
        update = ClientUpdate(self.client, {}, weight, extra)
        sent = self.sent(update)
        if reply.shared and not sent:
            raise Refused("it names a model that was not sent")
        forms = {name: Form.of(tensor) for name, tensor in sent.items()}
        shared = matching(reply.shared, forms)
        size = sum(t.numel() * t.element_size() for t in (*shared.values(), *extra.values()))
        if self.max_bytes is not None and size > self.max_bytes:
            raise Refused(f"it has {size:,} bytes, more than the allowed {self.max_bytes:,}")
        if self.max_norm is not None:
            norm = distance(shared, sent)
            if norm > self.max_norm:
                raise Refused(f"it moved by {norm:.3g}, more than the allowed {self.max_norm:g}")
        metrics, dropped = _metrics(reply.metrics, self.told)
        return Screened(replace(update, shared=shared, metrics=metrics), dropped)

    def _weight(self, weight: Any) -> float:
        if isinstance(weight, bool) or not isinstance(weight, Real):
            raise Refused(f"its weight is a {type(weight).__name__}, not a number")
        value = float(weight)
        if not (math.isfinite(value) and value > 0):
            raise Refused(f"its weight is {value}")
        if value > self.samples:
            raise Refused(f"its weight is {value:g}, more than its {self.samples} samples")
        return value


def matching(given: Any, forms: Forms) -> dict[str, Tensor]:
    """Return tensors that have the declared names, forms and sane values, in the declared order.

    Raises:
        Refused: They have not.
    """
    tensors = dict(given)
    missing = forms.keys() - tensors.keys()
    if missing:
        raise Refused(f"it lacks {min(missing)}")
    unknown = tensors.keys() - forms.keys()
    if unknown:
        name = min(map(str, unknown))[:LONGEST_NAME]
        raise Refused(f"it has an unexpected {name}")
    return {name: _matching(name, tensors[name], form) for name, form in forms.items()}


def _matching(name: str, tensor: Any, form: Form) -> Tensor:
    check_plain(name, tensor)
    if tuple(tensor.shape) != form.shape:
        raise Refused(f"{name} has shape {tuple(tensor.shape)}, not {form.shape}")
    if tensor.dtype != form.dtype:
        raise Refused(f"{name} is {tensor.dtype}, not {form.dtype}")
    clean: Tensor = tensor.detach().cpu()
    if clean.is_floating_point() and clean.numel():
        low, high = (float(end) for end in clean.aminmax())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise Refused(f"{name} holds NaN or infinite values")
        if max(-low, high) > LARGEST:
            raise Refused(f"{name} holds values beyond ±{LARGEST:g}")
    if form.values == "nonnegative" and bool((clean < 0).any()):
        raise Refused(f"{name} holds negative values")
    if form.values == "covariance" and not _is_covariance(clean):
        raise Refused(f"{name} is not a covariance")
    return clean


def counts(given: Any, what: str, shape: tuple[int, ...], most: int) -> NDArray[np.int64]:
    """Return an array of counts, if it is one.

    Args:
        given: What a client answered.
        what: The word for it.
        shape: The shape it must have.
        most: What they may come to together.

    Raises:
        Refused: It is something else.
    """
    if not isinstance(given, np.ndarray) or given.shape != shape or given.dtype.kind not in "iu":
        raise Refused(f"its {what} are no {' × '.join(map(str, shape))} counts")
    told = [int(count) for count in given.flat]  # sums of these do not overflow
    if min(told, default=0) < 0 or sum(told) > most:
        raise Refused(f"its {what} come to more than its {most} samples, or are negative")
    return given.astype(np.int64)


def declared(update: Any, sent: Params, extra: Forms, told: tuple[str, ...]) -> ClientUpdate:
    """Return what a node may send of an update: declared tensors of their form, and metrics.

    The server screens what it gets, values too. This is the node's own look: what a method never
    declared does not even leave.

    Args:
        update: What the method wants to send.
        sent: The shared tensors that it started from.
        extra: The declared form of what is sent besides.
        told: The declared names of its metrics.

    Raises:
        Refused: It holds tensors that are not declared.
    """
    if not isinstance(update, ClientUpdate):
        raise Refused(f"it is a {type(update).__name__}, not an update")
    forms = {name: Form.of(tensor) for name, tensor in sent.items()}
    for tensors, own in ((update.shared, forms), (update.extra, extra)):
        for name, tensor in tensors.items():
            check_plain("a tensor", tensor)
            form = own.get(name)
            if form is None or (form.shape, form.dtype) != (tuple(tensor.shape), tensor.dtype):
                raise Refused("its method sends tensors that it did not declare in this form")
    metrics = {name: value for name, value in update.metrics.items() if name in told}
    return replace(update, metrics=metrics)


def check_plain(name: str, tensor: Any) -> None:
    """Make sure that something is an ordinary tensor, with its values at hand.

    Raises:
        Refused: It is not.
    """
    if not isinstance(tensor, Tensor):
        raise Refused(f"{name} is a {type(tensor).__name__}, not a tensor")
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta:
        raise Refused(f"{name} is not an ordinary tensor")


def check_state(state: Any) -> ClientState:
    """Return what a client wants to keep, if it can be kept.

    It never leaves the client, so its values are not checked.

    Raises:
        Refused: It is not a state of named tensors.
    """
    if isinstance(state, FarState):
        return state
    if not isinstance(state, ClientState):
        raise Refused(f"its state is a {type(state).__name__}")
    for part in (state.local, state.extra):
        if not isinstance(part, Mapping):
            raise Refused(f"its state holds a {type(part).__name__}, not named tensors")
        for name, tensor in part.items():
            if not isinstance(name, str):
                raise Refused("its state holds a tensor without a name")
            check_plain(name, tensor)
    return state


def _metrics(given: Any, told: tuple[str, ...]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the declared, finite numbers among some metrics, and what was wrong with the others.

    Names are not repeated unless they are declared: a name, too, could carry something out.
    """
    if not isinstance(given, Mapping):
        return {}, ("its metrics are not named numbers",)
    kept: dict[str, float] = {}
    dropped: list[str] = []
    if unknown := len(given.keys() - set(told)):
        dropped.append(f"{unknown} of its metrics are not declared")
    for name in told:
        if name not in given:
            continue
        value = given[name]
        if isinstance(value, bool) or not isinstance(value, Real):
            dropped.append(f"its metric {name} is a {type(value).__name__}")
        elif not math.isfinite(value):
            dropped.append(f"its metric {name} is {float(value)}")
        else:
            kept[name] = float(value)
    return kept, tuple(dropped)


def _is_covariance(matrix: Tensor) -> bool:
    """Say whether a matrix is symmetric and has no negative eigenvalue, but for rounding."""
    exact = matrix.double()
    size = float(exact.abs().max()) if exact.numel() else 0.0
    if float((exact - exact.T).abs().max()) > 1e-6 * size:
        return False
    return float(torch.linalg.eigvalsh(exact)[0]) >= -1e-5 * size


def distance(a: Params, b: Params) -> float:
    """Return the Euclidean distance over all floating-point tensors."""
    squares = [
        (a[name].double() - tensor.double()).square().sum()
        for name, tensor in b.items()
        if tensor.is_floating_point()
    ]
    return float(torch.stack(squares).sum().sqrt()) if squares else 0.0
