from __future__ import annotations

import numpy as np
import pytest

from duotone.data.dataset import Dataset
from duotone.errors import PartitionError
from duotone.partition import build_partition

# Client 10 has no test samples, client 2 hardly any samples at all.
TRAIN = ["1"] * 20 + ["10"] * 20 + ["2"] * 3 + ["3"] * 12
TEST = ["1"] * 5 + ["2"] + ["3"] * 4
LARGE = {"skip_small": True}


def named(make_dataset, domain: list[str] | None = None) -> Dataset:
    rows = len(TRAIN)
    domains = None if domain is None else (np.array(domain[:rows]), np.array(domain[rows:]))
    return make_dataset(
        train=rows, test=len(TEST), client=(np.array(TRAIN), np.array(TEST)), domain=domains
    )


def test_each_sample_goes_to_the_client_it_came_from(make_dataset) -> None:
    dataset = named(make_dataset)
    partition = build_partition(dataset, "natural", {"min_train": 3}, seed=0)
    assert partition.clients == ("1", "2", "3", "10")
    for client, holding in partition.items():
        rows = np.concatenate([holding.train, holding.val, holding.test])
        assert (dataset.client[rows] == client).all()
    assert sum(map(len, partition.rows.values())) == len(dataset)


def test_a_client_without_test_samples_is_tested_on_a_fifth_of_its_training_samples(
    make_dataset,
) -> None:
    holding = build_partition(named(make_dataset), "natural", LARGE, seed=0)["10"]
    assert len(holding.test) == 4
    assert len(holding.train) + len(holding.val) == 16
    assert set(holding.test).isdisjoint(holding.train)


def test_small_clients_are_an_error_unless_they_may_be_skipped(make_dataset) -> None:
    dataset = named(make_dataset)
    with pytest.raises(
        PartitionError, match=r"1 of 4 clients .*'2', has 3.*skip_small = true, or set .* = 3"
    ):
        build_partition(dataset, "natural", {}, seed=0)
    assert build_partition(dataset, "natural", LARGE, seed=0).clients == ("1", "3", "10")


def test_nobody_left_is_an_error(make_dataset) -> None:
    with pytest.raises(PartitionError, match="has 0 clients, none of which trains"):
        build_partition(named(make_dataset), "natural", LARGE | {"min_train": 99}, seed=0)


def test_the_group_is_the_domain_where_a_client_has_only_one(make_dataset) -> None:
    of_client = {"1": "north", "2": "south", "3": "south", "10": "north"}
    domain = [of_client[client] for client in TRAIN + TEST]
    partition = build_partition(named(make_dataset, domain), "natural", LARGE, seed=0)
    assert partition.groups == ("north", "south", "north")
    domain[0] = "south"
    partition = build_partition(named(make_dataset, domain), "natural", LARGE, seed=0)
    assert partition.groups == ("all", "all", "all")


@pytest.mark.parametrize("newcomers", [["3"], [3]])
def test_newcomers_can_be_named(make_dataset, newcomers: list[object]) -> None:
    settings = LARGE | {"newcomers": newcomers}
    partition = build_partition(named(make_dataset), "natural", settings, seed=0)
    assert partition.newcomers == ("3",)


@pytest.mark.parametrize(("newcomers", "count"), [(0, 0), (2, 2), (0.01, 1), (0.34, 1), (0.6, 2)])
def test_newcomers_can_be_counted(make_dataset, newcomers: float, count: int) -> None:
    settings = LARGE | {"newcomers": newcomers}
    partition = build_partition(named(make_dataset), "natural", settings, seed=0)
    assert len(partition.newcomers) == count


def test_counted_newcomers_are_chosen_at_random(make_dataset) -> None:
    dataset, settings = named(make_dataset), LARGE | {"newcomers": 1}
    chosen = {build_partition(dataset, "natural", settings, seed=s).newcomers for s in range(20)}
    assert chosen == {("1",), ("3",), ("10",)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clients": 50}, "clients = 50, but 'toy' names 3 clients that are large enough"),
        ({"newcomers": ["11"]}, "'11', which is no client .* Did you mean '1'"),
        ({"newcomers": ["2"]}, "no client of 'toy' that is large enough"),
        ({"newcomers": 3}, "newcomers of all 3 clients"),
        ({"newcomers": 0.99}, "newcomers of all 3 clients"),
    ],
)
def test_an_impossible_request_is_refused(
    make_dataset, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(PartitionError, match=message):
        build_partition(named(make_dataset), "natural", LARGE | settings, seed=0)


def test_data_without_client_ids_has_no_natural_clients(make_dataset) -> None:
    with pytest.raises(PartitionError, match="'toy' does not say which client"):
        build_partition(make_dataset(), "natural", {}, seed=0)
