"""FedPer, FedRep and LG-FedAvg: one layer stays with the client, or all but one."""

from __future__ import annotations

import pytest
from worked import FIRST, Product, client, make, play, value

from duotone.methods.baselines.fedper import FedPer
from duotone.methods.baselines.fedrep import FedRep
from duotone.methods.baselines.lg_fedavg import LGFedAvg
from duotone.types import ClientState

# The loss is (hb − y)² with b = h = 1 at the start; its gradient is 2(hb − y)·b for h and
# 2(hb − y)·h for b.
CLIENTS = [client("a", 6), client("b", 11, samples=3)]


def test_fedper_steps_on_both_layers_at_once_and_keeps_the_head():
    method = make(FedPer, Product(1, 1))
    states: dict[str, ClientState] = {}
    server, updates = play(method, CLIENTS, method.start(FIRST), states)
    # a: hb − y = −5, both gradients −10: b = h = 2; b: −10, −20: b = h = 3
    assert updates["a"].shared.keys() == server.shared.keys() == {"body.weight"}
    assert value(server.shared["body.weight"]) == pytest.approx(2.75)  # (2 + 3·3)/4
    assert value(states["a"].local["head.weight"]) == pytest.approx(2)
    assert value(states["b"].local["head.weight"]) == pytest.approx(3)
    model = method.personal(server, states["a"])
    assert value(model["body.weight"]) == pytest.approx(2.75)
    assert value(model["head.weight"]) == pytest.approx(2)


def test_a_newcomer_of_fedper_fits_a_fresh_head_and_nothing_else():
    method = make(FedPer, Product(2, 1), head_epochs=2)
    server = method.start(FIRST)
    state = method.join(server, client("n", 6), FIRST)
    # b = 2 throughout: 2·(2 − 6)·2 = −16 → h = 2.6, then 2·(5.2 − 6)·2 = −3.2 → 2.92
    assert value(state.local["head.weight"]) == pytest.approx(2.92)
    assert value(method.personal(server, state)["body.weight"]) == 2


def test_fedrep_fits_the_head_first_and_then_the_body_under_the_new_head():
    method = make(FedRep, Product(1, 1), head_epochs=1)
    states: dict[str, ClientState] = {}
    server, updates = play(method, CLIENTS, method.start(FIRST), states)
    # a: h = 1 + 1 = 2, then hb − y = −4 and 2·(−4)·2 = −16: b = 2.6
    # b: h = 1 + 2 = 3, then hb − y = −8 and 2·(−8)·3 = −48: b = 5.8
    assert updates["a"].shared.keys() == server.shared.keys() == {"body.weight"}
    assert value(states["a"].local["head.weight"]) == pytest.approx(2)
    assert value(states["b"].local["head.weight"]) == pytest.approx(3)
    assert value(server.shared["body.weight"]) == pytest.approx(5)  # (2.6 + 3·5.8)/4
    used = method.before_use(server, states["a"], CLIENTS[0], FIRST)
    # Before use the head is fitted to the latest body: 2·(2·5 − 6)·5 = 40, h = 2 − 4
    assert value(used.local["head.weight"]) == pytest.approx(-2)
    assert value(states["a"].local["head.weight"]) == pytest.approx(2)


def test_fedrep_trains_head_and_body_for_as_long_as_each_is_told():
    method = make(FedRep, Product(1, 1), head_epochs=2, epochs=2, lr=0.05)
    states: dict[str, ClientState] = {}
    _, updates = play(method, CLIENTS[:1], method.start(FIRST), states)
    # Head: −10 → 1.5, 2·(1.5 − 6) = −9 → 1.95.
    # Body: 2·(1.95 − 6)·1.95 = −15.795 → 1.78975, 2·(1.95·1.78975 − 6)·1.95 = −9.78895… → 2.279…
    second = 2 * (1.95 * 1.78975 - 6) * 1.95
    assert value(states["a"].local["head.weight"]) == pytest.approx(1.95)
    assert value(updates["a"].shared["body.weight"]) == pytest.approx(1.78975 - 0.05 * second)


def test_lg_fedavg_steps_on_both_layers_at_once_and_keeps_the_body():
    method = make(LGFedAvg, Product(1, 1))
    states: dict[str, ClientState] = {}
    server, updates = play(method, CLIENTS, method.start(FIRST), states)
    # As in FedPer b = h = 2 and b = h = 3; here the head is averaged.
    assert updates["a"].shared.keys() == server.shared.keys() == {"head.weight"}
    assert value(server.shared["head.weight"]) == pytest.approx(2.75)
    assert value(states["a"].local["body.weight"]) == pytest.approx(2)
    assert value(states["b"].local["body.weight"]) == pytest.approx(3)


def test_a_newcomer_of_lg_fedavg_trains_a_body_under_the_fixed_head():
    method = make(LGFedAvg, Product(1, 2))
    server = method.start(FIRST)
    state = method.join(server, client("n", 6), FIRST)
    # 2·(2·1 − 6)·2 = −16: b = 2.6; one turn, for it is the first round
    assert value(state.local["body.weight"]) == pytest.approx(2.6)
    assert value(method.personal(server, state)["head.weight"]) == 2
