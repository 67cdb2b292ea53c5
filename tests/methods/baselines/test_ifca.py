from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import make_population
from worked import FIRST, NUMBERS, Line, client, make, play, value

from duotone.data.planted import planted_table
from duotone.federation.engine import MemoryStates, federate
from duotone.methods.baselines.ifca import IFCA, split_by_direction
from duotone.networks.classifiers import mlp
from duotone.partition import build_partition
from duotone.partition.partition import Population
from duotone.types import ClientState, RoundInfo, ServerState


def servers(*weights: float) -> ServerState:
    """Return one line per group."""
    return ServerState({f"{g}/head.weight": torch.tensor([[w]]) for g, w in enumerate(weights)})


def test_clients_choose_the_model_that_fits_and_are_averaged_with_their_like():
    method = make(IFCA, Line(0), groups=3, warm_rounds=0)
    clients = [client("a", 2), client("b", 8), client("c", 20, samples=3)]
    states: dict[str, ClientState] = {}
    server, updates = play(method, clients, servers(0.0, -100.0, 10.0), states)
    # Losses of a: 4, 102², 64; of b: 64, 108², 4; of c: 400, 120², 100
    chosen = {name: int(update.extra["group"]) for name, update in updates.items()}
    assert chosen == {"a": 0, "b": 2, "c": 2}
    assert int(states["c"].extra["group"]) == 2
    # a: 0 + 2/5 = 0.4; b: 10 − 2/5 = 9.6, c: 10 + 10/5 = 12, (9.6 + 3·12)/4 = 11.4
    assert value(server.shared["0/head.weight"]) == pytest.approx(0.4)
    assert value(server.shared["1/head.weight"]) == -100, "nobody chose it, so it stays"
    assert value(server.shared["2/head.weight"]) == pytest.approx(11.4)


def test_members_and_newcomers_choose_anew_before_use():
    method = make(IFCA, Line(0), groups=2, warm_rounds=0)
    server = servers(0.0, 10.0)
    stale = ClientState({}, {"group": torch.tensor(1)})
    data = client("a", 2)
    for used in (method.before_use(server, stale, data, FIRST), method.join(server, data, FIRST)):
        assert int(used.extra["group"]) == 0
        assert value(method.personal(server, used)["head.weight"]) == 0
    kept = method.before_use(server, stale, data.without_labels(), FIRST)
    assert value(method.personal(server, kept)["head.weight"]) == 10


def test_of_models_that_fit_alike_the_first_is_chosen():
    method = make(IFCA, Line(0), groups=3)
    server = servers(10.0, 0.0, 10.0)
    assert int(method.join(server, client("a", 5), FIRST).extra["group"]) == 0


def test_groups_are_one_until_the_split_and_then_go_their_own_ways():
    method = make(IFCA, Line(0), groups=2, warm_rounds=2)
    clients = [client("a", 10), client("b", -20), client("c", 20)]
    states: dict[str, ClientState] = {}
    server, _ = play(method, clients, method.start(FIRST), states)
    # 0 + 10/5 = 2, 0 − 20/5 = −4, 0 + 20/5 = 4; the mean is 2/3 for both groups
    assert server.shared.keys() == {"0/head.weight", "1/head.weight"}
    for tensor in server.shared.values():
        assert value(tensor) == pytest.approx(2 / 3)
    server, _ = play(method, clients, server, states, replace(FIRST, round=2))
    # From 2/3, a fifth of the way each: 38/15, −52/15 and 68/15. Up are a and c, down is b.
    up, down = sorted((value(t) for t in server.shared.values()), reverse=True)
    assert up == pytest.approx(53 / 15)
    assert down == pytest.approx(-52 / 15)
    _, updates = play(method, clients, server, states, replace(FIRST, round=3))
    chosen = {name: int(update.extra["group"]) for name, update in updates.items()}
    assert chosen["a"] == chosen["c"] != chosen["b"]


def test_the_printed_start_has_a_network_of_its_own_for_every_group():
    info = RoundInfo(0, 1, 0, replace(NUMBERS, shape=(3,)))
    printed = IFCA(IFCA.Config(groups=3, warm_rounds=0), mlp).start(info).shared
    warm = IFCA(IFCA.Config(groups=3), mlp).start(info).shared
    weights = [printed[f"{group}/fc1.weight"] for group in range(3)]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])
    for group in range(3):
        assert torch.equal(warm[f"{group}/fc1.weight"], weights[0]), "where all methods begin"


def test_moves_are_told_apart_by_direction_and_not_by_length():
    up = torch.tensor([1.0, 2.0, 3.0])
    moves = torch.stack([up, -up, 100 * up, -0.01 * up])
    groups = split_by_direction(moves, 2, FIRST)
    assert groups[0] == groups[2] != groups[1] == groups[3]


def test_there_are_never_more_groups_than_clients():
    assert sorted(split_by_direction(torch.eye(2), 5, FIRST)) == [0, 1]


class Liar(IFCA):
    """Client c1 says something else about its group."""

    claim: dict[str, torch.Tensor]

    def client_update(self, server, client, data, info):
        update, state = super().client_update(server, client, data, info)
        return (replace(update, extra=self.claim) if data.client == "c1" else update), state


@pytest.mark.parametrize("round", [1, 2, 3])
@pytest.mark.parametrize("claim", [{"group": torch.tensor(7)}, {"group": torch.tensor(-1)}, {}])
def test_a_group_that_is_not_there_is_refused_and_the_round_goes_on(claim, round):
    method = Liar(IFCA.Config(groups=2, warm_rounds=2, epochs=1), mlp)
    method.claim = claim
    results = list(federate(method, make_population(), rounds=round))
    assert list(results[-1].refused) == ["c1"]
    assert [update.client for update in results[-1].updates] == ["c0", "c2"]
    assert len({key.split("/")[0] for key in results[-1].server.shared}) == 2


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_groups_are_found_exactly(seed):
    dataset = planted_table()
    population = Population(dataset, build_partition(dataset, "natural", {}, seed=seed))
    assert len(population.partition.members) == 12
    states = MemoryStates()
    method = IFCA(IFCA.Config(groups=3), mlp)
    for _ in federate(method, population, rounds=8, seed=seed, states=states):
        pass
    pairs = {
        (population.partition[name].group, int(states.get(name).extra["group"]))
        for name in population.partition.members
    }
    assert len(pairs) == 3, "each planted group chose one model"
    assert len(np.unique([chosen for _, chosen in pairs])) == 3, "and each another one"
