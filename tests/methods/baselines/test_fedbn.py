from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import make_population
from torch import nn
from worked import FIRST, NUMBERS, make, play, value

from duotone.errors import ConfigError
from duotone.federation.backends import ClientTask
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.jobs import member_state
from duotone.federation.local_training import train
from duotone.methods.baselines.fedbn import FedBN
from duotone.networks.classifiers import cnn, cnn_bn, mlp, mlp_bn
from duotone.networks.reading import as_network
from duotone.types import ClientData, ClientState, DataInfo

FIVE = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


class Normed(nn.Module):
    """The model y = w·(g·x̂ + s), where x̂ is x with mean 0 and variance 1."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(1, eps=1e-12)
        self.head = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.head.weight, 1.0)

    def forward(self, x):
        return self.head(self.norm(x))


def samples(name: str, x: list[float], y: list[float] | None = None) -> ClientData:
    labels = None if y is None else torch.tensor(y)
    return ClientData(name, torch.tensor(x)[:, None], labels, NUMBERS)


def test_one_step_of_two_clients_is_as_worked_by_hand():
    method = make(FedBN, Normed())
    clients = [samples("a", [-1.0, 1.0], [-4.0, 4.0]), samples("b", [4.0, 6.0], [-9.0, 9.0])]
    states: dict[str, ClientState] = {}
    server, updates = play(method, clients, method.start(FIRST), states)
    # x̂ = ∓1 for both. a misses by ±3: 2·3·(∓1)·(∓1), both w and g go up by 0.6; s stays.
    # b misses by ±8: both go up by 1.6.
    assert updates["a"].shared.keys() == server.shared.keys() == {"head.weight"}
    assert value(server.shared["head.weight"]) == pytest.approx(2.1)  # (1.6 + 2.6)/2
    # Statistics move by a tenth towards the batch's mean, 0 and 5, and unbiased variance, 2.
    for name, scale, mean in (("a", 1.6, 0.0), ("b", 2.6, 0.5)):
        kept = states[name].local
        assert value(kept["norm.weight"]) == pytest.approx(scale)
        assert value(kept["norm.bias"]) == pytest.approx(0, abs=1e-6)
        assert value(kept["norm.running_mean"]) == pytest.approx(mean, abs=1e-6)
        assert value(kept["norm.running_var"]) == pytest.approx(1.1)
        assert value(kept["norm.num_batches_tracked"]) == 1


def test_a_clients_batch_norm_is_what_it_trained_itself_whoever_else_took_part():
    population = make_population()
    method = FedBN(FedBN.Config(epochs=1, batch_size=8), cnn_bn)
    server = method.start(replace(FIRST, seed=1, data=population.info))
    states = MemoryStates()
    known: dict[str, ClientState] = {}
    turns = []
    for result in federate(method, population, rounds=6, sampled=1, seed=1, states=states):
        (name,) = (update.client for update in result.updates)
        turns.append(name)
        # The same training once more, from what the client had and what the server sent.
        again = FedBN(method.config, cnn_bn)
        before = member_state(again, server, ClientTask(name, known.get(name)), result.info)
        model = again.load({**server.shared, **before.local}, population.info)
        train(model, population.data(name), again.config, result.info)
        trained = model.state_dict()
        layers = [f"norm{number}.{tensor}" for number in (1, 2, 3) for tensor in FIVE]
        assert states.get(name).local.keys() == set(layers)
        for key in layers:
            assert torch.equal(states.get(name).local[key], trained[key]), key
            assert key not in result.server.shared
        for other, state in known.items():
            if other != name:
                assert all(torch.equal(states.get(other).local[k], state.local[k]) for k in layers)
        known[name] = states.get(name)
        server = result.server
    assert turns[1] != turns[0] in turns[2:], "the first client came back after others"


@pytest.mark.parametrize("refresh", [False, True])
def test_refreshing_changes_a_members_statistics_and_nothing_else(refresh):
    population = make_population()
    method = FedBN(FedBN.Config(epochs=1, refresh=refresh), cnn_bn)
    states = MemoryStates()
    (*_, last) = federate(method, population, rounds=2, states=states)
    shared = {key: tensor.clone() for key, tensor in last.server.shared.items()}
    before = states.get("c0")
    after = method.before_use(last.server, before, population.data("c0"), last.info)
    changed = {key for key in before.local if not torch.equal(before.local[key], after.local[key])}
    statistics = {f"norm{n}.running_{s}" for n in (1, 2, 3) for s in ("mean", "var")}
    assert changed - {f"norm{n}.num_batches_tracked" for n in (1, 2, 3)} == (
        statistics if refresh else set()
    )
    model = method.load(method.personal(last.server, after), population.info).state_dict()
    assert all(torch.equal(model[key], tensor) for key, tensor in shared.items())


def test_refreshing_needs_no_labels_of_a_member():
    population = make_population()
    method = FedBN(FedBN.Config(refresh=True), mlp_bn)
    server = method.start(replace(FIRST, data=population.info))
    info = replace(FIRST, data=population.info)
    member = method.first_state(server, info)
    data = population.data("c0")
    first, second = (
        method.before_use(server, member, d, info) for d in (data, data.without_labels())
    )
    for key, tensor in first.local.items():
        assert torch.equal(tensor, second.local[key]), key


def test_a_newcomer_without_labels_takes_the_statistics_of_its_own_inputs():
    method = make(FedBN, Normed())
    state = method.join(method.start(FIRST), samples("n", [1.0, 2.0, 6.0]), FIRST)
    # The mean is 3, the squares sum up to 4 + 1 + 9, divided by 3 − 1
    assert value(state.local["norm.running_mean"]) == pytest.approx(3)
    assert value(state.local["norm.running_var"]) == pytest.approx(7)
    assert value(state.local["norm.weight"]) == 1
    assert value(state.local["norm.bias"]) == 0


def test_a_newcomer_with_labels_trains_scale_and_shift_alone():
    method = make(FedBN, Normed(), newcomer_epochs=1)
    server = method.start(FIRST)
    data = samples("n", [4.0, 6.0], [-8.0, 10.0])
    state = method.join(server, data, FIRST)
    # x̂ = ∓1; errors are −1 + 8 = 7 and 1 − 10 = −9. For the scale the mean of 2·7·(−1) and
    # 2·(−9)·1 is −16, for the shift the mean of 14 and −18 is −2.
    assert value(state.local["norm.weight"]) == pytest.approx(2.6)
    assert value(state.local["norm.bias"]) == pytest.approx(0.2)
    # The statistics were estimated before, and a batch with the same ones does not move them.
    assert value(state.local["norm.running_mean"]) == pytest.approx(5)
    assert value(state.local["norm.running_var"]) == pytest.approx(2)
    assert value(method.personal(server, state)["head.weight"]) == 1


@pytest.mark.parametrize(("model", "shape"), [(cnn, (1, 8, 8)), (mlp, (3,))])
def test_a_model_without_batch_norm_is_refused_with_advice(model, shape):
    method = FedBN(FedBN.Config(), as_network(model))
    with pytest.raises(ConfigError, match=r"no BatchNorm.*model=cnn-bn.*run fedavg"):
        method.build(DataInfo(shape, "classes", 2))
