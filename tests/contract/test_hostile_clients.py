"""Whatever one client of ten answers, no round stops, and the others do not notice.

The reference is a federation in which that client is silent. Clients are trained once; what they
answered is played again with one answer replaced, so that every method meets every reply.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest
import torch
from federations import make_population
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duotone.federation.backends import Failure
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.jobs import CollectJob, TrainJob
from duotone.methods import METHODS
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network
from duotone.types import ClientState, ClientUpdate

EVERY = sorted(METHODS)
COLLECTING = ["fedcd", "fedvc"]
HOSTILE = "c4"
MORE = {
    "fedvc-paper": ("fedvc", {"variant": "paper"}),
    "fedvc-asked": ("fedvc", {"concepts": 2, "dimensions": 1}),  # clients here are alike
}
"""Methods with settings under which they send something else than by default."""


def digest(server) -> str:
    found = hashlib.sha256()
    for part in (server.shared, server.extra):
        for name, tensor in part.items():
            found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


@dataclass
class Replayed(Serial):
    """Computes honest answers once; replaces those of one client in one phase.

    ``twist`` is given the honest value and returns a value or an exception; ``None`` as a twist is
    silence.
    """

    method: object
    population: object
    known: dict = field(default_factory=dict)
    phase: type = TrainJob
    twist: object = None

    def map_clients(self, job, tasks):
        server = digest(job.server)
        for task in tasks:
            key = (type(job), job.info.asking, task.client, server)
            if key not in self.known:
                (self.known[key],) = super().map_clients(job, [task])
            result = self.known[key]
            if task.client == HOSTILE and isinstance(job, self.phase):
                if self.twist is None:
                    continue
                result = self.twisted(result)
            yield result

    def twisted(self, result):
        try:
            return replace(result, value=self.twist(result.value))
        except ZeroDivisionError as error:
            return replace(result, value=None, failure=Failure.of(error))


@cache
def federation(name):
    name, settings = MORE.get(name, (name, {}))
    kind = METHODS.load(name)
    method = kind(kind.Config(**settings), as_network(cnn_bn))
    return Replayed(method, make_population(members=10, newcomers=0, samples=12))


def played(name, phase, twist):
    backend = federation(name)
    backend.phase, backend.twist = phase, twist
    states = MemoryStates()
    (result,) = federate(
        backend.method, backend.population, rounds=1, backend=backend, states=states
    )
    return result, states


@cache
def silence(name, phase):
    return played(name, phase, None)


def assert_refused(name, phase, twist):
    """Play a round with a hostile answer; compare it with one in which the client is silent."""
    result, states = played(name, phase, twist)
    quiet, quiet_states = silence(name, phase)
    assert HOSTILE in result.refused, "the refusal names the client"
    assert result.refused.keys() == quiet.refused.keys()
    assert digest(result.server) == digest(quiet.server)
    assert states.states.keys() == quiet_states.states.keys()
    for client, state in states.states.items():
        for mine, theirs in zip(parts(state), parts(quiet_states.states[client]), strict=True):
            assert_same(mine, theirs)
    for ours, others in ((result.updates, quiet.updates), (result.collected, quiet.collected)):
        assert [(u.client, u.weight) for u in ours] == [(u.client, u.weight) for u in others]
        for one, other in zip(ours, others, strict=True):
            assert dict(one.metrics) == dict(other.metrics)
            assert_same(one.shared, other.shared)
            assert_same(one.extra, other.extra)


def parts(state):
    return state.local, state.extra


def assert_same(first, second):
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


# -- what a client may answer

BAD_TENSORS = {
    "NaN": lambda t: t.double().mul(torch.nan).to(t.dtype) if t.is_floating_point() else None,
    "infinite": lambda t: torch.full_like(t, torch.inf) if t.is_floating_point() else None,
    "one NaN": lambda t: one(t, torch.nan),
    "huge": lambda t: one(t, 1e30),
    "longer": lambda t: torch.cat([t.flatten(), t.flatten()[:1]]),
    "turned": lambda t: t.unsqueeze(0),
    "no size": lambda t: t.flatten()[:0],
    "scalar": lambda t: t.flatten()[0] if t.ndim else t.repeat(3),
    "40 MB": lambda t: torch.zeros(10_000_000),
    "double": lambda t: t.float() if t.dtype is torch.float64 else t.double(),
    "half": lambda t: t.half(),
    "complex": lambda t: t.to(torch.complex64),
    "boolean": lambda t: t.bool(),
    "sparse": lambda t: t.flatten().to_sparse(),
    "nowhere": lambda t: t.to("meta"),
    "array": lambda t: t.numpy(),
    "list": lambda t: t.tolist(),
    "nothing": lambda t: None,
    "text": lambda t: "0.5",
    "bytes": lambda t: t.numpy().tobytes(),
}


def one(tensor, value):
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return None
    changed = tensor.clone().flatten()
    changed[-1] = value
    return changed.reshape(tensor.shape)


BAD_WEIGHTS = [
    *(0.0, -1.0, float("nan"), float("inf"), 1e12, 12.5, 10**400, True, "12", None, [12], 1j),
    torch.tensor(12.0),
    np.array([12.0, 1.0]),
]
BAD_REPLIES = [None, "update", 7, {}, [], (), (1, 2), (1, 2, 3), torch.zeros(3), object()]
BAD_STATES = [
    None,
    {},
    "mine",
    ClientState([1]),
    ClientState({"w": "x"}),
    ClientState({0: torch.ones(1)}),
]


class Trap:
    """Raises whatever is done to it."""

    def __getattribute__(self, name):
        raise RuntimeError("a trap")

    def __iter__(self):
        raise RuntimeError("a trap")


def bad_update(update: ClientUpdate, draw) -> ClientUpdate | None:
    """Return an update that is wrong in one place; ``None`` where that place is empty."""
    what = draw(st.sampled_from(["tensor", "missing", "more", "named", "weight", "part", "extra"]))
    part = draw(
        st.sampled_from([p for p in ("shared", "extra") if getattr(update, p)] or ["extra"])
    )
    tensors = dict(getattr(update, part))
    name = draw(st.sampled_from(sorted(tensors))) if tensors else ""
    if what == "weight":
        return replace(update, weight=draw(st.sampled_from(BAD_WEIGHTS)))
    if what == "part":
        bad = draw(st.sampled_from([None, 3, "x", [1], Trap]))
        return replace(update, **{part: Trap() if bad is Trap else bad})
    if what == "more":
        tensors[draw(st.text(min_size=1))] = torch.zeros(draw(st.integers(0, 5)))
    elif what == "extra":
        return replace(update, extra={**update.extra, "raw": torch.rand(12, 1, 8, 8)})
    elif what == "named":
        tensors[7] = torch.zeros(1)
    elif not tensors:
        return None
    elif what == "missing":
        del tensors[name]
    else:
        bad = BAD_TENSORS[draw(st.sampled_from(sorted(BAD_TENSORS)))](tensors[name])
        tensors[name] = bad
        good = getattr(update, part)[name]
        is_plain = isinstance(bad, torch.Tensor) and not bad.is_sparse and not bad.is_meta
        if is_plain and bad.dtype == good.dtype and torch.equal(bad, good):
            return None  # nothing was changed
    return replace(update, **{part: tensors})


@st.composite
def training_replies(draw):
    """Draw what becomes of an honest answer to training."""
    kind = draw(
        st.sampled_from(["reply", "raise", "state", "update", "update", "update", "update"])
    )
    reply = draw(st.sampled_from(BAD_REPLIES))
    state = draw(st.sampled_from(BAD_STATES))
    data = draw(st.data())

    def twist(value):
        if kind == "raise":
            raise ZeroDivisionError("boom")
        if kind == "reply":
            return reply
        if kind == "state":
            return value[0], state
        found = bad_update(value[0], data.draw)
        return reply if found is None else (found, value[1])

    return twist


@st.composite
def collecting_replies(draw):
    """Draw what becomes of honest statistics."""
    kind = draw(st.sampled_from(["reply", "raise", "shared", "update", "update", "update"]))
    reply = draw(st.sampled_from(BAD_REPLIES))
    data = draw(st.data())

    def twist(value):
        if kind == "raise":
            raise ZeroDivisionError("boom")
        if kind == "shared":
            return replace(value, shared={"w": torch.ones(1)})
        found = bad_update(value, data.draw) if kind == "update" else None
        return reply if found is None else found

    return twist


MANY = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.parametrize("name", [*EVERY, *MORE])
@MANY
@given(twist=training_replies())
def test_no_answer_to_training_stops_a_round_or_leaves_a_trace(name, twist):
    assert_refused(name, TrainJob, twist)


@pytest.mark.parametrize("name", [*COLLECTING, *MORE])
@MANY
@given(twist=collecting_replies())
def test_no_answer_to_collecting_stops_a_round_or_leaves_a_trace(name, twist):
    assert_refused(name, CollectJob, twist)


@pytest.mark.parametrize("name", COLLECTING)
@pytest.mark.parametrize(
    "matrix",
    [
        lambda c: -c - torch.eye(len(c), dtype=c.dtype),
        lambda c: c + torch.triu(torch.ones_like(c), 1) * c.abs().max(),
        lambda c: torch.full_like(c, 1e200),
    ],
)
def test_a_matrix_that_is_no_covariance_is_refused(name, matrix):
    def twist(value):
        if "covariance" not in value.extra:
            return None
        return replace(
            value, extra={**value.extra, "covariance": matrix(value.extra["covariance"])}
        )

    assert_refused(name, CollectJob, twist)


@pytest.mark.parametrize("name", EVERY)
def test_methods_that_are_not_named_here_collect_nothing(name):
    if name not in COLLECTING:
        assert silence(name, TrainJob)[0].collected == ()
