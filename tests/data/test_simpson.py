from __future__ import annotations

import numpy as np
import pytest

from duotone.data import Dataset, load_dataset

EVERY = ["simpson", "simpson-repo", "simpson-slopes"]


def slope(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.polyfit(x, y, 1)[0])


def rows_of(dataset: Dataset) -> dict[str, np.ndarray]:
    assert dataset.client is not None
    return {str(name): np.flatnonzero(dataset.client == name) for name in np.unique(dataset.client)}


@pytest.mark.parametrize("name", EVERY)
def test_the_trend_inside_clients_is_the_opposite_of_that_over_all(name: str) -> None:
    dataset = load_dataset(name)
    x, y = dataset.x[:, 0], dataset.y
    assert slope(x, y) < -0.5
    for rows in rows_of(dataset).values():
        assert slope(x[rows], y[rows]) == pytest.approx(dataset.factors["slope"][rows[0]], abs=0.1)


@pytest.mark.parametrize("name", EVERY)
def test_clients_are_eight_with_50_samples_on_one_scale(name: str) -> None:
    dataset = load_dataset(name)
    assert [len(rows) for rows in rows_of(dataset).values()] == [50] * 8
    assert dataset.is_test.sum() == 80
    assert dataset.classes == 0
    for values in (dataset.x, dataset.y):
        assert values.mean() == pytest.approx(0, abs=1e-6)
        assert values.std() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_the_recorded_line_leaves_nothing_but_the_noise(name: str) -> None:
    dataset = load_dataset(name)
    rest = dataset.y - (dataset.factors["slope"] * dataset.x[:, 0] + dataset.factors["intercept"])
    means = [rest[rows].mean() for rows in rows_of(dataset).values()]
    # Of 50 samples the mean is off by a seventh of the noise.
    assert np.abs(means).max() < 4 * rest.std() / np.sqrt(50)
    assert 0.02 < rest.std() < 0.06


def test_clients_of_the_paper_do_not_overlap_and_those_of_the_code_do() -> None:
    ranges = {}
    for name in ("simpson", "simpson-repo"):
        dataset = load_dataset(name)
        rows = rows_of(dataset)
        ranges[name] = [(dataset.x[rows[c]].min(), dataset.x[rows[c]].max()) for c in sorted(rows)]
    pairs = list(zip(ranges["simpson"][1:], ranges["simpson"][:-1], strict=True))
    assert all(high < low for (_, high), (low, _) in pairs), "c2 lies to the left of c1, and so on"
    pairs = list(zip(ranges["simpson-repo"][1:], ranges["simpson-repo"][:-1], strict=True))
    assert all(high > low for (_, high), (low, _) in pairs)


def test_slopes_differ_only_where_they_should() -> None:
    assert len(np.unique(load_dataset("simpson").factors["slope"])) == 1
    assert len(np.unique(load_dataset("simpson-slopes").factors["slope"])) == 8
