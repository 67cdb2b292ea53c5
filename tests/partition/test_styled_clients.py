"""Each client has its style, and its samples show it."""

from __future__ import annotations

import numpy as np
import pytest

from duotone.data.dataset import Dataset
from duotone.errors import DataError
from duotone.partition import Holding, Partition, Population, build_partition, build_population
from duotone.partition.build import styled_population


def images(rows: int = 200, classes: int = 4) -> Dataset:
    x = np.random.default_rng(0).integers(0, 256, (rows, 8, 8), np.uint8)
    y = np.arange(rows) % classes
    half = rows // 2
    return Dataset.from_arrays("noise", x[:half], y[:half], x[half:], y[half:])


def groups(population: Population, role: str) -> list[str]:
    partition = population.partition
    return [partition[client].group for client in partition.of_role(role)]


def test_members_and_newcomers_take_turns_with_the_styles_each_for_themselves() -> None:
    settings = {"clients": 7, "newcomers": 2}
    population = build_population(images(), "iid", settings, "padpaf4", seed=0)
    assert groups(population, "member") == ["zoom-in", "zoom-out", "invert", "blur", "zoom-in"]
    assert groups(population, "newcomer") == ["zoom-out", "invert"]


def test_newcomers_have_styles_that_no_member_has() -> None:
    settings = {"clients": 14, "newcomers": 5, "min_train": 5}
    population = build_population(images(), "iid", settings, "padpaf-new", seed=0)
    eight = ["zoom-in", "zoom-out", "invert", "blur", "left-right", "upside-down", "rotation"]
    assert groups(population, "member") == [*eight, "brightness", "zoom-in"]
    assert groups(population, "newcomer") == ["affine", "solarize", "erase", "affine", "solarize"]


def test_every_sample_of_a_client_has_its_style_and_nobody_else_s_rows_are_changed() -> None:
    plain = images()
    settings = {"clients": 4, "max_train": 10, "max_test": 5, "validation": 0.2}
    population = build_population(plain, "iid", settings, "padpaf4", seed=3)
    expected = np.full(200, -1)
    for number, holding in enumerate(population.partition.values()):
        assert len(holding.val) == 2
        for rows in (holding.train, holding.val, holding.test):
            expected[rows] = number
    np.testing.assert_array_equal(population.dataset.factors["style"], expected)
    invert, nobody = expected == 2, expected == -1
    np.testing.assert_array_equal(population.dataset.x[invert], 255 - plain.x[invert])
    np.testing.assert_array_equal(population.dataset.x[nobody], plain.x[nobody])


def test_a_style_is_added_to_the_names_of_groups_and_moves_no_sample() -> None:
    settings = {"clients": 4, "groups": 2, "newcomer_groups": 0, "alpha": 10.0, "min_train": 1}
    without = build_partition(images(), "groups", settings, seed=1)
    styled = build_population(images(), "groups", settings, "padpaf4", seed=1).partition
    assert styled.groups == ("g0+zoom-in", "g0+zoom-out", "g1+invert", "g1+blur")
    for split, rows in without.rows.items():
        np.testing.assert_array_equal(styled.rows[split], rows)


def test_without_a_style_data_and_partition_stay_as_they_are() -> None:
    dataset = images()
    population = build_population(dataset, "iid", {"clients": 3}, seed=2)
    alone = build_partition(dataset, "iid", {"clients": 3}, seed=2)
    assert population.dataset is dataset
    assert population.partition.fingerprint() == alone.fingerprint()


def test_clients_get_the_styles_that_are_given_them() -> None:
    rows = np.arange(6).reshape(3, 2)
    holdings = [
        Holding(name, "all", "member", own[:1], own[:0], own[1:])
        for name, own in zip("abc", rows, strict=True)
    ]
    partition = Partition.from_holdings(holdings)
    style_of = {"a": "invert", "b": "zoom-in", "c": "invert"}
    found = styled_population(images(8), partition, "padpaf4", style_of, seed=0)
    assert found.dataset.factors["style"].tolist() == [2, 2, 0, 0, 2, 2, -1, -1]
    assert found.partition is partition


def test_styles_that_samples_cannot_have_are_refused(regression: Dataset) -> None:
    with pytest.raises(DataError, match="is a table"):
        build_population(regression, "iid", {"clients": 2}, "marks", seed=0)
