from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from federations import make_population

from duotone.errors import ConfigError, TrainingError
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, federate, sample_clients
from duotone.federation.local_training import batches
from duotone.methods.baselines.fedavg import FedAvg
from duotone.networks.classifiers import cnn_bn, mlp
from duotone.types import ClientState, ClientUpdate, DataInfo, Form, RoundInfo, ServerState

INFO = RoundInfo(1, 5, 0, DataInfo((1, 8, 8), "classes", 4))


def test_one_client_and_one_round_is_plain_sgd():
    population = make_population(members=1, newcomers=0)
    method = FedAvg(FedAvg.Config(epochs=2, batch_size=10), cnn_bn)
    (result,) = federate(method, population, rounds=1, seed=3)

    shared, _ = method.initial(replace(INFO, seed=3, rounds=1))
    model = cnn_bn(population.info).to(memory_format=torch.channels_last)
    model.load_state_dict(shared)
    data = population.data("c0")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    generator = replace(INFO, seed=3, rounds=1).generator("client", "c0", "train")
    for _ in range(2):
        for rows in batches(len(data), 10, generator):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(data.x[rows]), data.y[rows]).backward()
            optimizer.step()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, result.server.shared[name]), name


def test_a_round_is_the_weighted_mean_of_what_clients_trained(population):
    method = FedAvg(FedAvg.Config(), cnn_bn)
    (result,) = federate(method, population, rounds=1)
    assert [update.client for update in result.updates] == ["c0", "c1", "c2"]
    for name in ("fc1.weight", "norm1.running_mean", "norm2.running_var"):
        expected = torch.stack([update.shared[name].double() for update in result.updates]).mean(0)
        assert torch.allclose(result.server.shared[name].double(), expected, atol=1e-7), name


def test_newcomers_take_no_part(population):
    seen = MemoryStates()
    for result in federate(FedAvg(FedAvg.Config(), mlp), population, rounds=2, states=seen):
        assert {update.client for update in result.updates} == {"c0", "c1", "c2"}


def test_continuing_gives_the_same_bits_as_never_stopping(population):
    from duotone.federation.engine import Start

    method = FedAvg(FedAvg.Config(), cnn_bn)
    whole = list(federate(method, population, rounds=4, sampled=2, seed=5))
    middle = whole[1]
    rest = list(
        federate(
            method,
            population,
            rounds=4,
            sampled=2,
            seed=5,
            start=Start(2, copy.deepcopy(middle.server)),
        )
    )
    assert [result.info.round for result in rest] == [3, 4]
    for name, tensor in whole[-1].server.shared.items():
        assert torch.equal(tensor, rest[-1].server.shared[name]), name


def test_sampling_draws_without_replacement_and_differs_between_rounds():
    members = [str(i) for i in range(40)]
    draws = [tuple(sample_clients(members, 10, replace(INFO, round=r))) for r in range(1, 6)]
    assert all(len(set(draw)) == 10 for draw in draws)
    assert len(set(draws)) == 5
    assert draws[0] == tuple(sample_clients(members, 10, INFO))


def test_more_clients_than_members_is_an_error():
    with pytest.raises(ConfigError, match="only 2 members"):
        sample_clients(["a", "b"], 3, INFO)


class Poisoned(FedAvg):
    """Client c1 sends NaN."""

    def client_update(self, server, client, data, info):
        update, _ = super().client_update(server, client, data, info)
        if data.client == "c1":
            update = replace(update, shared={k: v * torch.nan for k, v in update.shared.items()})
        return update, ClientState({"mark": torch.ones(1)})


def test_a_bad_update_is_refused_by_name_and_the_round_goes_on(population):
    states = MemoryStates()
    (result,) = federate(Poisoned(FedAvg.Config(), mlp), population, rounds=1, states=states)
    assert list(result.refused) == ["c1"]
    assert "NaN" in result.refused["c1"]
    assert [update.client for update in result.updates] == ["c0", "c2"]
    assert all(torch.isfinite(tensor).all() for tensor in result.server.shared.values())
    assert states.get("c1") is None, "the state beside a refused update is not kept"
    assert states.get("c0") is not None


class Counting(FedAvg):
    """Asks in every second round how many samples each member has; one member cannot tell."""

    def collects(self, info):
        return info.round == 2

    def collected_form(self, server, info):
        return {"size": Form(())}

    def collect(self, server, client, data, info):
        size = float("nan") if data.client == "c1" else float(len(data))
        return ClientUpdate(data.client, {}, len(data), {"size": torch.tensor(size)})

    def pool(self, server, collected, info):
        total = torch.stack([update.extra["size"] for update in collected]).sum()
        return ServerState(server.shared, {"total": total})


def test_statistics_are_collected_from_all_members_and_bad_ones_refused(population):
    method = Counting(FedAvg.Config(), mlp)
    first, second, third = federate(method, population, rounds=3, sampled=1)
    assert not first.collected
    assert [update.client for update in second.collected] == ["c0", "c2"]
    assert "NaN" in second.refused["c1"]
    assert third.server.extra["total"] == sum(update.weight for update in second.collected)


class Undeclared(FedAvg):
    """Forgets to say what its statistics look like."""

    def collects(self, info):
        return 1

    def collect(self, server, client, data, info):
        return ClientUpdate(data.client, {}, len(data))

    def pool(self, server, collected, info):
        return server


def test_a_method_that_collects_must_declare_what(population):
    with pytest.raises(ConfigError, match="must answer collected_form as well"):
        list(federate(Undeclared(FedAvg.Config(), mlp), population, rounds=1))


class Twice(Counting):
    """Asks twice: the second time for what the server made of the first answers."""

    def collects(self, info):
        return 2

    def collect(self, server, client, data, info):
        told = float(len(data)) if info.asking == 1 else 2 * float(server.extra["total"])
        return ClientUpdate(data.client, {}, len(data), {"size": torch.tensor(told)})


def test_members_can_be_asked_again_about_what_they_told(population):
    (result,) = federate(Twice(FedAvg.Config(), mlp), population, rounds=1)
    clients = [update.client for update in result.collected]
    assert clients == ["c0", "c1", "c2"] * 2
    total = sum(update.weight for update in result.collected[:3])
    assert result.server.extra["total"] == 3 * 2 * total


def test_a_round_without_any_good_update_stops_with_advice():
    population = make_population(members=1, newcomers=0)
    method = FedAvg(FedAvg.Config(lr=1e30), mlp)
    with pytest.raises(TrainingError, match=r"of 1 clients nobody sent.*'c0'.*NaN.*lr"):
        list(federate(method, population, rounds=1))


class Broken(FedAvg):
    """Clients of ``broken`` raise."""

    broken = ("c0",)
    error: Exception = ZeroDivisionError("boom")

    def client_update(self, server, client, data, info):
        if data.client in self.broken:
            raise self.error
        return super().client_update(server, client, data, info)


def test_a_client_that_raises_is_left_out_by_name(population):
    (result,) = federate(Broken(FedAvg.Config(), mlp), population, rounds=1)
    assert list(result.refused) == ["c0"]
    assert (
        "it failed: ZeroDivisionError: boom (in your own code, test_engine.py, line "
        in result.refused["c0"]
    )
    assert [update.client for update in result.updates] == ["c1", "c2"]


def test_if_all_clients_raise_the_first_of_them_is_told_with_its_traceback(population):
    method = Broken(FedAvg.Config(), mlp)
    method.broken = ("c0", "c1", "c2")
    with pytest.raises(TrainingError, match=r"of 3 clients nobody.*'c0'.*ZeroDiv") as caught:
        list(federate(method, population, rounds=1))
    assert "raise self.error" in caught.value.__notes__[0]


def test_what_all_clients_raise_on_purpose_is_raised_again(population):
    method = Broken(FedAvg.Config(), mlp)
    method.broken, method.error = ("c0", "c1", "c2"), ConfigError("the model has no head")
    with pytest.raises(ConfigError, match="the model has no head"):
        list(federate(method, population, rounds=1))
    method.broken = ("c0",)  # one alone may be wrong about it
    (result,) = federate(method, population, rounds=1)
    assert "no head" in result.refused["c0"]


class Silent(Serial):
    """Clients of ``silent`` give no answer."""

    silent = ("c1",)

    def map_clients(self, job, tasks):
        for result in super().map_clients(job, tasks):
            if result.client not in self.silent:
                yield result


def test_a_silent_client_is_reported_by_name(population):
    method = FedAvg(FedAvg.Config(), mlp)
    backend = Silent(method, population)
    (result,) = federate(method, population, rounds=1, backend=backend)
    assert result.refused == {"c1": "it did not answer"}
    backend.silent = ("c0", "c1", "c2")
    with pytest.raises(TrainingError, match=r"of 3 clients nobody sent.*it did not answer"):
        list(federate(method, population, rounds=1, backend=backend))


def test_a_round_needs_its_quorum(population):
    method = Broken(FedAvg.Config(), mlp)
    (result,) = federate(method, population, rounds=1, quorum=2)
    assert len(result.updates) == 2
    with pytest.raises(TrainingError, match=r"of 3 clients only 2 sent.*needs 3.*'c0'"):
        list(federate(method, population, rounds=1, quorum=3))


class Twisted(Serial):
    """Answers of ``c1`` come with other names, and once more."""

    def map_clients(self, job, tasks):
        for result in super().map_clients(job, tasks):
            if result.client == "c1":
                update, state = result.value
                yield replace(result, value=(replace(update, client="c0"), state))
                yield result
                yield replace(result, client="nobody")
            else:
                yield result


def test_the_sender_is_who_was_asked_and_answers_once(population):
    method = FedAvg(FedAvg.Config(), mlp)
    (plain,) = federate(method, population, rounds=1)
    (result,) = federate(method, population, rounds=1, backend=Twisted(method, population))
    assert [update.client for update in result.updates] == ["c0", "c1", "c2"]
    for name, tensor in plain.server.shared.items():
        assert torch.equal(tensor, result.server.shared[name]), name


class Meddling(FedAvg):
    """Clients change in place whatever they are handed."""

    def client_update(self, server, client, data, info):
        found = super().client_update(server, client, data, info)
        for params in (server.shared, server.extra, client.local, client.extra):
            for tensor in params.values():
                tensor.zero_()
            params["stolen"] = data.x
        data.x.zero_()
        return found

    def collects(self, info):
        return 1

    def collect(self, server, client, data, info):
        server.extra["stolen"] = data.x
        return ClientUpdate(data.client, {}, len(data))

    def collected_form(self, server, info):
        return {}

    def pool(self, server, collected, info):
        assert len(collected) == 3
        return server


def test_what_a_client_does_to_the_servers_state_reaches_nobody(population):
    honest = list(federate(FedAvg(FedAvg.Config(), cnn_bn), population, rounds=2))
    states = MemoryStates()
    meddled = list(federate(Meddling(FedAvg.Config(), cnn_bn), population, rounds=2, states=states))
    assert honest[-1].server.shared.keys() == meddled[-1].server.shared.keys()
    for name, tensor in honest[-1].server.shared.items():
        assert torch.equal(tensor, meddled[-1].server.shared[name]), name
    assert meddled[-1].server.extra == {}


def test_a_client_that_is_refused_keeps_the_state_it_had(population):
    class Late(Poisoned):
        def client_update(self, server, client, data, info):
            for tensor in client.local.values():
                tensor.add_(1)  # its own state, in place
            update, _ = super().client_update(server, ClientState(), data, info)
            if info.round == 1:
                _, update = update, FedAvg.client_update(self, server, ClientState(), data, info)[0]
            return update, ClientState({"mark": torch.full((1,), float(info.round))})

    states = MemoryStates()
    list(federate(Late(FedAvg.Config(), mlp), population, rounds=2, states=states))
    assert states.get("c1").local["mark"].item() == 1.0
    assert states.get("c0").local["mark"].item() == 2.0


def test_bad_metrics_are_dropped_and_the_update_counts(population):
    class Odd(FedAvg):
        def client_update(self, server, client, data, info):
            update, state = super().client_update(server, client, data, info)
            loss = float("nan") if data.client == "c1" else 1.0
            return replace(update, metrics={"train_loss": loss}), state

    (result,) = federate(Odd(FedAvg.Config(), mlp), population, rounds=1)
    assert [update.client for update in result.updates] == ["c0", "c1", "c2"]
    assert result.dropped == {"c1": "its metric train_loss is nan"}
    assert result.updates[1].metrics == {}


def test_ambient_randomness_neither_enters_nor_is_touched(population):
    class Dropout(torch.nn.Module):
        def __init__(self, data):
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(64, 4)
            )

        def forward(self, x):
            return self.net(x)

    method = FedAvg(FedAvg.Config(), Dropout)
    torch.manual_seed(1)
    (first,) = federate(method, population, rounds=1)
    drawn = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(1)), "the caller's generator was moved"
    torch.manual_seed(2)
    (second,) = federate(method, population, rounds=1)
    for name, tensor in first.server.shared.items():
        assert torch.equal(tensor, second.server.shared[name])
