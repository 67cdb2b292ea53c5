from __future__ import annotations

import numpy as np
import pytest

from duotone.partition import Holding, Partition, build_partition
from duotone.partition.describe import GroupSize, class_counts, describe


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


@pytest.fixture
def by_hand() -> Partition:
    # Classes go 0, 1, 0, 1, …; rows 0–7 are training rows, 8–11 test rows; nobody holds row 11.
    return Partition.from_holdings(
        [
            Holding("a", "even", "member", rows(0, 2, 4), rows(6), rows(8)),
            Holding("b", "odd", "newcomer", rows(1, 3), rows(), rows(9)),
            Holding("c", "even", "member", rows(5), rows(7), rows(10)),
        ]
    )


def test_sizes_and_groups_are_counted_with_validation_samples(make_dataset, by_hand) -> None:
    found = describe(make_dataset(train=8, test=4, classes=2), by_hand)
    assert (found.members, found.newcomers) == (2, 1)
    assert (found.smallest, found.median, found.largest) == (2, 2.0, 4)
    assert found.unused == 1
    assert found.groups == (GroupSize("even", 2, 0, 6), GroupSize("odd", 0, 1, 2))
    assert found.fingerprint == by_hand.fingerprint()


def test_label_skew_is_what_a_pencil_says(make_dataset, by_hand) -> None:
    # Pooled: half and half. Every client has one class only, so each is 1/2 away from that.
    found = describe(make_dataset(train=8, test=4, classes=2), by_hand)
    assert found.label_distance == pytest.approx(0.5)
    assert found.effective_classes == pytest.approx(1.0)


def test_alike_clients_have_no_label_skew(make_dataset) -> None:
    dataset = make_dataset(train=8, test=4, classes=2)
    alike = Partition.from_holdings(
        [
            Holding("a", "all", "member", rows(0, 1, 2, 3), rows(), rows(8)),
            Holding("b", "all", "member", rows(4, 5), rows(6, 7), rows(9)),
        ]
    )
    found = describe(dataset, alike)
    assert found.label_distance == pytest.approx(0.0)
    assert found.effective_classes == pytest.approx(2.0)


def test_the_table_has_one_row_per_client_and_class_held(make_dataset, by_hand) -> None:
    table = describe(make_dataset(train=8, test=4, classes=2), by_hand).table
    assert table.columns == ["client", "group", "kind", "class", "count"]
    assert table.rows() == [
        ("a", "even", "member", 0, 4),
        ("b", "odd", "newcomer", 1, 2),
        ("c", "even", "member", 1, 2),
    ]


def test_class_counts_are_those_of_the_training_samples(make_dataset) -> None:
    dataset = make_dataset(train=400, test=100)
    partition = build_partition(dataset, "dirichlet", {"clients": 6, "alpha": 1.0}, seed=0)
    counts = class_counts(partition, dataset.y, dataset.classes)
    assert counts.sum(axis=0).tolist() == [100] * 4
    holding = partition["3"]
    own = np.bincount(dataset.y[np.concatenate([holding.train, holding.val])], minlength=4)
    assert counts[3].tolist() == own.tolist()


def test_regression_data_is_described_by_sizes_alone(regression) -> None:
    found = describe(regression, build_partition(regression, "iid", {"clients": 4}, seed=0))
    assert (found.smallest, found.largest) == (25, 25)
    assert found.label_distance is None
    assert found.effective_classes is None
    assert found.table.rows()[0] == ("0", "all", "member", None, 25)
