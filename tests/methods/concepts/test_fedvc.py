from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import make_population, two_worlds
from pydantic import ValidationError
from torch import nn

from duotone.errors import ConfigError
from duotone.federation.backends import ClientTask
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.personalise import Personalisation
from duotone.federation.serving import Serving
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.concepts.concept_layer import FLOOR, ConceptLinear
from duotone.methods.concepts.fedvc import (
    HEAD_PASSES,
    PASSES,
    FedVC,
    FedVCConfig,
    preference_loss,
)
from duotone.methods.concepts.mixture import Moving
from duotone.networks.classifiers import cnn_bn, mlp
from duotone.networks.reading import as_network
from duotone.partition.partition import Population
from duotone.types import ClientUpdate, DataInfo, RoundInfo

SMALL = DataInfo((1, 8, 8), "classes", 4)


def make(model=cnn_bn, **settings):
    return FedVC(FedVCConfig(**settings), as_network(model))


def layer_of(model: nn.Module) -> ConceptLinear:
    (found,) = (module for module in model.modules() if isinstance(module, ConceptLinear))
    return found


class NarrowHead(nn.Module):
    """A network whose last layer is given a number that says nothing about the domain."""

    def __init__(self, data: DataInfo) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.read = nn.Linear(6, 1)
        self.head = nn.Linear(1, data.outputs)
        with torch.no_grad():
            self.first.weight.copy_(torch.eye(6))
            self.read.weight.copy_(torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]]))
            self.read.bias.fill_(-1.5)
        for layer in (self.first, self.read):
            layer.requires_grad_(False)

    def forward(self, x):
        return self.head(self.read(self.first(x)))


class Precise(nn.Module):
    """A network in double precision, small enough for differences in every parameter."""

    def __init__(self, data: DataInfo) -> None:
        super().__init__()
        self.first = nn.Linear(6, 4).double()
        self.head = nn.Linear(4, data.outputs).double()

    def forward(self, x):
        return self.head(torch.tanh(self.first(x.double())))


# -- loss and averages


def test_preference_loss_by_hand():
    estimated = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    assert float(preference_loss(estimated, torch.tensor([1.0, 0.0]))) == (4 + 1) / 2


def test_moving_averages_by_hand():
    seen = Moving(kappa=0.25)
    seen.add(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([[2.0], [4.0]]))
    seen.add(torch.tensor([[0.0, 1.0]]), torch.tensor([[8.0]]))
    # S: 0.25 · 0.75 · [1.5, 0.5] + 0.75 · [0, 1]; C: 0.25 · 0.75 · [5, 1] + 0.75 · [0, 8].
    assert seen.mass.tolist() == pytest.approx([0.28125, 0.84375])
    assert seen.places.flatten().tolist() == pytest.approx([0.9375, 6.1875])
    assert seen.count == pytest.approx(0.25 * 0.75 * 2 + 0.75)
    assert seen.weights.tolist() == pytest.approx([0.25, 0.75])


def test_the_last_batch_is_nearly_all_that_the_printed_average_keeps():
    seen = Moving(kappa=0.05)
    for _ in range(20):
        seen.add(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0]]))
    seen.add(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0]]))
    assert float(seen.weights[1]) == pytest.approx(0.95, abs=1e-6)


# -- as printed


def test_the_printed_head_is_on_the_features_and_a_hidden_layer_by_wish():
    assert isinstance(make(variant="paper").build(SMALL).head, ConceptLinear)
    model = make(mlp, variant="paper", layer="fc1").build(SMALL)
    assert isinstance(model.fc2, ConceptLinear)


def test_printed_sizes():
    layer = layer_of(make(variant="paper").build(SMALL))
    assert tuple(layer.centres.shape) == (10, 10)
    assert float(layer.sharpness) == pytest.approx(0.1)


def test_the_server_moves_concepts_to_the_mean_of_their_samples():
    method = make(variant="paper", concepts=2, dimensions=1)
    info = RoundInfo(1, 5, 0, SMALL)
    server = method.start(info)
    before = server.shared["head.centres"]

    def update(client, mass, places):
        extra = {"mass": torch.tensor(mass), "places": torch.tensor(places)}
        return ClientUpdate(client, server.shared, 10, extra)

    new = method.server_update(
        server,
        [update("a", [1.0, 0.0], [[2.0], [0.0]]), update("b", [3.0, 0.0], [[6.0], [0.0]])],
        info,
    )
    assert new.shared["head.centres"].flatten().tolist() == [2.0, float(before[1])]


def test_concepts_stay_put_while_a_client_trains_as_printed():
    population = make_population()
    method = make(variant="paper")
    info = RoundInfo(1, 5, 0, population.info)
    server = method.start(info)
    client = method.first_state(server, info)
    update, state = method.client_update(server, client, population.data("c0"), info)
    assert torch.equal(update.shared["head.centres"], server.shared["head.centres"])
    assert not torch.equal(update.shared["head.projection"], server.shared["head.projection"])
    assert list(state.local) == ["head.weights"]
    assert "head.weights" not in update.shared
    assert set(update.extra) == {"mass", "places"}


def test_unified_learning_moves_concepts_and_sends_nothing_more():
    population = make_population()
    info = RoundInfo(1, 5, 0, population.info)
    method = make(variant="paper", learning="unified")
    server = method.start(info)
    client = method.first_state(server, info)
    update, _ = method.client_update(server, client, population.data("c0"), info)
    assert not torch.equal(update.shared["head.centres"], server.shared["head.centres"])
    assert not update.extra


@pytest.mark.parametrize("feed", [False, True])
@pytest.mark.parametrize("learning", ["em", "unified"])
def test_a_step_follows_the_printed_loss(learning, feed):
    """One step of SGD on one batch, against differences of the loss written anew in NumPy."""
    population = two_worlds()
    data = population.data("a0")
    x, y = data.x.double().numpy(), data.labels.numpy()
    gamma, iota, lr = 0.3, 0.7, 1.0
    method = make(
        Precise,
        variant="paper",
        learning=learning,
        feed=feed,
        concepts=3,
        dimensions=2,
        gamma=gamma,
        iota=iota,
        lr=lr,
        epochs=1,
        batch_size=len(x),
    )
    info = RoundInfo(1, 5, 0, population.info)
    server = method.start(info)
    client = method.first_state(server, info)
    update, state = method.client_update(server, client, data, info)

    names = ["first.weight", "first.bias"]
    names += [f"head.{own}" for own in ("weight", "bias", "projection", "projection_bias")]
    if learning == "unified":
        names.append("head.centres")
    start = {name: tensor.numpy().copy() for name, tensor in server.shared.items()}

    def terms(at):
        """Return mean l_cls, p̂ of all samples and the responsibilities, in printed form."""
        z = np.tanh(x @ at["first.weight"].T + at["first.bias"])
        places = z @ at["head.projection"].T + at["head.projection_bias"]
        apart = places[:, None, :] - at["head.centres"][None]
        near = weights * np.exp(-iota * (apart**2).sum(axis=2))  # Eq. (6.1)
        shares = near / near.sum(axis=1, keepdims=True)
        estimated = shares @ at["head.centres"]
        seen = np.concatenate([z, estimated], axis=1) if feed else z
        scores = seen @ at["head.weight"].T + at["head.bias"]
        logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return -logs[np.arange(len(y)), y].mean(), estimated, shares

    # One batch: v of the first loop is the mean of responsibilities under equal weights.
    weights = np.full(3, 1 / 3)
    weights = terms(start)[2].mean(axis=0)
    assert weights.min() > FLOOR
    np.testing.assert_allclose(state.local["head.weights"].numpy(), weights, atol=1e-12)
    still_estimated = terms(start)[1]  # sg[p̂]
    still_preference = weights @ start["head.centres"]  # sg[p]

    def loss(at):
        task, estimated, _ = terms(at)
        value = task + ((estimated - still_preference) ** 2).sum(axis=1).mean()
        if learning == "unified":  # Eq. (6.12)
            preference = weights @ at["head.centres"]
            value += gamma * ((still_estimated - preference) ** 2).sum(axis=1).mean()
        return value

    assert update.metrics["train_loss"] == pytest.approx(loss(start), rel=1e-6)
    for name in names:
        slope = np.zeros_like(start[name])
        for place in np.ndindex(slope.shape):
            sides = []
            for step in (1e-5, -1e-5):
                moved = start[name].copy()
                moved[place] += step
                sides.append(loss({**start, name: moved}))
            slope[place] = (sides[0] - sides[1]) / 2e-5
        assert np.abs(slope).max() > 1e-4, name
        found = update.shared[name].numpy() - start[name]
        np.testing.assert_allclose(found, -lr * slope, atol=1e-8, rtol=1e-5, err_msg=name)
    if learning == "em":
        assert torch.equal(update.shared["head.centres"], server.shared["head.centres"])


def test_a_fed_classifier_depends_on_the_client():
    method = make(variant="paper", feed=True, iota=1.0)
    info = RoundInfo(1, 5, 0, SMALL)
    server = method.start(info)
    x = torch.rand(3, 1, 8, 8)
    outputs = []
    for first in (0.99, 0.01):
        weights = torch.tensor([first, *[(1 - first) / 9] * 9])
        model = method.load({**server.shared, "head.weights": weights}, SMALL).eval()
        outputs.append(method.predict(model, x))
    assert not torch.allclose(*outputs)


def test_only_the_printed_classifier_can_be_fed():
    with pytest.raises(ValidationError, match="variant=paper"):
        FedVCConfig(feed=True)


def test_the_collapse_of_the_printed_defaults_is_detected():
    population = two_worlds()
    method = make(mlp, variant="paper")
    *_, last = federate(method, population, rounds=5, states=MemoryStates())
    lines = " ".join(method.warnings(last.server))
    assert "collapsed" in lines
    assert "all concepts alike" in lines
    assert method.monitors(last.server)["spread"] < 0.1


# -- made to work


def test_training_is_that_of_fedavg_bit_for_bit():
    population = make_population()
    ours = list(federate(make(), population, rounds=3, sampled=2))[-1].server.shared
    theirs = list(federate(FedAvg(FedAvg.Config(), cnn_bn), population, rounds=3, sampled=2))
    for name, tensor in theirs[-1].server.shared.items():
        assert torch.equal(ours[name], tensor), name


def test_members_are_asked_when_training_is_over_and_for_statistics_alone():
    population = two_worlds()
    first, last = federate(make(mlp), population, rounds=2)
    assert not first.collected
    members = len(population.partition.members)
    forms = [set(update.extra) for update in last.collected[::members]]
    sums = {"mass", "places", "squares", "entropy"}
    heads = {"mass", "weight", "bias"}
    assert forms == [{"mean", "covariance"}, *[sums] * PASSES, *[heads] * HEAD_PASSES]
    told = last.collected[members].extra
    assert max(t.numel() for t in told.values()) == last.server.shared["fc2.centres"].numel()


def test_numbers_as_targets_have_concepts_and_no_heads():
    population = two_worlds()
    dataset = replace(population.dataset, y=population.dataset.y.astype(np.float32), classes=0)
    population = Population(dataset, population.partition)
    method = make(mlp)
    *_, last = federate(method, population, rounds=2)
    assert "fc2.heads.on" not in last.server.shared
    assert method.monitors(last.server)["information"] > 0.5


def test_heads_are_off_until_they_are_turned_on():
    population = two_worlds()
    method = make(mlp)
    *_, last = federate(method, population, rounds=2)
    assert last.server.shared["fc2.heads.weight"].any()
    serving = Serving(last.server, last.info, "label-free")
    task, x = ClientTask("nb", None), population.data("nb", "test").x
    model = serving.model(method, population, task)
    torch.testing.assert_close(method.predict(model, x), model(x), rtol=0, atol=0)
    chosen = Personalisation("context", (0.5, 0.5))
    model = replace(serving, chosen=chosen).model(method, population, task)
    assert not torch.allclose(method.predict(model, x), model(x))


def test_heads_answer_what_one_model_cannot():
    """In one world the label is upside down, and the network does not see which world it is in."""
    population = two_worlds()
    flipped = np.where(population.dataset.domain == "b", 1, 0) ^ population.dataset.y
    population = Population(replace(population.dataset, y=flipped), population.partition)
    method = make(NarrowHead, lr=0.3)
    *_, last = federate(method, population, rounds=3)
    serving = Serving(last.server, last.info, "label-free")
    right = {}
    for way in ("none", "context"):
        chosen = replace(serving, chosen=Personalisation(way, (0.5, 0.5)))
        found = []
        for client in ("na", "nb"):
            data = population.data(client, "test")
            model = chosen.model(method, population, ClientTask(client, None))
            found.append((method.predict(model, data.x).argmax(1) == data.labels).float().mean())
        right[way] = float(sum(found)) / 2
    assert right["none"] < 0.75
    assert right["context"] > 0.85


@pytest.mark.parametrize("mixed", [0.5, 0.25])
def test_concepts_are_the_worlds_and_newcomers_are_mixtures_of_them(mixed):
    population = two_worlds(mixed)
    method = make(mlp)
    *_, last = federate(method, population, rounds=3, states=MemoryStates())
    assert method.warnings(last.server) == []
    assert method.monitors(last.server)["information"] > 0.5
    serving = Serving(last.server, last.info, "label-free")
    weights = {}
    for client in population.partition:
        model = serving.model(method, population, ClientTask(client, None))
        weights[client] = np.array(list(method.facts(model).values()))
    assert len(weights["a0"]) == 2
    b = int(weights["b0"].argmax())
    for client, held in weights.items():
        if client != "mix":
            assert held[b if "b" in client else 1 - b] > 0.9, client
    assert weights["mix"][b] == pytest.approx(mixed, abs=0.1)


def test_the_number_of_concepts_can_be_asked_for():
    method = make(concepts=5)
    *_, last = federate(method, make_population(members=6), rounds=1)
    assert int((last.server.shared["head.shares"] > 0).sum()) == 5
    assert "because they were asked for" in method.warnings(last.server)[0]


def test_alike_clients_have_no_concepts_and_are_told_so():
    population = make_population(members=6)
    method = make(mlp)
    *_, last = federate(method, population, rounds=2)
    assert not last.server.shared["fc2.shares"].any()
    (line,) = method.warnings(last.server)
    assert "Nothing that tells clients apart" in line
    serving = Serving(last.server, last.info, "label-free")
    task, x = ClientTask("c0", None), population.data("c0", "test").x
    chosen = Personalisation("context", (0.25,) * 4)
    model = replace(serving, chosen=chosen).model(method, population, task)
    torch.testing.assert_close(method.predict(model, x), model(x), rtol=0, atol=0)
    assert method.encode(model, x).local.shape == (len(x), 0)


def test_without_concepts_yet_weights_are_nothing():
    population = make_population()
    method = make()
    first, *_ = federate(method, population, rounds=2)
    serving = Serving(first.server, first.info, "label-free")
    model = serving.model(method, population, ClientTask("c0", None))
    assert method.facts(model) == {}
    assert method.encode(model, population.data("c0").x[:2]).local.shape == (2, 0)


def test_a_single_member_has_nobody_to_differ_from():
    population = make_population(members=1, newcomers=0)
    *_, last = federate(make(), population, rounds=1)
    assert last.refused == {}
    assert make().warnings(last.server) == []
    assert not last.server.shared["head.shares"].any()


class Mute(FedVC):
    """One of two members cannot tell its moments."""

    def collect(self, server, client, data, info):
        told = super().collect(server, client, data, info)
        if info.asking == 1 and data.client == "c1":
            told = replace(told, extra={name: t * torch.nan for name, t in told.extra.items()})
        return told


def test_where_no_concept_was_found_nothing_more_is_told():
    method = Mute(FedVCConfig(), as_network(cnn_bn))
    *_, last = federate(method, make_population(members=2, newcomers=0), rounds=1)
    assert list(last.refused) == ["c1"]
    assert not last.server.shared["head.shares"].any()
    assert all(not update.extra for update in last.collected[1:])


def test_a_model_without_a_hidden_layer_is_an_error():
    with pytest.raises(ConfigError, match="hidden"):
        make(lambda data: nn.Linear(64, 4), variant="paper").build(DataInfo((64,), "classes", 4))


def test_newcomers_find_their_weights_without_a_label():
    population = two_worlds()
    method = make(mlp)
    *_, last = federate(method, population, rounds=2)
    data = population.data("nb")
    with_labels = method.join(last.server, data, last.info)
    without = method.join(last.server, data.without_labels(), last.info)
    for name, tensor in with_labels.local.items():
        assert torch.equal(tensor, without.local[name])
    blind = method.first_state(last.server, last.info)
    assert not blind.local["fc2.weights"].any()
