from __future__ import annotations

import numpy as np
import pytest

from duotone.errors import PartitionError
from duotone.partition import build_partition, resolve_settings
from duotone.partition.describe import class_counts, training_sizes


def test_the_default_partition_is_fifty_clients_in_ten_groups_of_which_two_are_new(
    make_dataset,
) -> None:
    dataset = make_dataset(train=4000, test=1000, classes=10)
    partition = build_partition(dataset, "groups", {}, seed=0)
    assert partition.clients == tuple(str(i) for i in range(50))
    assert partition.groups == tuple(f"g{i // 5}" for i in range(50))
    assert partition.newcomers == tuple(str(i) for i in range(40, 50))


def test_clients_of_a_group_are_alike_and_groups_are_not(make_dataset) -> None:
    dataset = make_dataset(train=4000, test=1000, classes=10)
    partition = build_partition(dataset, "groups", {}, seed=1)
    counts = class_counts(partition, dataset.y, dataset.classes).reshape(10, 5, 10)
    sizes = training_sizes(partition).reshape(10, 5)
    assert np.ptp(counts, axis=1).max() <= 1
    assert np.ptp(sizes, axis=1).max() <= 1
    assert np.ptp(sizes[:, 0]) > 20


def test_clients_are_spread_over_groups_as_evenly_as_possible(make_dataset) -> None:
    settings = {"clients": 8, "groups": 3, "newcomer_groups": 1, "alpha": 5.0}
    partition = build_partition(make_dataset(), "groups", settings, seed=0)
    assert partition.groups == ("g0", "g0", "g0", "g1", "g1", "g1", "g2", "g2")
    assert partition.newcomers == ("6", "7")


@pytest.mark.parametrize("seed", range(5))
def test_members_hold_enough_of_every_class_to_learn_it(make_dataset, seed: int) -> None:
    dataset = make_dataset(train=4000, test=1000, classes=10)  # 400 of each class: ten are needed
    settings = {"clients": 9, "groups": 3, "alpha": 0.5, "min_test": 0, "newcomer_groups": 1}
    partition = build_partition(dataset, "groups", settings, seed=seed)
    counts = class_counts(partition, dataset.y, dataset.classes)
    assert counts[: len(partition.members)].sum(axis=0).min() >= 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clients": 5, "groups": 10}, "clients = 5 cannot fill partition.groups = 10"),
        ({"newcomer_groups": 10}, "newcomer_groups = 10 of .* lower it to 9"),
        ({"clients": 50}, "50 clients .* need 500 of them, but 'toy' has 400"),
    ],
)
def test_an_impossible_request_is_refused_with_numbers(
    make_dataset, settings: dict[str, int], message: str
) -> None:
    with pytest.raises(PartitionError, match=message):
        build_partition(make_dataset(), "groups", settings, seed=0)


@pytest.mark.parametrize(
    ("given", "groups", "newcomer_groups"),
    [
        ({}, 10, 2),
        ({"clients": 5}, 5, 1),
        ({"clients": 2}, 2, 1),
        ({"clients": 1}, 1, 0),
        ({"clients": 100}, 10, 2),
        ({"groups": 4}, 4, 1),
        ({"clients": 3, "newcomer_groups": 2}, 3, 2),
    ],
)
def test_the_number_of_groups_follows_small_numbers_of_clients(given, groups, newcomer_groups):
    settings = resolve_settings("groups", given)
    assert (settings.groups, settings.newcomer_groups) == (groups, newcomer_groups)
