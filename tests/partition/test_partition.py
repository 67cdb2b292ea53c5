from __future__ import annotations

import numpy as np
import pytest
import torch

from duotone.data.dataset import Dataset
from duotone.errors import PartitionError
from duotone.partition import Holding, Partition, Population, build_partition


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


HOLDINGS = [
    Holding("b", "g0", "member", rows(3, 1), rows(2), rows(5)),
    Holding("a", "g1", "newcomer", rows(0), rows(), rows(4, 6)),
]


def test_a_partition_gives_back_what_was_packed_in_order() -> None:
    partition = Partition.from_holdings(HOLDINGS)
    assert list(partition) == ["b", "a"]
    for packed, found in zip(HOLDINGS, partition.values(), strict=True):
        assert (found.client, found.group, found.role) == (packed.client, packed.group, packed.role)
        for split in ("train", "val", "test"):
            assert getattr(found, split).tolist() == getattr(packed, split).tolist()
            assert partition.size(found.client, split) == len(getattr(packed, split))
    assert (partition.members, partition.newcomers) == (("b",), ("a",))
    assert "c" not in partition


def test_two_clients_of_one_name_are_refused() -> None:
    with pytest.raises(PartitionError, match="same name"):
        Partition.from_holdings([HOLDINGS[0], HOLDINGS[0]])


def test_the_fingerprint_notices_a_moved_row() -> None:
    moved = [
        Holding("b", "g0", "member", rows(3), rows(2), rows(5)),
        Holding("a", "g1", "newcomer", rows(1, 0), rows(), rows(4, 6)),
    ]
    assert (
        Partition.from_holdings(HOLDINGS).fingerprint()
        == Partition.from_holdings(list(HOLDINGS)).fingerprint()
    )
    assert (
        Partition.from_holdings(HOLDINGS).fingerprint()
        != Partition.from_holdings(moved).fingerprint()
    )


def test_a_population_hands_out_images_as_floats_with_channels_first(make_dataset) -> None:
    dataset = make_dataset(train=4, test=3, classes=2)
    data = Population(dataset, Partition.from_holdings(HOLDINGS)).data("b")
    assert data.x.shape == (2, 1, 2, 2)
    assert data.x[:, 0, 0, 0].tolist() == pytest.approx([3 / 255, 1 / 255])
    assert data.labels.tolist() == [1, 1]


def test_colour_images_keep_their_channels() -> None:
    x = np.arange(7 * 2 * 2 * 3, dtype=np.uint8).reshape(7, 2, 2, 3)
    y = np.zeros(7, np.int64)
    dataset = Dataset.from_arrays("colours", x[:4], y[:4], x[4:], y[4:])
    data = Population(dataset, Partition.from_holdings(HOLDINGS)).data("a", "test")
    assert data.x.shape == (2, 3, 2, 2)
    assert data.x[1, 2, 0, 1].item() == pytest.approx(x[6, 0, 1, 2] / 255)


def test_a_population_can_be_rebuilt_around_its_arrays(make_dataset) -> None:
    dataset = make_dataset()
    population = Population(dataset, build_partition(dataset, "iid", {"clients": 3}, seed=0))
    again = Population.from_arrays(population.arrays(), population.form())
    assert again.info == population.info
    assert again.partition.fingerprint() == population.partition.fingerprint()
    assert torch.equal(again.data("1", "val").x, population.data("1", "val").x)


def test_factors_follow_the_rows(make_dataset) -> None:
    angle = np.arange(7)
    dataset = make_dataset(train=4, test=3, factors={"angle": (angle[:4], angle[4:])})
    partition = Partition.from_holdings(HOLDINGS)
    factors = Population(dataset, partition).factors(partition["b"].train)
    assert factors["angle"].tolist() == [3, 1]
