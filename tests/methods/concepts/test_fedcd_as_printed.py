"""FedCD to the letter: P = ΨΦ, Algorithms 5 to 7, and FC3."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from federations import make_population, two_worlds
from pydantic import ValidationError
from torch import nn

from duotone.federation.engine import federate
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.concepts.aligned_layer import AlignedHead, AlignedLinear, plain, product
from duotone.methods.concepts.alignment import discriminants, orthogonal_complement, orthonormal
from duotone.methods.concepts.fedcd import FedCD
from duotone.methods.concepts.fedcd_settings import FedCDConfig
from duotone.methods.concepts.incremental_rule import (
    basis_of,
    batch_steps,
    continued,
    incremental_step,
    mean_of_steps,
    pooled_steps,
)
from duotone.methods.concepts.moments import Moments, Scatter, moments, pooled
from duotone.networks.classifiers import cnn, mlp
from duotone.networks.reading import as_network
from duotone.types import ClientUpdate, DataInfo


def make(model=mlp, **settings):
    return FedCD(FedCDConfig(**{"variant": "paper", **settings}), as_network(model))


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


class Exact(nn.Module):
    """A network in double precision."""

    def __init__(self, data: DataInfo) -> None:
        super().__init__()
        self.inner = cnn(data).double()

    def forward(self, x):
        return self.inner(x.double())


class OneMore(Exact):
    """The same with one more linear layer behind it, the identity at first."""

    def __init__(self, data: DataInfo) -> None:
        super().__init__(data)
        self.after = nn.Linear(data.outputs, data.outputs, bias=False, dtype=torch.float64)
        nn.init.eye_(self.after.weight)

    def forward(self, x):
        return self.after(super().forward(x))


# -- P and Q as printed


def test_algorithm_5_by_hand():
    # p = (2, 0): proj(q) = pᵀq p / ‖p‖, so q₁ = e₁ − 2 (2, 0) / 2 and q₂ = e₂.
    assert orthogonal_complement(tensor([[2.0], [0.0]])).tolist() == [[-1, 0], [0, 1]]
    # Two columns that are not at right angles: every projection is of e_u, none of what is left.
    found = orthogonal_complement(tensor([[1.0, 3.0], [0.0, 4.0]]))
    assert found.flatten().tolist() == pytest.approx([1 - 1 - 9 / 5, -12 / 5, -12 / 5, 1 - 16 / 5])


def test_with_a_long_p_one_step_of_v_is_longer_by_hand():
    """PPᵀ + Q² is diag(4 + 1, 1) for p = (2, 0): five times FedAvg's step along p."""
    layer = AlignedLinear(nn.Linear(2, 1, bias=False).double())
    with torch.no_grad():
        layer.basis[0, 0] = 2.0
    before = product(layer.weight, layer.local_weight, layer.basis).detach()
    layer(tensor([[1.0, 1.0]])).sum().backward()
    with torch.no_grad():
        for weight in (layer.weight, layer.local_weight):
            weight -= 0.1 * weight.grad
    step = product(layer.weight, layer.local_weight, layer.basis) - before
    assert step.flatten().tolist() == pytest.approx([-0.5, -0.1])


@pytest.mark.parametrize(("scale", "off_by"), [(1.0, 0.293), (0.2, 45.77)])
def test_the_theorem_needs_an_orthonormal_basis(scale, off_by):
    """With P = Σ_W^(-1/2) Φ as printed, one step of SGD moves V elsewhere.

    How far depends on the scale of the hidden layer, for the length of P does.
    """
    hidden = [random(50, 6, seed=k) @ random(6, 6, seed=9) for k in range(6)]
    hidden = [rows + 3 * random(1, 6, seed=100 + k % 3) for k, rows in enumerate(hidden)]
    hidden = [scale * rows for rows in hidden]
    values, vectors = torch.linalg.eigh(pooled([moments(rows) for rows in hidden]).within)
    psi = vectors @ torch.diag(values**-0.5) @ vectors.T
    scatter = pooled([moments(rows @ psi) for rows in hidden])
    printed = psi @ torch.linalg.eigh(scatter.between)[1][:, -2:]
    z = torch.cat(hidden)
    off = {}
    for name, basis in (("printed", printed), ("repaired", orthonormal(printed))):
        weight, local_weight = (random(3, n, seed=7).requires_grad_() for n in (6, 2))
        found = product(weight, local_weight, basis)
        (z @ found.T).square().sum().backward()
        step = product(weight.grad, local_weight.grad, basis)
        plain_step = 2 * (z @ found.detach().T).T @ z
        off[name] = float((step - plain_step).norm() / plain_step.norm())
    assert off["repaired"] < 1e-12
    assert off["printed"] == pytest.approx(off_by, rel=0.005)


@pytest.mark.parametrize("orthonormal_p", [False, True])
def test_as_printed_p_is_psi_phi(orthonormal_p):
    population = two_worlds()
    method = make(rank=2, orthonormal=orthonormal_p, rate=0.1, rule_steps=3)
    (result,) = federate(method, population, rounds=1)
    told = [Moments.of_update(update) for update in result.collected]
    scatter = pooled(told)
    state = continued({}, len(scatter.mean), 2)
    for _ in range(3):
        state = pooled_steps(state, scatter, 0.1, 1)
    expected = state["psi"] @ state["phi"]
    gram = expected.T @ expected
    assert (gram - torch.eye(2)).abs().max() > 0.05
    if orthonormal_p:
        expected = orthonormal(expected)
    found = result.server.shared["fc2.basis"][:, :2].double()
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_as_printed_the_function_jumps_with_the_basis():
    population = make_population()
    method = make(Exact, align_every=1, rank=2)
    (result,) = federate(method, population, rounds=1)
    info, x = result.info, population.data("c0", "test").x
    before = method.load(
        method.server_update(method.start(info), list(result.updates), info).shared, info.data
    )
    plain_output = before.eval()(x)
    after = method.load(result.server.shared, info.data).eval()(x)
    assert not torch.allclose(plain_output, after, atol=1e-3)


def test_another_local_code_is_what_a_changed_sample_has():
    layer = AlignedLinear(nn.Linear(5, 3).double())
    layer.basis[:, :2] = random(5, 2)  # neither of length one nor at right angles
    z, local = random(4, 5, seed=1), random(4, 2, seed=2)
    torch.testing.assert_close(layer.codes(layer.with_local(z, local)).local, local)


# -- the incremental rule


def test_a_step_of_the_rule_by_hand():
    scatter = Scatter(
        torch.zeros(2), torch.diag(torch.tensor([2.0, 1.0])), torch.diag(torch.tensor([4.0, 0.0]))
    )
    psi, phi = incremental_step(torch.eye(2), torch.tensor([[1.0], [1.0]]), scatter, 0.1)
    assert psi.tolist() == [[pytest.approx(0.9), 0.0], [0.0, 1.0]]
    # u uᵀφ = (4, 0), φᵀu uᵀφ = 4: φ + 0.1 ((4, 0) − 4 φ)
    assert phi.flatten().tolist() == pytest.approx([1.0, 0.6])


def test_the_rule_turns_the_first_direction_free_of_the_second():
    between = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
    scatter = Scatter(torch.zeros(2), torch.eye(2), between)
    _, phi = incremental_step(torch.eye(2), torch.eye(2), scatter, 0.5)
    # B − τ[B] = [[0, 0], [1, 0]]: only the first column, φ₁, moves
    assert phi.tolist() == [[1.0, 0.0], [0.5, 1.0]]


def test_the_rule_finds_the_exact_space_in_enough_steps():
    hidden = [random(200, 6, seed=k) + 3 * random(1, 6, seed=100 + k % 3) for k in range(9)]
    scatter = pooled([moments(rows) for rows in hidden])
    state = pooled_steps(continued({}, 6, 2), scatter, 0.01, 4000)
    exact = orthonormal(discriminants(scatter)[1][:, :2])
    found = basis_of(state, is_orthonormal=True)
    assert torch.linalg.svdvals(found.T @ exact).min() > 0.99


def test_a_new_rank_keeps_what_was_found():
    psi, phi = random(4, 4), random(4, 2, seed=1)
    wider = continued({"psi": psi, "phi": phi}, 4, 3)
    assert torch.equal(wider["psi"], psi)
    assert torch.equal(wider["phi"][:, :2], phi)
    assert wider["phi"][:, 2].tolist() == [0, 0, 1, 0]
    assert torch.equal(continued(wider, 4, 1)["phi"], phi[:, :1])
    assert torch.equal(continued({}, 4, 2)["phi"], torch.eye(4, 2).double())


def test_steps_on_mini_batches_by_hand():
    """One dimension: two batches of two, of which every one has spread 1 and mean 4."""
    state = {
        "psi": tensor([[1.0]]),
        "phi": tensor([[0.5]]),
        "centre": tensor([3.0]),
        "within": tensor([[1.0]]),
    }
    found = batch_steps(state, tensor([[3.0], [5.0]]), 2, 0.1, 2, torch.Generator())
    unit = 1.001  # with the ridge, which the rule measures spreads in
    psi, phi = 1.0, 0.5
    for _ in range(2):
        u = psi**2 * 1 / unit
        psi, phi = psi + 0.1 * (1 - psi**2 * (1 / unit + 0.001)), phi + 0.1 * (u * phi - u * phi**3)
    assert float(found["psi"]) == pytest.approx(psi)
    assert float(found["phi"]) == pytest.approx(phi)
    # Batches of one have no spread and means of their own.
    alone = batch_steps(state, tensor([[3.0], [5.0]]), 1, 0.1, 1, torch.Generator())
    psi = 1 + 0.1 * (1 - 0.001)
    assert float(alone["psi"]) == pytest.approx(psi + 0.1 * (1 - psi**2 * 0.001))


def test_what_clients_come_to_is_averaged_by_their_samples():
    told = [
        ClientUpdate("a", {}, 1, {"psi": tensor([[1.0]]), "phi": tensor([[8.0]])}),
        ClientUpdate("b", {}, 3, {"psi": tensor([[5.0]]), "phi": tensor([[0.0]])}),
    ]
    found = mean_of_steps(told)
    assert (float(found["psi"]), float(found["phi"])) == (4.0, 2.0)


def test_on_mini_batches_clients_send_steps_and_the_server_their_mean():
    method = make(rank=2, rule_per="batch", batch_size=5, rate=0.01)
    (result,) = federate(method, two_worlds(), rounds=1)
    half = len(result.collected) // 2
    first, second = result.collected[:half], result.collected[half:]
    assert [set(update.extra) for update in (first[0], second[0])] == [
        {"mean", "covariance"},
        {"psi", "phi"},
    ]
    assert [update.client for update in first] == [update.client for update in second]
    expected = basis_of(mean_of_steps(second), is_orthonormal=False).float()
    torch.testing.assert_close(result.server.shared["fc2.basis"][:, :2], expected)
    sent = [update.extra["psi"] for update in second]
    assert not torch.equal(sent[0], sent[1])


def test_steps_cannot_have_noise():
    with pytest.raises(ValidationError, match="epsilon"):
        make(epsilon=1.0, rule_per="batch")


# -- who aligns


@pytest.mark.parametrize(
    ("settings", "everybody"),
    [
        ({}, False),
        ({"aligning": "members"}, True),
        ({"variant": "duotone"}, True),
        ({"variant": "duotone", "aligning": "sampled"}, False),
    ],
)
def test_as_published_those_align_who_trained(settings, everybody):
    population = make_population(members=6)
    method = make(align_every=1, rank=1, **settings)
    for result in federate(method, population, rounds=3, sampled=2):
        trained = [update.client for update in result.updates]
        asked = [update.client for update in result.collected]
        assert asked == (list(population.partition.members) if everybody else trained)


@pytest.mark.parametrize("rule_per", ["alignment", "batch"])
def test_one_client_alone_aligns_nothing(rule_per):
    method = make(align_every=1, rank=1, rule_per=rule_per)
    *_, result = federate(method, make_population(), rounds=2, sampled=1)
    assert not result.refused
    assert not result.server.shared["fc2.basis"].any()


# -- FC3


def test_a_head_that_is_read_computes_the_same_at_first():
    layer = nn.Linear(5, 3)
    h = torch.randn(4, 5)
    torch.testing.assert_close(AlignedHead(layer)(h), layer(h))


def test_at_fc3_fedcd_is_fedavg_with_one_more_layer():
    population = make_population()
    ours = make(Exact, variant="duotone", layer="inner.head", align_every=1, rank=2)
    theirs = FedAvg(FedAvg.Config(), as_network(OneMore))
    x = population.data("c0", "test").x
    for mine, other in zip(
        federate(ours, population, rounds=3), federate(theirs, population, rounds=3), strict=True
    ):
        found = ours.load(mine.server.shared, population.info).eval()(x)
        expected = theirs.load(other.server.shared, population.info).eval()(x)
        torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)
    assert mine.server.shared["inner.head.after.basis"].any(dim=0).sum() == 2


def test_at_fc3_codes_are_of_the_scores():
    population = make_population()
    method = make(variant="duotone", layer="head", rank=2)
    *_, result = federate(method, population, rounds=2)
    model = method.load(result.server.shared, population.info).eval()
    x = population.data("c0", "test").x
    codes = method.encode(model, x)
    assert codes.local.shape == (len(x), 2)
    assert codes.shared.shape == (len(x), population.info.outputs)
    torch.testing.assert_close(method.predict_with(model, x, codes.local), model(x))


@pytest.mark.parametrize("layer", ["fc1", "head"])
def test_a_trained_network_computes_the_same_without_its_aligned_layer(layer):
    population = make_population()
    # A P that is not orthonormal.
    method = make(layer=layer, rank=2, rate=0.02, rule_steps=5, align_every=1, lr=0.01)
    *_, result = federate(method, population, rounds=3)
    x = population.data("c0", "test").x
    expected = method.load(result.server.shared, population.info).eval()(x)
    bare = mlp(population.info)
    bare.load_state_dict(plain(result.server.shared))
    torch.testing.assert_close(bare.eval()(x), expected, atol=1e-4, rtol=1e-4)


def test_what_a_client_sends_to_an_aligned_head_is_averaged():
    population = make_population()
    method = make(layer="head", rank=2)
    (result,) = federate(method, population, rounds=1)
    update = result.updates[0]
    twice = [replace(update, client="a"), replace(update, client="b")]
    found = method.server_update(result.server, twice, result.info).shared
    torch.testing.assert_close(found["head.after.weight"], update.shared["head.after.weight"])
    assert torch.equal(found["head.after.basis"], result.server.shared["head.after.basis"])
