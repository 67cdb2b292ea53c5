from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from duotone.data.dataset import Dataset
from duotone.data.planted import FACTORS, planted, planted_table

MAKERS = [planted, planted_table]


@pytest.mark.parametrize("make", MAKERS)
def test_every_client_has_every_class_equally_often(make: Callable[[], Dataset]) -> None:
    dataset = make()
    assert dataset.client is not None
    for rows, each in ((dataset.train_rows, 75), (dataset.test_rows, 25)):
        pairs, counts = np.unique(
            np.stack([dataset.client[rows], dataset.y[rows].astype(str)]),
            axis=1,
            return_counts=True,
        )
        assert pairs.shape[1] == 12 * 4
        assert set(counts) == {each}


@pytest.mark.parametrize("make", MAKERS)
def test_domain_is_the_group_of_the_client(make: Callable[[], Dataset]) -> None:
    dataset = make()
    assert dataset.client is not None
    assert dataset.domain is not None
    for client, group in zip(dataset.client, dataset.domain, strict=True):
        assert group == f"g{int(client[1:]) % 3}"


@pytest.mark.parametrize("make", MAKERS)
def test_data_is_made_the_same_each_time(make: Callable[[], Dataset]) -> None:
    assert make().fingerprint() == make().fingerprint()


@pytest.mark.parametrize("make", MAKERS)
def test_every_recorded_factor_is_either_shared_or_local(make: Callable[[], Dataset]) -> None:
    dataset = make()
    parts = FACTORS[dataset.name]
    assert sorted(dataset.factors) == sorted(parts["shared"] + parts["local"])


@pytest.mark.parametrize("make", MAKERS)
def test_shared_factors_do_not_depend_on_the_client_nor_local_ones_on_the_class(
    make: Callable[[], Dataset],
) -> None:
    dataset = make()
    for part, given in (("shared", dataset.domain), ("local", dataset.y)):
        assert given is not None
        for name in FACTORS[dataset.name][part]:
            values = dataset.factors[name]
            means = [values[given == value].mean() for value in np.unique(given)]
            assert np.ptp(means) < 5 * values.std() / np.sqrt(len(values) / len(means))


def test_stripe_is_the_number_of_the_group() -> None:
    dataset = planted()
    assert dataset.domain is not None
    np.testing.assert_array_equal(
        np.char.add("g", dataset.factors["stripe"].astype(str)), dataset.domain
    )


def test_shape_is_white_on_stripes_of_at_most_half_that() -> None:
    dataset = planted()
    corner = dataset.x[:, 0, :].astype(float)
    middle_row = dataset.x[:, 7].max(axis=1)
    assert corner.max() < 255 / 2 + 30
    assert middle_row.min() > 200


def test_position_moves_the_shape_sideways_by_four_pixels() -> None:
    dataset = planted()
    white = dataset.x > 190
    columns = (white * np.arange(16)).sum(axis=(1, 2)) / white.sum(axis=(1, 2))
    slope, middle = np.polyfit(dataset.factors["position"], columns, 1)
    assert slope == pytest.approx(4, abs=0.1)
    assert middle == pytest.approx(7.5, abs=0.1)


def test_stripes_and_phase_are_what_is_drawn_where_there_is_no_shape() -> None:
    dataset = planted()
    angle = np.pi * dataset.factors["stripe"] / 3
    row, column = 15, 2
    along = column * np.cos(angle) + row * np.sin(angle)
    wave = (1 + np.sin(2 * np.pi * along / 5 + dataset.factors["phase"])) / 2
    error = dataset.x[:, row, column] - 255 * 0.5 * wave
    # Half a step of rounding and noise of 5, cut off at black.
    assert np.abs(error).max() < 30
    assert np.abs(error).mean() < 6


def test_class_of_the_table_is_the_quadrant_of_the_first_two_shared_factors() -> None:
    dataset = planted_table()
    quadrant = 2 * (dataset.factors["shared0"] > 0) + (dataset.factors["shared1"] > 0)
    np.testing.assert_array_equal(quadrant, dataset.y)


def test_table_is_a_fixed_orthogonal_mixing_plus_noise_of_a_tenth() -> None:
    dataset = planted_table()
    parts = FACTORS["planted-table"]
    factors = np.stack([dataset.factors[name] for name in parts["shared"] + parts["local"]], 1)
    mixing, *_ = np.linalg.lstsq(factors, dataset.x, rcond=None)
    assert (dataset.x - factors @ mixing).std() == pytest.approx(0.1, abs=0.003)
    products = mixing @ mixing.T
    np.testing.assert_allclose(products, products[0, 0] * np.eye(5), atol=0.05)
    assert dataset.x.var(axis=0).mean() == pytest.approx(1, abs=0.05)
    np.testing.assert_allclose(factors.var(axis=0), 1, atol=0.06)


def test_group_can_be_read_from_local_factors_and_not_from_shared_ones() -> None:
    dataset = planted_table()
    train, test = dataset.train_rows, dataset.test_rows
    assert dataset.domain is not None
    scores = {}
    for part, names in FACTORS["planted-table"].items():
        factors = np.stack([dataset.factors[name] for name in names], 1)
        probe = LogisticRegression().fit(factors[train], dataset.domain[train])
        scores[part] = probe.score(factors[test], dataset.domain[test])
    assert scores["local"] > 0.9
    assert scores["shared"] < 0.4
