from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotone.methods.concepts.alignment import (
    discriminants,
    oblique_complement,
    orthogonal_complement,
    orthonormal,
    turned_to,
    with_ridge,
)
from duotone.methods.concepts.chance import (
    LEVEL,
    by_chance,
    chance_level,
    orthogonal_block,
    rank_at_gap,
)
from duotone.methods.concepts.moments import (
    Moments,
    above_noise,
    budget_of,
    moments,
    noise_scale,
    pooled,
    private_moments,
)


def tensor(rows):
    return torch.tensor(rows, dtype=torch.float64)


def scattered(seed, clients=12, groups=4, width=10, samples=60):
    """Draw clients of a few groups whose means differ."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(groups, width)) * 3
    mix = rng.normal(size=(width, width))
    return [
        torch.from_numpy(centres[k % groups] + rng.normal(size=(samples, width)) @ mix)
        for k in range(clients)
    ]


def test_moments_by_hand():
    found = moments(torch.tensor([[0.0, 2.0], [2.0, 2.0], [4.0, 5.0]]))
    assert found.count == 3
    assert found.mean.tolist() == [2, 3]
    torch.testing.assert_close(found.covariance, tensor([[8 / 3, 2], [2, 2]]))


def test_two_clients_are_pooled_by_their_numbers():
    eye = torch.eye(2, dtype=torch.float64)
    found = pooled([Moments(3, tensor([0, 0]), eye), Moments(1, tensor([4, 0]), 5 * eye)])
    assert found.mean.tolist() == [1, 0]
    assert found.within.tolist() == [[2, 0], [0, 2]]
    assert found.between.tolist() == [[3, 0], [0, 0]]  # (3 · 1² + 1 · 3²) / 4


@given(st.integers(0, 50))
def test_within_and_between_add_up_to_the_covariance_of_all(seed):
    hidden = scattered(seed)
    found = pooled([moments(rows) for rows in hidden])
    torch.testing.assert_close(found.within + found.between, moments(torch.cat(hidden)).covariance)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_discriminants_are_those_of_scipy(seed):
    found = pooled([moments(rows) for rows in scattered(seed)])
    values, directions = discriminants(found)
    expected, theirs = scipy.linalg.eigh(found.between.numpy(), with_ridge(found.within).numpy())
    np.testing.assert_allclose(values, expected[::-1].clip(0), atol=1e-10)
    ours = orthonormal(directions[:, :3]).numpy()
    cosines = np.linalg.svd(ours.T @ scipy.linalg.orth(theirs[:, ::-1][:, :3]))[1]
    assert cosines.min() > 1 - 1e-9


def test_a_unit_that_never_fires_is_no_direction():
    hidden = [torch.cat([rows, torch.zeros(len(rows), 1)], dim=1) for rows in scattered(0)]
    values, directions = discriminants(pooled([moments(rows) for rows in hidden]))
    assert values.isfinite().all()
    assert orthonormal(directions[:, :3])[-1].abs().max() < 1e-8


def test_a_dead_layer_has_no_discriminants():
    values, directions = discriminants(pooled([moments(torch.zeros(5, 3))] * 4))
    assert values.tolist() == [0, 0, 0]
    assert orthonormal(directions).isfinite().all()


@pytest.mark.parametrize(
    ("values", "most", "rank"),
    [
        ([5.77, 3.34, 0.86, 0.03, 0.02], 9, 3),
        ([0.67, 0.65, 0.19, 0.15, 0.11, 0.10, 0.04, 0.005], 7, 7),
        ([4.0, 3.0, 2.0, 0.9], 9, 3),  # no clear fall: the largest
        ([4.0, 0.1, 0.0, 0.0], 2, 2),  # rounding is no discriminant
        ([4.0, 0.1, 0.09], 9, 1),
        ([1.0], 9, 1),
    ],
)
def test_the_rank_is_where_discriminants_fall_clearly(values, most, rank):
    assert rank_at_gap(tensor(values), most) == rank


def test_four_groups_differ_in_three_directions():
    values, _ = discriminants(pooled([moments(rows) for rows in scattered(3, samples=2000)]))
    assert rank_at_gap(values, 9) == 3


def test_few_clients_that_differ_in_one_direction_do_not_pass_for_many_groups():
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(6, 200, 20, generator=generator, dtype=torch.float64)
    drawn[3:, :, 0] += 4
    told = [moments(rows) for rows in drawn]
    values, _ = discriminants(pooled(told))
    most = len(told) - 1
    # Means of K clients never differ in a K-th direction; that fall is clear but says nothing.
    assert rank_at_gap(values, most) == most
    assert rank_at_gap(values, most, chance_level(told)) == 1


def test_chance_is_what_alike_clients_reach():
    generator = torch.Generator().manual_seed(0)
    told = [
        moments(torch.randn(300, 40, generator=generator, dtype=torch.float64)) for _ in range(20)
    ]
    largest = float(discriminants(pooled(told))[0][0])
    assert chance_level(told) == pytest.approx((19**0.5 + 40**0.5) ** 2 / 6000)
    assert 0.6 * chance_level(told) < largest < 1.1 * chance_level(told)


# -- what chance does


def chances(trials, counts, width, draw):
    """Return what the test says of federations whose clients are drawn alike."""
    found = []
    for trial in range(trials):
        rng = np.random.default_rng([7, trial])
        told = [moments(torch.from_numpy(draw(rng, count, width))) for count in counts]
        found.append(by_chance(pooled(told), told, rng))
    return np.array(found)


def mixed(rng, count, width):
    """Draw vectors of very unequal spread."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(width, width)))[0]
    return rng.normal(size=(count, width)) * np.logspace(0, -3, width) @ turn


def rectified(rng, count, width):
    """Draw units that fire for a part of the samples, by classes: nothing Gaussian."""
    places = np.random.default_rng(1).normal(size=(5, width)) * 2
    noise = rng.normal(size=(count, width))
    return np.maximum(places[rng.integers(5, size=count)] + noise, 0)


@pytest.mark.parametrize(
    ("counts", "width", "draw"),
    [
        ([30] * 5, 8, mixed),
        ([8] * 3, 40, mixed),  # fewer vectors than dimensions
        pytest.param([5, 12, 40, 7], 6, mixed, marks=pytest.mark.slow),
        # More clients than dimensions.
        pytest.param([2] * 12, 4, mixed, marks=pytest.mark.slow),
        pytest.param([30] * 5, 8, rectified, marks=pytest.mark.slow),
    ],
)
def test_alike_clients_pass_for_different_as_often_as_promised(counts, width, draw):
    found = chances(200, counts, width, draw)
    assert (found <= LEVEL).mean() <= 0.05
    # All shares of chance are equally likely then.
    assert scipy.stats.kstest(found, "uniform").pvalue > 0.01


def test_alike_clients_have_no_direction_that_stands_out():
    """The gap alone finds one in all of 40 made federations; with chance it finds none."""
    rng = np.random.default_rng(0)
    by_gap, with_chance = [], []
    for _ in range(40):
        told = [moments(torch.from_numpy(mixed(rng, 30, 8))) for _ in range(5)]
        scatter = pooled(told)
        values, _ = discriminants(scatter)
        by_gap.append(rank_at_gap(values, 4, chance_level(told)))
        chance = by_chance(scatter, told, rng)
        with_chance.append(rank_at_gap(values, 4, chance_level(told), chance))
    assert min(by_gap) >= 1
    assert with_chance == [0] * 40


@pytest.mark.parametrize(("chance", "rank"), [(0.005, 3), (0.01, 3), (0.015, 0), (1.0, 0)])
def test_a_first_direction_that_chance_makes_easily_is_none(chance, rank):
    assert rank_at_gap(tensor([5.77, 3.34, 0.86, 0.03, 0.02]), 9, chance=chance) == rank


@pytest.mark.parametrize("seed", range(5))
def test_different_clients_are_told_from_chance(seed):
    told = [moments(rows) for rows in scattered(seed)]
    assert by_chance(pooled(told), told, np.random.default_rng(seed)) <= LEVEL


def test_chance_agrees_with_clients_dealt_out_anew():
    """The server cannot permute samples; where they are at hand, that says the same."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        hidden = np.stack([rectified(rng, 40, 6) for _ in range(5)])
        hidden[0, :, seed] += 0.25
        told = [moments(torch.from_numpy(rows)) for rows in hidden]
        leading = float(discriminants(pooled(told))[0][0])
        as_large = 0
        for _ in range(400):
            rows = rng.permutation(hidden.reshape(-1, 6)).reshape(hidden.shape)
            drawn = pooled([moments(torch.from_numpy(own)) for own in rows])
            as_large += float(discriminants(drawn)[0][0]) >= leading
        found = by_chance(pooled(told), told, rng)
        assert found == pytest.approx(as_large / 400, abs=0.1)


def test_a_dead_layer_is_chance():
    told = [moments(torch.zeros(5, 3))] * 4
    assert by_chance(pooled(told), told, np.random.default_rng(0)) == 1


def test_clients_of_one_vector_each_cannot_be_told_from_chance():
    told = [moments(rows[:1]) for rows in scattered(0)]
    assert by_chance(pooled(told), told, np.random.default_rng(0)) > LEVEL


@pytest.mark.parametrize(("height", "width"), [(5, 2), (2, 5), (3, 3), (6, 4)])
def test_a_corner_of_a_random_orthogonal_matrix(height, width):
    rng = np.random.default_rng(0)
    ours = [orthogonal_block(rng, height, width, 6) for _ in range(3000)]
    theirs = [m[:height, :width] for m in scipy.stats.ortho_group.rvs(6, 3000, random_state=1)]
    assert ours[0].shape == (height, width)
    ours, theirs = (np.array([np.linalg.norm(m, 2) for m in found]) for found in (ours, theirs))
    if height == 6:  # whole columns
        np.testing.assert_allclose(ours, 1)
    else:
        assert scipy.stats.ks_2samp(ours, theirs).pvalue > 0.01


def test_an_orthonormal_basis_keeps_sides():
    basis = orthonormal(tensor([[-2, 0], [0, 0], [0, 3]]))
    assert basis.tolist() == [[-1, 0], [0, 0], [0, 1]]


def test_a_basis_is_turned_to_the_old_one_within_its_space():
    old = orthonormal(torch.from_numpy(np.random.default_rng(0).normal(size=(6, 3))))
    turn = torch.linalg.qr(torch.from_numpy(np.random.default_rng(1).normal(size=(3, 3))))[0]
    torch.testing.assert_close(turned_to(old @ turn, old), old)


def test_complements_hold_nothing_of_the_basis_and_give_it_back():
    found = pooled([moments(rows) for rows in scattered(0)])
    basis = orthonormal(discriminants(found)[1][:, :3])
    for complement in (orthogonal_complement(basis), oblique_complement(basis, found.within)):
        assert (basis.T @ complement).abs().max() < 1e-12
        torch.testing.assert_close(complement @ complement, complement)
        assert torch.linalg.matrix_rank(complement) == 7


def test_only_the_oblique_complement_takes_away_how_means_differ():
    hidden = scattered(0, samples=500)
    found = pooled([moments(rows) for rows in hidden])
    basis = orthonormal(discriminants(found, ridge=0)[1][:, :3])

    def left(complement):
        rest = pooled([moments(rows @ complement.T) for rows in hidden])
        return float(rest.between.trace() / found.between.trace())

    assert left(orthogonal_complement(basis)) > 0.1
    assert left(oblique_complement(basis, found.within)) < 0.01


# -- with noise


def test_privacy_is_spent_as_its_formula_says():
    rho = budget_of(2.0, delta=1e-5)
    assert rho + 2 * math.sqrt(rho * math.log(1e5)) == pytest.approx(2.0)


def test_one_vector_moves_the_sums_by_what_the_noise_is_made_for():
    def moved(a, b):
        square = (np.outer(a, a) - np.outer(b, b)).ravel()
        return np.sum((a - b) ** 2) + np.sum(square**2)

    rng = np.random.default_rng(0)
    pairs = rng.standard_normal((20_000, 2, 3))
    lengths = rng.random((20_000, 2, 1)) ** 0.1
    pairs *= lengths / np.linalg.norm(pairs, axis=2, keepdims=True)
    worst = max(moved(a, b) for a, b in pairs)
    assert 4.3 < worst < 4.5
    assert moved(np.array([1, 0]), np.array([-0.5, math.sqrt(0.75)])) == pytest.approx(4.5)
    assert noise_scale(1.0, 0.5) == pytest.approx(math.sqrt(4.5))
    assert noise_scale(3.0, 0.5) == pytest.approx(9 * math.sqrt(4.5))


def test_noise_has_the_scale_it_should_and_fades_with_the_budget():
    hidden = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (50, 40)))
    plain = moments(hidden)
    clip, budget = 10.0, 2.0
    noisy = private_moments(hidden, clip, budget, torch.Generator().manual_seed(0))
    scale = noise_scale(clip, budget)
    assert (noisy.mean - plain.mean).std() * 50 == pytest.approx(scale / clip, rel=0.3)
    square = noisy.covariance + torch.outer(noisy.mean, noisy.mean)
    error = square - hidden.T @ hidden / 50
    off_diagonal = error[~torch.eye(40, dtype=torch.bool)]
    assert off_diagonal.std() * 50 == pytest.approx(scale / math.sqrt(2), rel=0.1)
    torch.testing.assert_close(error, error.T)
    exact = private_moments(hidden, clip, 1e16, torch.Generator())
    torch.testing.assert_close(exact.mean, plain.mean, atol=1e-5, rtol=0)
    torch.testing.assert_close(exact.covariance, plain.covariance, atol=1e-5, rtol=0)


def test_long_vectors_are_cut_before_noise():
    hidden = tensor([[30.0, 40.0], [0.3, 0.4]])
    found = private_moments(hidden, 5.0, 1e16, torch.Generator())
    torch.testing.assert_close(found.mean, tensor([1.65, 2.2]), atol=1e-5, rtol=0)


def test_no_spread_is_below_the_noise():
    width, clients = 30, 6
    told = [
        private_moments(torch.zeros(40, width), 1.0, 0.5, torch.Generator().manual_seed(client))
        for client in range(clients)
    ]
    scatter = pooled(told)
    lifted = above_noise(scatter, told, noise_scale(1.0, 0.5))
    before, after = (torch.linalg.eigvalsh(s.within) for s in (scatter, lifted))
    assert before[0] < 0
    assert (after > 0).all()
    # Nothing but noise here: its largest eigenvalue is about the level everything is lifted to.
    assert after[-1] == pytest.approx(float(after[0]), rel=0.25)


@pytest.mark.parametrize(("epsilon", "apart", "differ"), [(1.0, 0, False), (64.0, 6, True)])
def test_noise_on_the_means_is_no_difference(epsilon, apart, differ):
    clip, budget, found = 10.0, budget_of(epsilon), []
    scale = noise_scale(clip, budget)
    for trial in range(40):
        generator = torch.Generator().manual_seed(trial)
        hidden = torch.randn(8, 300, 12, generator=generator, dtype=torch.float64)
        hidden[4:, :, 0] += apart
        told = [private_moments(rows, clip, budget, generator) for rows in hidden]
        scatter = above_noise(pooled(told), told, scale)
        rng = np.random.default_rng(trial)
        found.append(by_chance(scatter, told, rng, scale / clip) <= LEVEL)
    assert np.mean(found) == (1 if differ else pytest.approx(0, abs=0.05))
