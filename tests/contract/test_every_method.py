"""One suite over every registered method: what the contract promises, for all of them."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from federations import make_population
from torch import nn

from duotone.federation.backends import ClientTask
from duotone.federation.backends.lent import Lent
from duotone.federation.backends.processes import Processes
from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, Start, federate
from duotone.federation.jobs import TrainJob
from duotone.federation.serving import Serving
from duotone.measures.codes import EncodeJob
from duotone.measures.evaluation import EvaluateJob
from duotone.methods import METHODS, describe_methods
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network
from duotone.types import ClientState, RoundInfo

EVERY = sorted(METHODS)
ANY_NETWORK = [name for name in EVERY if METHODS.load(name).own_model is None]
TOY = {
    "feddva": {"classify": "tune", "lr": 0.01, "epochs": 10, "label_weight": 20},
    "padpaf": {"lr": 0.0005, "epochs": 6, "batch_size": 12, "rounds": 3},
    "padpaf-vae": {"lr": 0.005, "epochs": 16, "batch_size": 12, "lens": "none", "rounds": 4},
    "ditto-gan": {"lr": 0.0005, "epochs": 10, "batch_size": 6, "prox": 0.1, "rounds": 3},
    "content-style": {"lr": 0.005, "epochs": 5, "batch_size": 12, "rounds": 3},
}
"""Settings with which a method learns a toy task of 24 samples, in six rounds or less."""
ADVERSARIAL = ("padpaf", "ditto-gan")
"""Methods whose loss is that of discriminators: it falls just as well where drawing gets worse."""


def make(name, network=cnn_bn, **settings):
    kind = METHODS.load(name)
    return kind(kind.Config(**settings), as_network(network))


def trained(
    name, *, rounds=3, sampled=2, seed=0, backend=None, start=None, states=None, **settings
):
    population = make_population()
    method = make(name, **settings)
    states = MemoryStates() if states is None else states
    results = list(
        federate(
            method,
            population,
            rounds=rounds,
            sampled=sampled,
            seed=seed,
            backend=backend,
            states=states,
            start=start,
        )
    )
    return method, population, results, states


@cache
def three_rounds(name):
    """Return a federation that several tests look at and none changes."""
    return trained(name)


def assert_same_state(first, second):
    assert_equal(first.local, second.local)
    assert_equal(first.extra, second.extra)


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


@pytest.mark.parametrize("name", EVERY)
def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(name):
    _, _, first, states_a = three_rounds(name)
    _, _, second, states_b = trained(name)
    assert_equal(first[-1].server.shared, second[-1].server.shared)
    assert states_a.states.keys() == states_b.states.keys()
    for client, state in states_a.states.items():
        assert_same_state(state, states_b.states[client])
    method, _, third, states_c = trained(name, rounds=1, seed=1, sampled=None)
    _, _, fourth, states_d = trained(name, rounds=1, seed=0, sampled=None)
    for client in ("c0", "c1"):
        models = [
            method.personal(results[-1].server, states.get(client) or ClientState())
            for results, states in ((third, states_c), (fourth, states_d))
        ]
        assert not torch.equal(models[0]["head.weight"], models[1]["head.weight"])


@pytest.mark.parametrize("name", EVERY)
def test_every_parameter_and_buffer_is_shared_or_local_and_nothing_is_lost(name):
    method = make(name)
    model = method.build(make_population().info)
    shared, local = method.split(model)
    assert not shared.keys() & local.keys()
    assert shared.keys() | local.keys() == set(model.state_dict())


@pytest.mark.parametrize("name", EVERY)
def test_shared_batch_norm_statistics_are_the_mean_of_the_clients(name):
    method, _, results, _ = trained(name, rounds=1, sampled=None)
    (result,) = results
    for update in result.updates:
        # Updates that name a group are averaged within it; all others, over everybody.
        alike = [u for u in result.updates if u.extra.get("group") == update.extra.get("group")]
        weights = torch.tensor([u.weight for u in alike])
        averaged = method.sent(result.server, update)
        for key in averaged:
            if not key.endswith(("running_mean", "running_var")):
                continue
            versions = torch.stack([u.shared[key].double() for u in alike])
            expected = (versions * (weights / weights.sum())[:, None]).sum(0)
            assert torch.allclose(averaged[key].double(), expected, atol=1e-6), key
            untouched = torch.zeros if key.endswith("mean") else torch.ones
            assert not torch.equal(update.shared[key], untouched(update.shared[key].shape)), key


@pytest.mark.parametrize("name", EVERY)
def test_members_that_were_not_drawn_keep_their_state_to_the_bit(name):
    method, population, results, states = trained(name, rounds=1, sampled=2)
    before = dict(states.states)
    rest = federate(
        method,
        population,
        rounds=2,
        sampled=1,
        seed=0,
        states=states,
        start=Start(1, results[-1].server),
    )
    (result,) = rest
    drawn = {update.client for update in result.updates}
    for client, state in before.items():
        if client not in drawn:
            assert_same_state(state, states.states[client])


@pytest.mark.parametrize("name", EVERY)
def test_a_client_computes_the_same_whoever_else_takes_part(name):
    population = make_population()
    method = make(name)
    info = RoundInfo(1, 3, 0, population.info)
    job = TrainJob(method.start(info), info)
    tasks = [ClientTask(client, None) for client in population.partition.members]
    forward = {r.client: r.value for r in Serial(method, population).map_clients(job, tasks)}
    (alone,) = Serial(method, population).map_clients(job, tasks[-1:])
    assert_equal(forward[alone.client][0].shared, alone.value[0].shared)
    assert_same_state(forward[alone.client][1], alone.value[1])


@pytest.mark.parametrize("name", EVERY)
def test_resuming_is_the_same_as_never_stopping(name):
    _, _, whole, whole_states = trained(name, rounds=4)
    states = MemoryStates()
    method, population = make(name), make_population()
    begun = federate(method, population, rounds=4, sampled=2, seed=0, states=states)
    server = [next(begun), next(begun)][-1].server
    begun.close()
    _, _, rest, _ = trained(name, rounds=4, start=Start(2, server), states=states)
    assert_equal(whole[-1].server.shared, rest[-1].server.shared)
    assert_equal(whole[-1].server.extra, rest[-1].server.extra)
    assert whole_states.states.keys() == states.states.keys()
    for client, state in whole_states.states.items():
        assert_same_state(state, states.states[client])


@pytest.fixture(scope="module")
def workers():
    """Processes that serve one method after another: each loads torch, for seconds."""
    with Processes(make("fedavg"), make_population(), 2) as pool:
        yield pool


@pytest.mark.parametrize("name", EVERY)
def test_worker_processes_give_the_same_bits_as_one_process(name, workers):
    _, _, serial, serial_states = three_rounds(name)
    method, population = make(name), make_population()
    pool, states = Lent(workers, method, population), MemoryStates()
    results = list(
        federate(method, population, rounds=3, sampled=2, seed=0, backend=pool, states=states)
    )
    assert_equal(serial[-1].server.shared, results[-1].server.shared)
    for client, state in serial_states.states.items():
        assert_same_state(state, states.states[client])

    serving = Serving(results[-1].server, results[-1].info, method.newcomer_rules[0])
    tasks = [ClientTask(c, states.get(c)) for c in population.partition]
    reference = Serial(method, population)
    for job in (EvaluateJob(serving), EncodeJob(serving, 5)):
        ours = {r.client: r.value for r in pool.map_clients(job, tasks)}
        theirs = {r.client: r.value for r in reference.map_clients(job, tasks)}
        assert ours.keys() == set(population.partition)
        for client, values in theirs.items():
            for key, value in values.items():
                same = torch.equal(torch.as_tensor(ours[client][key]), torch.as_tensor(value))
                assert same, (client, key)


@pytest.mark.parametrize("name", EVERY)
def test_newcomers_are_served_under_every_rule_the_method_names(name):
    method, population, results, _ = three_rounds(name)
    assert method.newcomer_rules
    for rule in method.newcomer_rules:
        serving = Serving(results[-1].server, results[-1].info, rule)
        scores = EvaluateJob(serving)(method, population, ClientTask("c3", None))
        assert 0 <= scores["accuracy"] <= 1


@pytest.mark.parametrize("name", EVERY)
def test_it_learns_the_toy_task(name):
    settings = {"rounds": 6, **TOY.get(name, {})}
    method, population, results, states = trained(name, sampled=None, **settings)
    losses = [sum(u.metrics["train_loss"] for u in result.updates) for result in results]
    if name in ANY_NETWORK:
        assert losses[-1] < 0.5 * losses[0]
    elif (
        name not in ADVERSARIAL
    ):  # noisy pixels cannot be foretold, and once labels tune they are part of the loss
        assert min(losses) < 0.95 * losses[0]
    serving = Serving(results[-1].server, results[-1].info, method.newcomer_rules[0])
    for client in population.partition.members:
        task = ClientTask(client, states.get(client))
        floor = 0.6 if name in ADVERSARIAL else 0.8  # of four classes
        assert EvaluateJob(serving)(method, population, task)["accuracy"] > floor


def spectral(data):
    # With BatchNorm, without which FedBN has nothing local; below the head, which FedDual replaces.
    normed = nn.utils.parametrizations.spectral_norm(nn.Linear(64, 16))
    return nn.Sequential(nn.Flatten(), normed, nn.BatchNorm1d(16), nn.Linear(16, 4))


@pytest.mark.parametrize("name", ANY_NETWORK)
def test_spectral_norm_vectors_stay_with_their_client(name):
    population, method, states = make_population(), make(name, spectral), MemoryStates()
    results = list(federate(method, population, rounds=2, states=states))
    vectors = {key for key in results[-1].server.shared if key.endswith(("._u", "._v"))}
    assert not vectors
    assert any(key.endswith("._u") for key in states.states["c0"].local)
    serving = Serving(results[-1].server, results[-1].info, method.newcomer_rules[0])
    for client in population.partition:
        EvaluateJob(serving)(method, population, ClientTask(client, states.get(client)))


@pytest.mark.parametrize("name", EVERY)
def test_evaluating_changes_nothing(name):
    method, population, results, states = trained(name, rounds=2)
    server = {key: tensor.clone() for key, tensor in results[-1].server.shared.items()}
    kept = {
        client: ClientState(
            {key: tensor.clone() for key, tensor in state.local.items()},
            {key: tensor.clone() for key, tensor in state.extra.items()},
        )
        for client, state in states.states.items()
    }
    serving = Serving(results[-1].server, results[-1].info, method.newcomer_rules[0])
    for client in population.partition:
        EvaluateJob(serving)(method, population, ClientTask(client, states.get(client)))
    assert_equal(server, results[-1].server.shared)
    for client, state in kept.items():
        assert_same_state(state, states.states[client])


@pytest.mark.parametrize("name", EVERY)
def test_representations_have_one_row_per_sample_and_two_parts(name):
    method, population, results, states = trained(name, rounds=1)
    serving = Serving(results[-1].server, results[-1].info, method.newcomer_rules[0])
    codes = EncodeJob(serving, 5)(method, population, ClientTask("c0", states.get("c0")))
    assert codes["shared/test"].shape[0] == codes["local/test"].shape[0] == 5
    assert codes["shared/test"].shape[1] + codes["local/test"].shape[1] > 0


@pytest.mark.parametrize("name", EVERY)
def test_it_says_what_it_is(name):
    kind = METHODS.load(name)
    assert kind.name == name
    assert kind.title
    assert describe_methods()[kind.name] == (kind.title, kind.newcomer_rules)
    assert kind.paper
    for field, info in kind.Config.model_fields.items():
        assert info.description, f"{field} has no meaning"
    assert isinstance(kind(kind.Config(), as_network(nn.Identity)).config, kind.Config)
