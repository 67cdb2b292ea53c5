from __future__ import annotations

import pytest
from worked import FIRST, Line, client, make, play, value

from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.baselines.fedavg_ft import FedAvgFT
from duotone.types import ClientState


def test_two_rounds_are_the_means_worked_by_hand():
    method = make(FedAvg, Line(0))
    clients = [client("a", 10), client("b", 30, samples=3)]
    server, updates = play(method, clients, method.start(FIRST), {})
    # a: 0 + 10/5 = 2, b: 0 + 30/5 = 6; b has three of the four samples: (2 + 3·6)/4 = 5
    assert value(updates["a"].shared["head.weight"]) == pytest.approx(2)
    assert value(updates["b"].shared["head.weight"]) == pytest.approx(6)
    assert value(server.shared["head.weight"]) == pytest.approx(5)
    server, _ = play(method, clients, server, {})
    # a: 5 + 5/5 = 6, b: 5 + 25/5 = 10; (6 + 3·10)/4 = 9
    assert value(server.shared["head.weight"]) == pytest.approx(9)


def test_fine_tuning_takes_its_own_steps_and_never_enters_training():
    method = make(FedAvgFT, Line(0), finetune_epochs=2, finetune_lr=0.05, lr_decay=0.5)
    clients = [client("a", 10), client("b", 30, samples=3)]
    states: dict[str, ClientState] = {}
    server, _ = play(method, clients, method.start(FIRST), states)
    assert value(server.shared["head.weight"]) == pytest.approx(5)
    member = method.before_use(server, states["a"], clients[0], FIRST)
    for tuned in (member, method.join(server, clients[0], FIRST)):
        # With the rate 0.05 a step is w + (10 − w)/10: 5 → 5.5 → 5.95
        assert value(method.personal(server, tuned)["head.weight"]) == pytest.approx(5.95)
    unlabelled = method.join(server, clients[0].without_labels(), FIRST)
    assert value(method.personal(server, unlabelled)["head.weight"]) == pytest.approx(5)
    assert not states["a"], "nothing of the fine-tuned copy is kept"
