from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from duotone.methods.concepts.mixture import (
    Monitors,
    Sums,
    best_sharpness,
    first_centres,
    mean_places,
    monitors,
    sums_of,
    total,
)
from duotone.methods.concepts.moments import moments

FAR = torch.tensor([[0.0], [100.0]], dtype=torch.float64)
BOTH = torch.tensor([True, True])


def half() -> torch.Tensor:
    return torch.tensor(0.5, dtype=torch.float64)


def test_sums_of_a_client_by_hand():
    places = torch.tensor([[1.0], [3.0], [100.0]], dtype=torch.float64)
    found = sums_of(places, FAR, half(), BOTH)
    assert found.mass.tolist() == pytest.approx([2.0, 1.0])
    assert found.places.flatten().tolist() == pytest.approx([4.0, 100.0])
    assert float(found.squares) == 1 + 9 + 10_000
    assert float(found.entropy) == pytest.approx(0.0)


def test_entropy_is_told_under_equal_weights():
    places = torch.tensor([[50.0], [50.0]], dtype=torch.float64)
    assert float(sums_of(places, FAR, half(), BOTH).entropy) == pytest.approx(2 * math.log(2))


def test_sums_of_clients_are_those_of_all_samples():
    generator = torch.Generator().manual_seed(0)
    places = torch.randn(20, 1, generator=generator, dtype=torch.float64) + FAR.repeat(10, 1)
    parts = [sums_of(part, FAR, half(), BOTH) for part in places.split([6, 14])]
    together, whole = total(parts), sums_of(places, FAR, half(), BOTH)
    assert together.count == whole.count
    for name, tensor in whole.as_extra().items():
        torch.testing.assert_close(together.as_extra()[name], tensor)


def test_sums_travel_in_an_update_and_back():
    sums = sums_of(FAR, FAR, half(), BOTH)
    again = Sums.of_extra(sums.count, sums.as_extra())
    assert again == sums


def test_a_concept_without_samples_keeps_its_place():
    found = mean_places(torch.tensor([2.0, 0.0]), torch.tensor([[6.0], [0.0]]), FAR.float())
    assert found.flatten().tolist() == [3.0, 100.0]


def test_sharpness_is_that_of_the_variance_around_the_centres():
    places = torch.tensor([[-2.0], [2.0], [98.0], [102.0]], dtype=torch.float64)
    found = best_sharpness(sums_of(places, FAR, half(), BOTH), FAR)
    assert float(found) == pytest.approx(1 / (2 * 4.0))


def test_first_centres_come_from_moments_alone():
    generator = torch.Generator().manual_seed(0)
    truth = torch.tensor([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]], dtype=torch.float64)
    told = [
        moments(centre + torch.randn(50, 2, generator=generator, dtype=torch.float64))
        for centre in truth
        for _ in range(2)
    ]
    found = first_centres(told, 3, np.random.default_rng(0))
    nearest = torch.cdist(found, truth).argmin(dim=1)
    assert sorted(nearest.tolist()) == [0, 1, 2]
    assert torch.cdist(found, truth).min(dim=1).values.max() < 1


def told(*masses: list[float], centres: torch.Tensor, variance: float) -> list[Sums]:
    """Return sums of clients whose places have a variance around the concepts."""
    clients = []
    for mass in masses:
        own = torch.tensor(mass, dtype=torch.float64)
        count = float(own.sum())
        squares = (own * centres.square().sum(dim=1)).sum() + count * variance
        clients.append(Sums(count, own, own[:, None] * centres, squares, torch.tensor(0.0)))
    return clients


def test_monitors_of_two_pure_clients_by_hand():
    found = monitors(told([10, 0], [0, 10], centres=FAR, variance=2500.0), FAR)
    # Concepts lie 50 from their middle; samples vary by 50² around concepts and 50² between them.
    assert found.spread == pytest.approx(math.sqrt(0.5))
    assert found.information == pytest.approx(math.log(2))
    assert found.entropy == 0
    assert found.complaints() == []


def test_monitors_of_alike_clients_say_that_nothing_is_told():
    found = monitors(told([5, 5], [5, 5], centres=FAR, variance=1.0), FAR)
    assert found.information == pytest.approx(0.0)
    (line,) = found.complaints()
    assert "do not tell clients apart" in line


def test_monitors_complain_of_collapse_and_of_indecision():
    lines = " ".join(Monitors(spread=0.05, information=0.5, entropy=0.99).complaints())
    assert "collapsed" in lines
    assert "0.050" in lines
    assert "all concepts alike" in lines
    assert "tell clients apart" not in lines
