from __future__ import annotations

import numpy as np
import pytest

from duotone.data.coloured import TOLD, coloured_digits
from duotone.data.dataset import Dataset
from duotone.data.sources import digits
from duotone.partition import build_partition


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return coloured_digits()


def rows_of(dataset: Dataset, domain: str) -> np.ndarray:
    assert dataset.domain is not None
    return np.flatnonzero(dataset.domain == domain)


def test_it_is_made_the_same_each_time(dataset: Dataset) -> None:
    assert coloured_digits().fingerprint() == dataset.fingerprint()


@pytest.mark.parametrize(("domain", "ahead"), [("told", 0), ("misled", 1)])
def test_the_colour_tells_the_class_or_another_one(
    dataset: Dataset, domain: str, ahead: int
) -> None:
    rows = rows_of(dataset, domain)
    agrees = dataset.factors["colour"][rows] == (dataset.y[rows] + ahead) % 10
    assert agrees.mean() == pytest.approx(TOLD, abs=4 * np.sqrt(0.09 / len(rows)))


def test_new_colours_are_others_and_say_nothing_about_the_class(dataset: Dataset) -> None:
    rows = rows_of(dataset, "new")
    colour = dataset.factors["colour"][rows]
    assert set(colour) == set(range(10, 20))
    agrees = colour % 10 == dataset.y[rows]
    assert agrees.mean() == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / len(rows)))
    seen = np.unique(dataset.factors["hue"][rows_of(dataset, "told")])
    assert not np.isin(dataset.factors["hue"][rows], seen).any()


def test_the_ground_is_coloured_and_the_digit_white(dataset: Dataset) -> None:
    told = rows_of(dataset, "told")
    red = told[dataset.factors["colour"][told] == 0][0]
    assert dataset.x[red, 0, 0].tolist() == [153, 0, 0]
    assert dataset.x[red].reshape(-1, 3).max(axis=0).tolist() == [255, 255, 255]


def test_every_domain_is_tested_on_all_test_digits_and_no_digit_is_trained_on_twice(
    dataset: Dataset,
) -> None:
    plain = digits()
    # The red ground of 0 leaves the green channel as the digit was; others are told by brightness.
    ink = dataset.x.min(axis=3).astype(int)
    assert dataset.is_test.sum() == 3 * len(plain.test_rows)
    assert (~dataset.is_test).sum() == len(plain.train_rows)
    expected = np.sort(plain.x[plain.test_rows].reshape(1000, -1).argmax(axis=1))
    for domain in ("told", "misled", "new"):
        rows = rows_of(dataset, domain)
        tested = rows[dataset.is_test[rows]]
        assert np.array_equal(np.bincount(dataset.y[tested]), np.full(10, 100))
        assert np.array_equal(np.sort(ink[tested].reshape(1000, -1).argmax(axis=1)), expected)
    trained = ink[~dataset.is_test].reshape(4000, -1)
    assert len(np.unique(trained, axis=0)) == 4000


def test_members_and_newcomers_are_natural_clients(dataset: Dataset) -> None:
    partition = build_partition(dataset, "natural", {"newcomers": ["misled-0", "new-0"]}, seed=0)
    assert partition.members == ("told-0", "told-1", "told-2", "told-3")
    assert partition["new-0"].group == "new"
    assert len(partition["told-0"].test) == 250
