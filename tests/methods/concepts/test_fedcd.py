from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import make_population, two_worlds
from torch import nn

from duotone.errors import ConfigError
from duotone.federation.engine import MemoryStates, federate
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.concepts.aligned_layer import AlignedLinear, expressed
from duotone.methods.concepts.alignment import orthonormal
from duotone.methods.concepts.fedcd import FedCD
from duotone.methods.concepts.fedcd_settings import FedCDConfig
from duotone.methods.concepts.moments import budget_of
from duotone.networks.classifiers import cnn, cnn_bn, mlp
from duotone.networks.reading import as_network
from duotone.types import ClientState, ClientUpdate, DataInfo, RoundInfo

SMALL = DataInfo((1, 8, 8), "classes", 4)


def make(model=cnn_bn, **settings):
    return FedCD(FedCDConfig(**settings), as_network(model))


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Deep(nn.Module):
    """Three linear layers, the middle one inside a block."""

    def __init__(self, data: DataInfo) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64, 12)
        self.block = nn.Sequential(nn.ReLU(), nn.Linear(12, 9), nn.ReLU())
        self.head = nn.Linear(9, data.outputs)

    def forward(self, x):
        return self.head(self.block(self.fc1(x.flatten(1))))


class Exact(nn.Module):
    """A network in double precision."""

    def __init__(self, data: DataInfo) -> None:
        super().__init__()
        self.inner = cnn(data).double()

    def forward(self, x):
        return self.inner(x.double())


# -- the layer


def test_an_aligned_layer_starts_as_the_one_it_replaces():
    layer = nn.Linear(5, 3)
    z = torch.randn(4, 5)
    torch.testing.assert_close(AlignedLinear(layer)(z), layer(z))


def test_an_aligned_layer_is_given_both_codes():
    layer = AlignedLinear(nn.Linear(2, 1))
    with torch.no_grad():
        layer.basis[0, 0] = 1.0  # P is the first axis
        layer.weight.copy_(torch.tensor([[100.0, 3.0]]))
        layer.local_weight[0, 0] = 5.0
        layer.bias.fill_(1.0)
    assert layer(torch.tensor([[2.0, 7.0]])).tolist() == [[5 * 2 + 3 * 7 + 1]]
    assert layer.codes(torch.tensor([[2.0, 7.0]])).local.tolist() == [[2.0]]


def test_a_new_basis_changes_weights_and_no_result():
    old, new = orthonormal(random(6, 3)), orthonormal(random(6, 2, seed=1))
    weight, local_weight, z = random(4, 6, seed=2), random(4, 3, seed=3), random(5, 6, seed=4)

    def output(basis, weight, local_weight):
        c = z @ basis
        return c @ local_weight.T + (z - c @ basis.T) @ weight.T

    moved = expressed(weight, local_weight, old, new)
    torch.testing.assert_close(output(new, *moved), output(old, weight, local_weight))


@pytest.mark.parametrize(
    ("layer", "aligned"),
    [
        (None, "block.1"),
        ("fc1", "block.1"),
        ("block.0", "block.1"),
        ("block.1", "head"),
        ("head", "head.after"),  # nothing linear comes after it, so a layer is added
    ],
)
def test_what_is_read_is_the_input_of_the_next_linear_layer(layer, aligned):
    model = make(Deep, layer=layer).build(SMALL)
    found = [name for name, module in model.named_modules() if isinstance(module, AlignedLinear)]
    assert found == [aligned]


def test_a_layer_that_is_not_there_is_an_error():
    with pytest.raises(ConfigError, match="fc9"):
        make(Deep, layer="fc9").build(SMALL)


def test_a_model_without_a_hidden_layer_is_an_error():
    with pytest.raises(ConfigError, match="hidden"):
        make(lambda: nn.Linear(64, 4)).build(SMALL)


# -- the theorem


def test_fedcd_is_fedavg_while_the_basis_turns():
    population = make_population()
    ours = make(Exact, align_every=1, rank=2)
    theirs = FedAvg(FedAvg.Config(), as_network(Exact))
    x = population.data("c0", "test").x
    bases = []
    for mine, plain in zip(
        federate(ours, population, rounds=3), federate(theirs, population, rounds=3), strict=True
    ):
        found = ours.load(mine.server.shared, population.info).eval()
        expected = theirs.load(plain.server.shared, population.info).eval()
        torch.testing.assert_close(found(x), expected(x), atol=1e-8, rtol=0)
        bases.append(mine.server.shared["inner.head.basis"][:, :2])
    assert (torch.linalg.svdvals(bases[0].T @ bases[2]) < 0.999).any()


# -- in a federation


def test_the_alignment_is_the_servers_own():
    method, population = make(align_every=2, rank=2), make_population()
    first, second, third = federate(method, population, rounds=3)
    assert not first.collected
    assert [update.client for update in second.collected] == list(population.partition.members)
    assert all(not update.shared for update in second.collected)
    name = "head.basis"
    assert not first.server.shared[name].any()
    assert second.server.shared[name].any(dim=0).sum() == 2
    third_round = third.server.shared[name]
    assert third.collected  # the last round always has one
    assert third_round.any(dim=0).sum() == 2


def test_between_alignments_the_basis_is_bit_identical():
    method, population = make(align_every=2, rank=2), make_population()
    results = list(federate(method, population, rounds=4))
    before, after = (results[k].server.shared for k in (1, 2))
    for key in ("head.basis", "head.complement"):
        assert torch.equal(before[key], after[key])


def test_a_client_cannot_move_the_basis():
    method, population = make(rank=2), make_population()
    (result,) = federate(method, population, rounds=1)
    moved = [
        replace(update, shared={**update.shared, "head.basis": torch.ones(128, 16)})
        for update in result.updates
    ]
    found = method.server_update(result.server, moved, result.info).shared["head.basis"]
    assert torch.equal(found, result.server.shared["head.basis"])


def test_codes_are_of_the_hidden_layer():
    method, population = make(mlp, rank=2), make_population()
    *_, result = federate(method, population, rounds=2)
    model = method.load(result.server.shared, population.info).eval()
    codes = method.encode(model, population.data("c0", "test").x)
    assert codes.shared.shape[1] == 64
    assert codes.local.shape[1] == 2
    basis = result.server.shared["fc2.basis"][:, :2]
    assert (codes.shared @ basis).abs().max() < 1e-3 * codes.shared.abs().max()


@pytest.mark.parametrize("variant", ["duotone", "paper"])
def test_a_dead_layer_does_no_harm(variant):
    method = make(mlp, variant=variant)
    info = RoundInfo(1, 1, 0, SMALL)
    server = method.start(info)
    still = {"mean": torch.zeros(64).double(), "covariance": torch.zeros(64, 64).double()}
    told = [ClientUpdate(f"c{k}", {}, 5, still) for k in range(4)]
    found = method.pool(server, told, info)
    assert all(tensor.isfinite().all() for tensor in found.shared.values())


def test_nothing_is_aligned_with_a_single_member():
    method = make()
    info = RoundInfo(1, 1, 0, SMALL)
    server = method.start(info)
    assert method.pool(server, [], info) is server


# -- where nothing tells clients apart


@pytest.mark.parametrize("variant", ["duotone", "paper"])
def test_alike_clients_have_no_local_code_and_are_told_so(variant):
    population = make_population(members=6)
    method = make(mlp, variant=variant)
    *_, last = federate(method, population, rounds=2)
    assert not last.server.shared["fc2.basis"].any()
    (line,) = method.warnings(last.server)
    assert "Nothing that tells clients apart" in line
    assert "no dimension" in line
    model = method.load(last.server.shared, population.info).eval()
    x = population.data("c0", "test").x
    codes = method.encode(model, x)
    assert codes.local.shape == (len(x), 0)
    torch.testing.assert_close(codes.shared, model.fc1(x.flatten(1)).relu())


def test_a_rank_that_is_asked_for_is_given_and_called_chance():
    method = make(mlp, rank=2)
    *_, last = federate(method, make_population(members=6), rounds=2)
    assert int(last.server.shared["fc2.basis"].any(dim=0).sum()) == 2
    (line,) = method.warnings(last.server)
    assert "2 dimensions because they were asked for" in line


def test_different_clients_have_a_local_code_and_no_warning():
    method = make(mlp)
    *_, last = federate(method, two_worlds(), rounds=2)
    assert int(last.server.shared["fc2.basis"].any(dim=0).sum()) == 1
    assert method.warnings(last.server) == []


def test_a_direction_that_turns_out_to_be_chance_is_given_up_and_the_function_stays():
    population = make_population(members=6)
    asked, free = make(Exact, rank=2), make(Exact)
    (result,) = federate(asked, population, rounds=1)
    x = population.data("c0", "test").x
    moved = {name: tensor.clone() for name, tensor in result.server.shared.items()}
    moved["inner.head.local_weight"] += 1  # as training would
    server = replace(result.server, shared=moved)
    found = free.pool(server, list(result.collected), result.info)
    assert not found.shared["inner.head.basis"].any()
    before, after = (
        free.load(state.shared, population.info).eval()(x).clone() for state in (server, found)
    )
    torch.testing.assert_close(before, after, atol=1e-9, rtol=0)


def test_states_are_not_needed():
    method, population, states = make(), make_population(), MemoryStates()
    list(federate(method, population, rounds=1, states=states))
    assert not states.states


# -- a learnt shared code


def test_a_bottleneck_looks_on_and_changes_nothing():
    population = make_population()
    plain, watched = (
        make(align_every=1, rank=2),
        make(align_every=1, complement="bottleneck", rank=2),
    )
    *_, alone = federate(plain, population, rounds=2)
    *_, beside = federate(watched, population, rounds=2)
    for name, tensor in alone.server.shared.items():
        if not name.endswith("complement"):
            assert torch.equal(tensor, beside.server.shared[name]), name


def test_a_bottleneck_learns_and_its_code_is_the_shared_one():
    method, population = make(mlp, complement="bottleneck", epochs=4), make_population()
    *_, result = federate(method, population, rounds=8)
    model = method.load(result.server.shared, population.info).eval()
    data = population.data("c3", "test")
    codes = method.encode(model, data.x)
    assert codes.shared.shape == codes.shared_std.shape == (12, 8)
    bottleneck = model.fc2.bottleneck
    right = bottleneck.head(codes.shared).argmax(dim=1) == data.labels
    assert right.float().mean() > 0.9


def test_a_bottleneck_needs_classes():
    with pytest.raises(ConfigError, match="oblique"):
        make(mlp, complement="bottleneck").build(DataInfo((6,), "regression", 1))


# -- with noise


def test_statistics_with_noise_are_drawn_once_and_differ_from_plain_ones():
    population = make_population()
    noisy = make(mlp, epsilon=4.0, rank=2, align_every=1)
    *_, first = federate(noisy, population, rounds=2)
    *_, again = federate(make(mlp, epsilon=4.0, rank=2, align_every=1), population, rounds=2)
    *_, plain = federate(make(mlp, rank=2, align_every=1), population, rounds=2)
    assert torch.equal(first.server.shared["fc2.basis"], again.server.shared["fc2.basis"])
    overlap = first.server.shared["fc2.basis"].T @ plain.server.shared["fc2.basis"]
    assert torch.linalg.svdvals(overlap)[1] < 0.99


def test_noise_is_another_for_every_member_round_and_layer():
    # What is left of a mean without its samples' own is the noise on it.
    def noise(client, round=1, layer=None):
        data = replace(make_population().data("c0"), client=client)
        info = RoundInfo(round, 4, 0, SMALL)
        told = []
        for epsilon in (4.0, None):
            method = make(Deep, epsilon=epsilon, align_every=1, layer=layer)
            server = method.start(replace(info, round=0))
            told.append(method.collect(server, ClientState(), data, info).extra["mean"])
        return (told[0] - told[1])[:9]

    drawn = [noise("c0"), noise("c1"), noise("c0", round=2), noise("c0", layer="block.1")]
    assert torch.equal(drawn[0], noise("c0"))
    for number, one in enumerate(drawn):
        for other in drawn[:number]:
            assert not torch.allclose(one, other, rtol=0.1)


def test_alignments_share_the_budget():
    method = make(epsilon=2.0, align_every=5)
    spent = [method._budget(RoundInfo(5, rounds, 0, SMALL)) for rounds in (5, 6, 20)]
    assert spent == pytest.approx([budget_of(2.0), budget_of(2.0) / 2, budget_of(2.0) / 4])
