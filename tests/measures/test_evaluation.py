from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import make_population
from scenes import make_scene

from duotone.federation.backends import ClientTask
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.personalise import Personalisation
from duotone.federation.serving import Serving
from duotone.federation.store import Shelf
from duotone.measures.codes import collect_latents
from duotone.measures.evaluation import EvaluateJob, choose_clients, evaluate
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.baselines.fedavg_ft import FedAvgFT
from duotone.networks.classifiers import cnn_bn
from duotone.types import ClientState, RoundInfo


@pytest.fixture
def trained(population):
    method = FedAvg(FedAvg.Config(), cnn_bn)
    states = MemoryStates()
    results = list(federate(method, population, rounds=2, states=states))
    return method, states, Serving(results[-1].server, results[-1].info, "zero-shot")


def test_accuracy_is_that_of_the_model_on_the_clients_own_test_samples(population, trained):
    method, _, serving = trained
    model = cnn_bn(population.info)
    model.load_state_dict(serving.server.shared)
    model.eval()
    for client in population.partition:
        data = population.data(client, "test")
        expected = (model(data.x).argmax(1) == data.y).float().mean().item()
        scores = EvaluateJob(serving)(method, population, ClientTask(client, None))
        assert scores["accuracy"] == pytest.approx(expected)


def test_rows_come_in_the_order_of_the_partition_with_group_and_kind(population, trained):
    method, states, serving = trained
    backend = Serial(method, population)
    rows = evaluate(serving, list(population.partition), population, states, backend)
    assert [row.client for row in rows if row.metric == "accuracy"] == ["c0", "c1", "c2", "c3"]
    assert {row.role for row in rows if row.client == "c3"} == {"newcomer"}
    assert {row.metric for row in rows} >= {"accuracy", "auc", "f1", "loss", "val_accuracy"}


class Spy(FedAvg):
    """Remembers what it is asked, and with which samples."""

    newcomer_rules = ("few-shot", "label-free", "zero-shot")

    def first_state(self, server, info):
        self.seen = ("first_state", None)
        return ClientState()

    def before_use(self, server, client, data, info):
        self.seen = ("before_use", data)
        return ClientState()

    def join(self, server, data, info):
        self.seen = ("join", data)
        return ClientState()


@pytest.mark.parametrize("rule", ["zero-shot", "label-free", "few-shot"])
def test_a_newcomer_shows_exactly_what_its_rule_allows(population, rule):
    method = Spy(FedAvg.Config(), cnn_bn)
    info = RoundInfo(1, 1, 0, population.info)
    serving = Serving(method.start(info), info, rule, shots=3 if rule == "few-shot" else None)
    serving.model(method, population, ClientTask("c3", None))
    question, data = method.seen
    assert question == ("first_state" if rule == "zero-shot" else "join")
    if rule == "zero-shot":
        assert data is None
    elif rule == "label-free":
        assert data.y is None
        assert torch.equal(data.x, population.data("c3", "train").x)
    else:
        assert len(data) == len(data.y) == 3
        assert torch.equal(data.x, population.data("c3", "train").x[:3])


def test_a_member_adapts_on_its_training_samples_and_never_sees_test_samples(population):
    method = Spy(FedAvg.Config(), cnn_bn)
    info = RoundInfo(1, 1, 0, population.info)
    serving = Serving(method.start(info), info, "zero-shot")
    serving.model(method, population, ClientTask("c0", ClientState()))
    question, data = method.seen
    assert question == "before_use"
    assert torch.equal(data.x, population.data("c0", "train").x)


class Unaided(Spy):
    """Has no rule for inputs without labels."""

    newcomer_rules = ("few-shot", "zero-shot")


def test_inputs_alone_are_not_shown_to_a_method_that_has_no_rule_for_them(population):
    method = Unaided(FedAvg.Config(), cnn_bn)
    info = RoundInfo(1, 1, 0, population.info)
    chosen = Personalisation("prior", (0.25,) * 4)
    serving = Serving(method.start(info), info, "label-free", chosen=chosen)
    serving.model(method, population, ClientTask("c3", None))
    assert method.seen == ("first_state", None)


@pytest.mark.parametrize(
    ("client", "rule", "shots", "shown"),
    [
        ("c0", "zero-shot", None, 24),
        ("c3", "label-free", None, 24),
        ("c3", "few-shot", 5, 5),
        ("c3", "zero-shot", None, None),
    ],
)
def test_a_model_is_personalised_by_training_inputs_as_far_as_they_are_shown(
    population, monkeypatch, client, rule, shots, shown
):
    seen = []

    def spy(method, params, x, info, chosen):
        seen.append(x)
        return params

    monkeypatch.setattr("duotone.federation.serving.personalised", spy)
    method = FedAvg(FedAvg.Config(), cnn_bn)
    info = RoundInfo(1, 1, 0, population.info)
    chosen = Personalisation("prior", (0.25,) * 4)
    serving = Serving(method.start(info), info, rule, shots, chosen)
    serving.model(method, population, ClientTask(client, None))
    if shown is None:
        assert not seen
    else:
        (x,) = seen
        assert torch.equal(x, population.data(client, "train").x[:shown])


class Constant(FedAvg):
    """Everything is local, and a client always answers the class that its state names."""

    def is_shared(self, name, owner):
        return False

    def personal(self, server, client):
        params = {**super().personal(server, client)}
        bias = torch.nn.functional.one_hot(client.extra["answer"], 4).float()
        return params | {"head.weight": 0 * params["head.weight"], "head.bias": bias}


def test_every_member_is_scored_with_its_own_state(population):
    method = Constant(FedAvg.Config(), cnn_bn)
    info = RoundInfo(1, 1, 0, population.info)
    _, local = method.initial(info)
    answers = {"c0": 0, "c1": 3, "c2": 2}
    states = MemoryStates(
        {c: ClientState(local, {"answer": torch.tensor(n)}) for c, n in answers.items()}
    )
    serving = Serving(method.start(info), info, "zero-shot")
    rows = evaluate(serving, list(answers), population, states, Serial(method, population))
    # Of twelve test samples: six of class 0 at c0, one of class 3 at c1, four of class 2 at c2.
    found = [round(12 * row.value) for row in rows if row.metric == "accuracy"]
    assert found == [6, 1, 4]


def test_fine_tuning_changes_the_model_and_zero_epochs_is_fedavg(population, trained):
    _, _, serving = trained
    plain = EvaluateJob(serving)(
        FedAvg(FedAvg.Config(), cnn_bn), population, ClientTask("c0", None)
    )
    same = FedAvgFT(FedAvgFT.Config(finetune_epochs=0), cnn_bn)
    tuned = FedAvgFT(FedAvgFT.Config(finetune_epochs=2), cnn_bn)
    assert EvaluateJob(serving)(same, population, ClientTask("c0", None)) == plain
    assert EvaluateJob(serving)(tuned, population, ClientTask("c0", None))["loss"] != plain["loss"]


class Counting(FedAvgFT):
    """Counts how often it is asked to learn from samples."""

    asked = 0

    def before_use(self, server, client, data, info):
        self.asked += 1
        return super().before_use(server, client, data, info)


@pytest.mark.parametrize("client", ["c0", "c3"])
def test_with_a_shelf_a_client_adapts_once_and_answers_as_it_would_without(
    population, trained, tmp_path, client
):
    _, _, serving = trained
    method = Counting(FedAvgFT.Config(), cnn_bn)
    plain = replace(serving, rule="few-shot")
    shelved = replace(plain, shelf=Shelf(tmp_path))
    task = ClientTask(client, None)
    answers = [EvaluateJob(s)(method, population, task) for s in (plain, shelved, shelved)]
    assert answers[0] == answers[1] == answers[2]
    assert method.asked == 2


def test_a_limit_chooses_the_same_clients_every_time():
    partition = make_population(members=20, newcomers=5, samples=4).partition
    chosen = choose_clients(partition, 3, seed=0)
    assert chosen == choose_clients(partition, 3, seed=0)
    assert [partition[c].role for c in chosen] == ["member"] * 3 + ["newcomer"] * 3
    assert choose_clients(partition, 1000, 0) == list(partition)


def test_latents_have_one_row_per_sample_with_its_owner(population, trained):
    method, states, serving = trained
    scene = make_scene(method, population, serving, states=states, latents=5)
    arrays = collect_latents(scene)
    assert arrays["shared"].shape == (4 * 3 * 5, 128)
    assert arrays["local"].shape == (60, 0)
    assert all(len(values) == 60 for values in arrays.values())
    row = 12  # the third test sample of client c0
    assert (arrays["client"][row], arrays["split"][row]) == ("c0", "test")
    index = arrays["index"][row]
    assert index == population.partition["c0"].test[2]
    assert arrays["label"][row] == population.dataset.y[index]
    x = population.data("c0", "test").x[2:3]
    model = method.load(serving.server.shared, population.info).eval()
    assert np.allclose(arrays["shared"][row], method.features(model, x).detach(), atol=1e-5)


def test_untrained_codes_are_those_of_the_network_before_the_first_round(population, trained):
    method, states, serving = trained
    scene = make_scene(method, population, serving, states=states, latents=5)
    arrays = collect_latents(scene)
    first, _ = FedAvg(FedAvg.Config(), cnn_bn).initial(replace(serving.info, round=0))
    rows = (arrays["client"] == "c1") & (arrays["split"] == "test")
    x = population.data("c1", "test").x[:5]
    model = method.load(first, population.info).eval()
    expected = method.features(model, x).detach().numpy()
    assert np.allclose(arrays["untrained_shared"][rows], expected, atol=1e-5)
    assert not np.allclose(arrays["shared"][rows], expected, atol=1e-2)


class Aligned(FedAvgFT):
    """Says that its shared codes can be compared."""

    def has_common_axes(self, part):
        return part == "shared"


@pytest.mark.parametrize(("method", "expected"), [(FedAvgFT, True), (Aligned, False)])
def test_codes_are_made_anew_by_one_encoder_unless_they_have_common_axes(
    population, trained, method, expected
):
    _, states, serving = trained
    tuned = method(method.Config(finetune_lr=0.1), cnn_bn)
    arrays = collect_latents(make_scene(tuned, population, serving, states=states, latents=5))
    parts = {"shared", "local"} if expected else {"local"}
    assert {part for part in ("shared", "local") if f"common_{part}" in arrays} == parts


class Sick(FedAvg):
    """The model of client ``c1`` answers NaN, that of ``c2`` cannot be made."""

    def before_use(self, server, client, data, info):
        if data.client == "c2":
            raise ZeroDivisionError("boom")
        if data.client == "c1":
            sick = torch.full_like(server.shared["head.weight"], torch.inf)
            return ClientState({**client.local, "head.weight": sick})
        return client


def test_a_client_that_fails_or_answers_nan_leaves_a_gap_and_a_warning(population, trained):
    _, states, serving = trained
    method = Sick(FedAvg.Config(), cnn_bn)
    backend = Serial(method, population)
    said: list[str] = []
    backend.say = said.append
    rows = evaluate(serving, list(population.partition), population, states, backend)
    honest = evaluate(serving, ["c0", "c3"], population, states, Serial(trained[0], population))
    assert rows == honest, "no row for those that failed, and the others as ever"
    assert len(said) == 2
    assert "'c1' is left out" in said[0]
    assert "NaN or infinite values to 12 of 12 samples" in said[0]
    assert "'c2' is left out" in said[1]
    assert "ZeroDivisionError: boom" in said[1]


def test_samples_of_a_client_that_fails_are_left_out_of_the_latents(population, trained):
    _, states, serving = trained
    method = Sick(FedAvg.Config(), cnn_bn)
    backend = Serial(method, population)
    backend.say = lambda line: None
    clients = ["c0", "c2", "c3"]
    scene = make_scene(
        method, population, serving, clients=clients, states=states, backend=backend, latents=3
    )
    latents = collect_latents(scene)
    assert sorted(set(latents["client"])) == ["c0", "c3"]
    assert len({len(values) for values in latents.values()}) == 1


def test_evaluation_cannot_reach_the_servers_state(population, trained):
    class Meddling(FedAvg):
        def before_use(self, server, client, data, info):
            for tensor in server.shared.values():
                tensor.zero_()
            server.shared["stolen"] = torch.ones(1)
            del server.shared["stolen"]
            return client

    _, states, serving = trained
    before = {name: tensor.clone() for name, tensor in serving.server.shared.items()}
    backend = Serial(Meddling(FedAvg.Config(), cnn_bn), population)
    evaluate(serving, list(population.partition), population, states, backend)
    assert serving.server.shared.keys() == before.keys()
    for name, tensor in before.items():
        assert torch.equal(tensor, serving.server.shared[name]), name
