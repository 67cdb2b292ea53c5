"""What may go wrong between server and nodes: each is a result, with the client's name."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import make_population

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message

from duotone.errors import DisclosureError, TrainingError
from duotone.federation.backends import ClientTask, node, node_store
from duotone.federation.backends.flower import (
    Flower,
    OneMachineFlower,
    answered,
    reply_of,
)
from duotone.federation.backends.node import Node
from duotone.federation.backends.node_store import NodeStore
from duotone.federation.engine import MemoryStates, before_first_round, federate
from duotone.federation.jobs import CollectJob, TrainJob
from duotone.federation.serving import Serving
from duotone.measures.codes import EncodeJob
from duotone.messenger import arrays_of, client_app, content_of, facts_of, record_of
from duotone.methods import METHODS
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network
from duotone.types import ClientState, ClientUpdate, FarState, RoundInfo


def made(name="fedbn"):
    kind = METHODS.load(name)
    return kind(kind.Config(), as_network(cnn_bn)), make_population()


class Tampered(OneMachineFlower):
    """A federation in which something happens to the replies of one client."""

    def __init__(self, method, population, happens, client="c1"):
        super().__init__(method, population)
        whole = self.grid.app
        self.earlier = None

        def app(message, context):
            reply = whole(message, context)
            request = facts_of("request", message.content)
            if request["client"] != client or '"type": "TrainJob"' not in request["job"]:
                return reply
            return happens(self, reply, message)

        self.grid.app = app


def with_facts(reply, message, **changes):
    facts = {**dict(reply.content.config_records["reply"]), **changes}
    reply.content["reply"] = ConfigRecord(facts)
    return reply


def with_update(change):
    """Let a client answer with something else than its update."""

    def happens(_, reply, message):
        found = reply_of(reply.content)
        tree = json.loads(found.answer)
        arrays = {name: np.array(array) for name, array in found.arrays.items()}
        change(tree["fields"], arrays)
        facts = {**found.facts(), "answer": json.dumps(tree)}
        return Message(content_of("reply", facts, record_of(arrays)), reply_to=message)

    return happens


def first_shared(fields):
    return fields["shared"]["map"][0]


def not_a_number(fields, arrays):
    arrays[first_shared(fields)[1]["tensor"]].fill(np.nan)


def wrong_shape(fields, arrays):
    arrays[first_shared(fields)[1]["tensor"]] = np.zeros(7, np.float32)


def extra_key(fields, arrays):
    fields["shared"]["map"].append(["back.door", first_shared(fields)[1]])


def absurd_weight(fields, arrays):
    fields["weight"] = 1e9


def answers_twice_the_same(backend, reply, message):
    """Send the reply of the first round again in every later one."""
    backend.earlier = backend.earlier or reply.content
    return Message(backend.earlier, reply_to=message)


def no_reply_at_all(backend, reply, message):
    return Message(Error(5, "Node Unavailable"), reply_to=message)


def cut_short(backend, reply, message):
    (whole,) = reply.content["tensors"].values()
    cut = whole.numpy()[:-1]
    reply.content["tensors"] = ArrayRecord({name: Array(cut) for name in reply.content["tensors"]})
    return reply


FAULTS = {
    "holds NaN or infinite": with_update(not_a_number),
    "has shape (7,), not": with_update(wrong_shape),
    "has an unexpected back.door": with_update(extra_key),
    "weight is 1e+09, more than its 24 samples": with_update(absurd_weight),
    "in the name of 'c0'": lambda _, r, m: with_facts(r, m, client="c0"),
    "a state of round 77": lambda _, r, m: with_facts(r, m, kept=77),
    "cannot be read": lambda _, r, m: with_facts(r, m, answer='{"type": "Popen", "fields": {}}'),
    "cannot be read: Error while deserializing": cut_short,
    "its reply is of another form": lambda _, r, m: with_facts(r, m, kept="many"),
    "such as that of an earlier round": answers_twice_the_same,
    "Node Unavailable": no_reply_at_all,
}


@pytest.mark.parametrize("reason", FAULTS)
def test_a_bad_reply_is_refused_by_name_and_the_round_goes_on_without_it(reason):
    method, population = made()
    states = MemoryStates()
    with Tampered(method, population, FAULTS[reason]) as backend:
        results = list(
            federate(method, population, rounds=2, seed=0, backend=backend, states=states)
        )
    last = results[-1]
    assert reason in last.refused["c1"]
    assert [update.client for update in last.updates] == ["c0", "c2"]
    for name, tensor in last.server.shared.items():
        assert torch.isfinite(tensor.float()).all(), name


def test_a_client_that_was_refused_goes_on_from_its_last_good_state():
    def second_round_is_bad(backend, reply, message):
        if '"round": 2' in str(message.content.config_records["request"]["job"]):
            return with_update(not_a_number)(backend, reply, message)
        return reply

    method, population = made()
    states = MemoryStates()
    with Tampered(method, population, second_round_is_bad) as backend:
        rounds = federate(method, population, rounds=3, seed=0, backend=backend, states=states)
        next(rounds)
        good = {name: t.clone() for name, t in states.get("c1").local.items()}
        next(rounds)
        kept = states.get("c1").local
        assert all(torch.equal(kept[name], tensor) for name, tensor in good.items())
        assert "c1" in [update.client for update in next(rounds).updates]


def moved(tensor, began):
    same = (value for value in began.values() if value.shape == tensor.shape)
    return not any(torch.allclose(tensor, value, rtol=0, atol=1e-6) for value in same)


@pytest.mark.parametrize("name", ["fedbn", "feddva", "ditto", "fedrep", "fedper"])
def test_no_tensor_of_a_local_part_is_in_any_message(name):
    seen = []

    def capture(app):
        def captured(message, context):
            reply = app(message, context)
            for content in (message.content, reply.content):
                seen.extend(arrays_of(content).values())
            return reply

        return captured

    method, population = made(name)
    states = MemoryStates()
    with OneMachineFlower(method, population) as backend:
        backend.grid.app = capture(backend.grid.app)
        list(federate(method, population, rounds=2, seed=0, backend=backend, states=states))
    assert seen
    travelled = {array.tobytes() for array in seen if array.size > 4}
    began = method.start(before_first_round(population, rounds=2, sampled=None, seed=0)).shared
    kept = 0
    for state in states.states.values():
        for tensor in (*state.local.values(), *state.extra.values()):
            # Counters and other small values are the same everywhere; so is what never moved, such
            # as a bias below BatchNorm, whose gradient is noise.
            if tensor.is_floating_point() and tensor.unique().numel() > 4 and moved(tensor, began):
                kept += 1
                assert tensor.numpy().tobytes() not in travelled
    assert kept


def test_a_task_with_a_state_that_is_here_is_never_sent_to_a_far_node():
    method, population = made()
    near = OneMachineFlower(method, population)
    far = Flower(near.grid, near.nodes)
    serving = Serving(method.start(info := made_info(population)), info, "zero-shot")
    task = ClientTask("c0", ClientState({"w": torch.zeros(2)}))
    with pytest.raises(TypeError, match="is here, not with its node"):
        list(far.map_clients(EncodeJob(serving, 2), [task]))


def made_info(population):
    return RoundInfo(1, 2, 0, population.info)


class FarFederation(Flower):
    """Nodes that keep their states on disk, as real ones do, in this process."""

    def __init__(self, method, population, folder, level="scores", **options):
        near = OneMachineFlower(method, population)
        self.folder = folder
        own = Node(method, population, NodeStore(folder), level)
        near.grid.app = client_app(lambda _, *message: answered(lambda run: own, *message))
        super().__init__(near.grid, near.nodes, pause=0.0, **options)
        self._message = near._message


def test_far_nodes_keep_their_states_and_give_the_same_bits(tmp_path):
    method, population = made()
    with FarFederation(method, population, tmp_path) as backend:
        states = MemoryStates()
        *_, last = federate(
            method, population, rounds=3, sampled=2, seed=0, backend=backend, states=states
        )
    near = MemoryStates()
    *_, here = federate(method, population, rounds=3, sampled=2, seed=0, states=near)
    for name, tensor in here.server.shared.items():
        assert torch.equal(tensor, last.server.shared[name]), name
    for client, state in near.states.items():
        far = states.get(client)
        assert isinstance(far, FarState)
        kept = NodeStore(tmp_path).get(client, far.round)
        assert all(torch.equal(tensor, kept.local[n]) for n, tensor in state.local.items())
        assert len(list(tmp_path.glob(f"{client}-*"))) <= 2


def test_a_node_that_lost_its_state_is_left_out_by_name(tmp_path):
    method, population = made()
    with FarFederation(method, population, tmp_path) as backend:
        rounds = federate(method, population, rounds=2, seed=0, backend=backend)
        next(rounds)
        (tmp_path / "c1-00001.safetensors").unlink()
        assert "no longer has its state of round 1" in next(rounds).refused["c1"]


def test_a_full_disk_on_a_node_is_its_failure_and_the_old_state_counts(tmp_path, monkeypatch):
    method, population = made()
    real = node_store.write_atomically

    def full(path, content):
        if path.name.startswith("c1") and path.name.endswith("-00002.safetensors"):
            with node_store.disk_errors(path):
                raise OSError(28, "No space left on device")
        real(path, content)

    monkeypatch.setattr(node_store, "write_atomically", full)
    with FarFederation(method, population, tmp_path) as backend:
        states = MemoryStates()
        rounds = federate(method, population, rounds=3, seed=0, backend=backend, states=states)
        next(rounds)
        assert "the disk is full" in next(rounds).refused["c1"]
        assert states.get("c1").round == 1
        assert states.get("c0").round == 2
        assert "c1" in [update.client for update in next(rounds).updates]


def test_a_node_refuses_what_is_above_its_own_level_whatever_the_server_wants(tmp_path):
    method, population = made()
    with FarFederation(method, population, tmp_path) as backend:
        info = made_info(population)
        serving = Serving(method.start(info), info, "zero-shot")
        (result,) = backend.map_clients(EncodeJob(serving, 2), [ClientTask("c0", None)])
    assert isinstance(result.failure.error, DisclosureError)
    assert not backend.ledger.entries


class Slow:
    """A grid on which one client never answers."""

    def __init__(self, grid, client):
        self.grid, self.client = grid, client

    def push_messages(self, messages):
        return self.grid.push_messages(messages)

    def pull_messages(self, names):
        waiting = self.grid._waiting
        return self.grid.pull_messages(
            [n for n in names if facts_of("request", waiting[n].content)["client"] != self.client]
        )


def test_a_client_past_the_deadline_is_left_out_and_the_quorum_decides(tmp_path):
    method, population = made()
    with FarFederation(method, population, tmp_path, deadline=0.3) as backend:
        backend.grid = Slow(backend.grid, "c1")
        (result,) = federate(method, population, rounds=1, seed=0, backend=backend, quorum=2)
        assert result.refused == {"c1": "it failed: it did not answer within 0.3 seconds"}
        with pytest.raises(TrainingError, match="only 2 sent a usable update"):
            list(federate(method, population, rounds=1, seed=0, backend=backend, quorum=3))


class OneByOne:
    """A grid with nothing at the first look and one answer at each other; counts who waits."""

    def __init__(self, grid):
        self.grid, self.waiting = grid, []

    def push_messages(self, messages):
        return self.grid.push_messages(messages)

    def pull_messages(self, names):
        self.waiting.append(len(names))
        return self.grid.pull_messages(names[:1] if len(self.waiting) > 1 else [])


def test_as_many_clients_are_asked_at_once_as_may_be_and_the_next_when_one_has_answered(tmp_path):
    method, population = made()
    with FarFederation(method, population, tmp_path, at_once=2) as backend:
        backend.grid = OneByOne(backend.grid)
        (result,) = federate(method, population, rounds=1, seed=0, backend=backend)
    assert [update.client for update in result.updates] == ["c0", "c1", "c2"]
    assert backend.grid.waiting == [2, 2, 2, 1]


def test_a_client_whose_node_is_not_connected_is_left_out(tmp_path):
    method, population = made()
    with FarFederation(method, population, tmp_path) as backend:
        everybody = backend.nodes()
        backend.nodes = lambda: {c: n for c, n in everybody.items() if c != "c2"}
        (result,) = federate(method, population, rounds=1, seed=0, backend=backend)
    assert result.refused == {"c2": "it failed: its node is not connected"}


class PatientJob:
    """Fails with a text that holds what only the node may know."""

    level = "scores"

    def __call__(self, method, population, task):
        raise ValueError("could not read the record of John Smith")


def test_what_an_error_says_of_the_data_stays_with_the_node(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(node, "unpacked", lambda text, arrays: PatientJob())
    method, population = made()
    with FarFederation(method, population, tmp_path) as backend:
        info = made_info(population)
        job = TrainJob(method.start(info), info)
        (result,) = backend.map_clients(job, [ClientTask("c0", None)])
    assert result.failure.reason == "ValueError on its node, whose log says more"
    assert "John Smith" in caplog.text


@pytest.mark.parametrize("part", ["shared", "extra", "of another shape"])
def test_what_a_method_did_not_declare_does_not_leave_its_node(tmp_path, part):
    class Leaky(METHODS.load("fedbn")):
        def client_update(self, server, client, data, info):
            update, state = super().client_update(server, client, data, info)
            if part == "of another shape":
                first = next(iter(update.shared))
                return replace(update, shared={**update.shared, first: data.x}), state
            own = {**getattr(update, part), "secret": data.x}
            return replace(update, **{part: own}), state

    method, population = Leaky(Leaky.Config(), as_network(cnn_bn)), make_population()
    with FarFederation(method, population, tmp_path) as backend:
        info = made_info(population)
        job = TrainJob(method.start(info), info)
        (result,) = backend.map_clients(job, [ClientTask("c0", None)])
    assert "did not declare" in result.failure.reason
    assert not list(tmp_path.glob("c0-*")), "the old state counts"


def test_metrics_that_are_not_declared_do_not_leave_a_node(tmp_path):
    class Chatty(METHODS.load("fedbn")):
        def client_update(self, server, client, data, info):
            update, state = super().client_update(server, client, data, info)
            return replace(update, metrics={**update.metrics, "secret": 0.5}), state

    method, population = Chatty(Chatty.Config(), as_network(cnn_bn)), make_population()
    with FarFederation(method, population, tmp_path) as backend:
        info = made_info(population)
        job = TrainJob(method.start(info), info)
        (result,) = backend.map_clients(job, [ClientTask("c0", None)])
    assert set(result.value[0].metrics) == {"train_loss"}


def test_statistics_that_are_not_declared_do_not_leave_a_node(tmp_path):
    class Tells(METHODS.load("fedbn")):
        def collects(self, info):
            return 1

        def collect(self, server, client, data, info):
            return ClientUpdate(data.client, {}, 1, {"x": data.x})

        def collected_form(self, server, info):
            return {}

        def pool(self, server, collected, info):
            return server

    method, population = Tells(Tells.Config(), as_network(cnn_bn)), make_population()
    with FarFederation(method, population, tmp_path) as backend:
        info = made_info(population)
        job = CollectJob(method.start(info), info)
        (result,) = backend.map_clients(job, [ClientTask("c0", None)])
    assert "did not declare" in result.failure.reason


def test_a_far_client_that_was_refused_still_has_the_state_that_counts(tmp_path):
    method, population = made()
    with FarFederation(method, population, tmp_path) as backend:
        whole = backend.grid.app

        def app(message, context):
            reply = whole(message, context)
            request = facts_of("request", message.content)
            if request["client"] == "c1" and '"round": 2' in request["job"]:
                return with_update(not_a_number)(backend, reply, message)
            return reply

        backend.grid.app = app
        states = MemoryStates()
        rounds = federate(method, population, rounds=3, seed=0, backend=backend, states=states)
        next(rounds)
        assert "NaN" in next(rounds).refused["c1"]
        assert states.get("c1").round == 1
        assert "c1" in [update.client for update in next(rounds).updates]
