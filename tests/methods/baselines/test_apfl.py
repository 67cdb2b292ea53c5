from __future__ import annotations

import pytest
import torch
from worked import FIRST, Line, client, make, play, value

from duotone.methods.baselines.apfl import APFL, mixture
from duotone.types import ClientState, ServerState

# Before the round the shared model is w = 1, a client's own one v = 3 and α = ½: a mixture of 2.
SERVER = ServerState({"head.weight": torch.tensor([[1.0]])})
STATE = ClientState({}, {"own/head.weight": torch.tensor([[3.0]]), "alpha": torch.tensor(0.5)})


def test_the_mixture_is_as_worked_by_hand():
    own, shared = {"w": torch.tensor([4.0, 8.0])}, {"w": torch.tensor([0.0, 4.0])}
    assert mixture(own, shared, torch.tensor(0.25))["w"].tolist() == [1, 5]


def test_one_step_of_two_clients_is_as_worked_by_hand():
    method = make(APFL, Line(0))
    states = {"a": STATE, "b": STATE}
    clients = [client("a", 2.1), client("b", 1.9, samples=3)]
    server, updates = play(method, clients, SERVER, states)
    # w, as in FedAvg. a: 1 + 1.1/5 = 1.22, b: 1 + 0.9/5 = 1.18; (1.22 + 3·1.18)/4 = 1.19
    assert value(updates["a"].shared["head.weight"]) == pytest.approx(1.22)
    assert value(server.shared["head.weight"]) == pytest.approx(1.19)
    # a: the mixture's gradient is 2·(2 − 2.1) = −0.2; v's has the factor α: v = 3 + 0.1·½·0.2
    assert value(states["a"].extra["own/head.weight"]) == pytest.approx(3.01)
    # α's is ⟨v − w, −0.2⟩ = −0.4: α = 0.5 + 0.04. For b all signs are the other way.
    assert value(states["a"].extra["alpha"]) == pytest.approx(0.54)
    assert value(states["b"].extra["own/head.weight"]) == pytest.approx(2.99)
    assert value(states["b"].extra["alpha"]) == pytest.approx(0.46)


def test_alpha_moves_at_the_first_batch_only():
    method = make(APFL, Line(0), epochs=2)
    states = {"a": STATE}
    _, updates = play(method, [client("a", 2.1)], SERVER, states)
    # After the first step the mixture is 0.54·3.01 + 0.46·1.22 = 2.1866, its gradient 0.1732;
    # v = 3.01 − 0.1·0.54·0.1732 and w = 1.22 + 0.88/5.
    assert value(states["a"].extra["alpha"]) == pytest.approx(0.54)
    assert value(states["a"].extra["own/head.weight"]) == pytest.approx(3.0006472)
    assert value(updates["a"].shared["head.weight"]) == pytest.approx(1.396)


@pytest.mark.parametrize(("target", "alpha"), [(10, 1), (-6, 0)])
def test_alpha_stays_between_nothing_and_all(target, alpha):
    method = make(APFL, Line(0))
    states = {"a": STATE}
    play(method, [client("a", target)], SERVER, states)
    # 2·(2 ∓ 8)·2 = ∓32: α would be 0.5 ± 3.2
    assert value(states["a"].extra["alpha"]) == alpha


def test_an_alpha_that_is_not_learned_stays_and_still_scales_the_gradient():
    method = make(APFL, Line(0), adaptive=False)
    states = {"a": STATE}
    play(method, [client("a", 2.1)], SERVER, states)
    assert value(states["a"].extra["alpha"]) == 0.5
    assert value(states["a"].extra["own/head.weight"]) == pytest.approx(3.01)


def test_members_use_their_model_mixed_with_the_latest_shared_one():
    method = make(APFL, Line(0))
    states = {"a": STATE}
    play(method, [client("a", 2.1)], SERVER, states)
    later = ServerState({"head.weight": torch.tensor([[5.0]])})
    used = method.before_use(later, states["a"], client("a", 2.1), FIRST)
    # 0.54·3.01 + 0.46·5
    assert value(method.personal(later, used)["head.weight"]) == pytest.approx(3.9254)


def test_a_newcomer_trains_its_own_model_beside_the_fixed_shared_one():
    method = make(APFL, Line(0), epochs=2)
    state = method.join(SERVER, client("n", 11), FIRST)
    # v = w = 1, so α has no gradient at the first batch. 2·(1 − 11)·½ = −10: v = 2; the mixture is
    # 1.5: 2·(1.5 − 11)·½ = −9.5: v = 2.95; mixed 1.975
    assert value(state.extra["alpha"]) == 0.5
    assert value(state.extra["own/head.weight"]) == pytest.approx(2.95)
    assert value(method.personal(SERVER, state)["head.weight"]) == pytest.approx(1.975)
    without = method.first_state(SERVER, FIRST)
    assert value(method.personal(SERVER, without)["head.weight"]) == 1
