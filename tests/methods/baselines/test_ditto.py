from __future__ import annotations

import pytest
from worked import FIRST, Line, client, make, play, value

from duotone.methods.baselines.ditto import Ditto, DittoProx
from duotone.types import ClientState, ServerState


def test_two_rounds_of_two_steps_are_as_worked_by_hand():
    method = make(Ditto, Line(0), lam=1.0, epochs=2)
    clients = [client("a", 10), client("b", 30, samples=3)]
    states: dict[str, ClientState] = {}
    server, updates = play(method, clients, method.start(FIRST), states)
    # The shared model feels no pull. a: 0 → 2 → 3.6, b: 0 → 6 → 10.8; (3.6 + 3·10.8)/4 = 9
    assert value(updates["a"].shared["head.weight"]) == pytest.approx(3.6)
    assert value(server.shared["head.weight"]) == pytest.approx(9)
    # The own one is pulled towards 0. a: 0 → 2, then 2·(2 − 10) + 2 = −14 → 3.4; b: likewise 10.2
    assert value(method.personal(server, states["a"])["head.weight"]) == pytest.approx(3.4)
    assert value(method.personal(server, states["b"])["head.weight"]) == pytest.approx(10.2)
    _, updates = play(method, clients, server, states)
    # Now the pull is towards 9. a: 2·(3.4 − 10) + (3.4 − 9) = −18.8 → 5.28,
    # 2·(5.28 − 10) + (5.28 − 9) = −13.16 → 6.596; the shared one goes 9 → 9.2 → 9.36.
    assert value(method.personal(server, states["a"])["head.weight"]) == pytest.approx(6.596)
    assert value(updates["a"].shared["head.weight"]) == pytest.approx(9.36)


@pytest.mark.parametrize("kind", [Ditto, DittoProx])
def test_a_newcomer_with_labels_trains_from_the_shared_model_under_the_pull(kind):
    method = make(kind, Line(0), lam=1.0, epochs=2)
    latest = method.start(FIRST).shared["head.weight"] + 8.5
    server = ServerState({"head.weight": latest})
    state = method.join(server, client("n", 10), FIRST)
    # 8.5 → 8.8, then 2·(8.8 − 10) + 0.3 = −2.1 → 9.01
    assert value(method.personal(server, state)["head.weight"]) == pytest.approx(9.01)


def test_the_two_pulls_of_ditto_on_fedprox_are_as_worked_by_hand():
    method = make(DittoProx, Line(0), lam=1.0, mu=0.5, epochs=2)
    clients = [client("a", 10), client("b", 30, samples=3)]
    states: dict[str, ClientState] = {}
    server, updates = play(method, clients, method.start(FIRST), states)
    # Shared, a: 0 → 2, then 2·(2 − 10) + ½·2 = −15 → 3.5; b: 0 → 6, then −48 + 3 = −45 → 10.5
    assert value(updates["a"].shared["head.weight"]) == pytest.approx(3.5)
    assert value(server.shared["head.weight"]) == pytest.approx(8.75)  # (3.5 + 3·10.5)/4
    # Own: as in Ditto with λ = 1.
    assert value(method.personal(server, states["a"])["head.weight"]) == pytest.approx(3.4)
    assert value(method.personal(server, states["b"])["head.weight"]) == pytest.approx(10.2)
