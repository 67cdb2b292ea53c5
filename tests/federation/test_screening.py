from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from duotone.federation.screening import LARGEST, Refused, Screen, check_state, distance, matching
from duotone.types import ClientState, ClientUpdate, Form

SERVER = {"w": torch.zeros(2), "count": torch.tensor(3)}
MATRIX = Form((2, 2), torch.float64, "covariance")


def sent(weight: float = 5.0, extra: dict | None = None, **changes: torch.Tensor) -> ClientUpdate:
    shared = {"w": torch.tensor([3.0, 4.0]), "count": torch.tensor(4), **changes}
    return ClientUpdate("a", shared, weight, extra or {})


def screen(**changes) -> Screen:
    return Screen(**{"client": "a", "samples": 10, "sent": lambda update: SERVER, **changes})


def reason(reply, **changes) -> str:
    with pytest.raises(Refused) as refused:
        screen(**changes).passed(reply)
    return str(refused.value)


def test_an_honest_update_passes_as_it_is():
    passed = screen().passed(sent())
    assert passed.dropped == ()
    assert torch.equal(passed.update.shared["w"], torch.tensor([3.0, 4.0]))
    assert passed.update.weight == 5.0


@pytest.mark.parametrize(
    ("update", "word"),
    [
        (sent(w=torch.tensor([float("nan"), 0.0])), "NaN"),
        (sent(w=torch.tensor([float("inf"), 0.0])), "NaN or infinite"),
        (sent(w=torch.tensor([0.0, -2 * LARGEST])), "beyond"),
        (sent(w=torch.zeros(3)), "shape (3,), not (2,)"),
        (sent(w=torch.zeros(1).expand(10**12)), "shape (1000000000000,), not (2,)"),
        (sent(w=torch.zeros(2, dtype=torch.float64)), "float64"),
        (sent(w=torch.zeros(2).to_sparse()), "not an ordinary tensor"),
        (sent(w=torch.zeros(2, device="meta")), "not an ordinary tensor"),
        (sent(w=[0.0, 0.0]), "w is a list, not a tensor"),
        (sent(w=np.zeros(2)), "w is a ndarray, not a tensor"),
        (sent(other=torch.zeros(1)), "unexpected other"),
        (ClientUpdate("a", {"w": torch.zeros(2)}, 1.0), "lacks count"),
        (ClientUpdate("a", {}, 1.0), "lacks"),
        (ClientUpdate("a", None, 1.0), "cannot be read (TypeError"),
        (sent(weight=0.0), "weight is 0.0"),
        (sent(weight=float("nan")), "weight is nan"),
        (sent(weight=float("inf")), "weight is inf"),
        (sent(weight=-1.0), "weight is -1.0"),
        (sent(weight=1e12), "weight is 1e+12, more than its 10 samples"),
        (sent(weight=10.001), "more than its 10 samples"),
        (sent(weight=True), "weight is a bool"),
        (sent(weight="5"), "weight is a str"),
        (sent(weight=10**400), "cannot be read (OverflowError"),
        (sent(extra={"stats": torch.tensor([1.0])}), "unexpected stats"),
        (sent(extra={7: torch.tensor([1.0])}), "unexpected 7"),
        (None, "it is a NoneType"),
        ({"shared": {}}, "it is a dict"),
    ],
)
def test_a_bad_update_is_refused_with_its_reason(update, word):
    assert word in reason(update)


def test_the_largest_weight_is_the_number_of_samples():
    assert screen().passed(sent(weight=10)).update.weight == 10.0


def test_an_update_is_that_of_the_client_who_was_asked():
    passed = screen(client="b").passed(sent())
    assert passed.update.client == "b"


def test_extra_has_the_declared_form_or_is_refused():
    form = {"mean": Form((2,), torch.float64)}
    good = {"mean": torch.ones(2, dtype=torch.float64)}
    assert screen(extra=form).passed(sent(extra=good)).update.extra.keys() == {"mean"}
    assert "lacks mean" in reason(sent(), extra=form)
    assert "shape (3,)" in reason(sent(extra={"mean": torch.ones(3).double()}), extra=form)
    assert "float32" in reason(sent(extra={"mean": torch.ones(2)}), extra=form)
    assert "NaN" in reason(sent(extra={"mean": good["mean"] * math.nan}), extra=form)
    assert "unexpected raw" in reason(sent(extra={**good, "raw": torch.ones(9)}), extra=form)


@pytest.mark.parametrize(
    ("matrix", "is_one"),
    [
        ([[2.0, 1.0], [1.0, 2.0]], True),
        ([[1.0, 1.0], [1.0, 1.0]], True),  # rounding may make its zero eigenvalue negative
        ([[0.0, 0.0], [0.0, 0.0]], True),
        ([[1.0, 2.0], [2.0, 1.0]], False),  # eigenvalues 3 and −1
        ([[1.0, 0.5], [0.1, 1.0]], False),
        ([[-1.0, 0.0], [0.0, 1.0]], False),
    ],
)
def test_a_covariance_is_symmetric_and_has_no_negative_eigenvalue(matrix, is_one):
    given = {"c": torch.tensor(matrix, dtype=torch.float64)}
    if is_one:
        assert torch.equal(matching(given, {"c": MATRIX})["c"], given["c"])
    else:
        with pytest.raises(Refused, match="c is not a covariance"):
            matching(given, {"c": MATRIX})


def test_a_sum_of_shares_is_not_negative():
    form = {"mass": Form((2,), values="nonnegative")}
    assert matching({"mass": torch.tensor([0.0, 2.0])}, form)
    with pytest.raises(Refused, match="mass holds negative values"):
        matching({"mass": torch.tensor([-0.1, 2.0])}, form)


def test_bad_metrics_are_dropped_by_name_and_the_update_counts():
    metrics = {"loss": math.nan, "good": 1, "text": "x", "far": math.inf, "a\nb": 1.0, 3: 1.0}
    update, told = sent(), ("loss", "good", "text", "far", "silent")
    passed = screen(told=told).passed(ClientUpdate("a", update.shared, 1.0, metrics=metrics))
    assert passed.update.metrics == {"good": 1.0}
    assert "its metric loss is nan" in passed.dropped
    assert "its metric far is inf" in passed.dropped
    assert "its metric text is a str" in passed.dropped
    assert "2 of its metrics are not declared" in passed.dropped
    assert len(passed.dropped) == 4


@pytest.mark.parametrize(
    "state",
    [
        None,
        {"local": {}},
        ClientState([1.0]),
        ClientState({"w": 1.0}),
        ClientState({3: torch.ones(1)}),
        ClientState({}, {"w": torch.ones(2).to_sparse()}),
    ],
)
def test_a_state_that_cannot_be_kept_is_refused(state):
    with pytest.raises(Refused, match=r"state|ordinary|not a tensor"):
        check_state(state)


def test_the_values_of_a_state_are_the_clients_own_affair():
    state = ClientState({"w": torch.tensor([math.nan])})
    assert check_state(state) is state


def test_distance_is_euclidean_over_floating_tensors():
    assert distance(sent().shared, SERVER) == 5.0


def test_norm_bound_refuses_what_moved_further():
    assert screen(max_norm=5.0).passed(sent())
    assert "moved by 5" in reason(sent(), max_norm=4.9)


def test_a_group_that_was_not_sent_is_refused():
    assert "a model that was not sent" in reason(sent(), sent=lambda update: {})
