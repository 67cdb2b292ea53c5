from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duotone.data.dataset import Dataset
from duotone.errors import PartitionError
from duotone.partition import Partition, build_partition
from duotone.partition.describe import class_counts, training_sizes
from duotone.partition.labels import choose_classes
from duotone.seeding import stream


def label_counts(dataset: Dataset, partition: Partition) -> np.ndarray:
    return class_counts(partition, dataset.y, dataset.classes)


def test_iid_clients_have_the_same_size(make_dataset) -> None:
    dataset = make_dataset(train=103, test=25)
    partition = build_partition(dataset, "iid", {"clients": 4}, seed=0)
    assert training_sizes(partition).tolist() == [26, 26, 26, 25]
    assert [partition.size(client, "test") for client in partition] == [7, 6, 6, 6]
    assert set(partition.groups) == {"all"}


def test_the_last_clients_are_the_newcomers(make_dataset) -> None:
    for scheme in ("iid", "dirichlet", "pathological", "quantity"):
        partition = build_partition(
            make_dataset(), scheme, {"clients": 6, "newcomers": 2, "min_test": 0}, seed=0
        )
        assert partition.members == ("0", "1", "2", "3"), scheme
        assert partition.newcomers == ("4", "5"), scheme


def test_a_small_alpha_skews_labels_and_a_large_one_does_not(make_dataset) -> None:
    dataset = make_dataset(train=4000)

    def widest(alpha: float) -> float:
        settings = {"clients": 5, "alpha": alpha, "min_train": 1, "min_test": 0}
        counts = label_counts(dataset, build_partition(dataset, "dirichlet", settings, seed=0))
        return float((counts / counts.sum(axis=1, keepdims=True)).max())

    assert widest(0.1) > 0.7
    assert widest(10_000.0) < 0.3


def test_dirichlet_proportions_have_the_variance_of_the_distribution(make_dataset) -> None:
    # A component of Dirichlet(a, …, a) over k clients has variance (k - 1) / (k² (ka + 1)):
    # for k = 5, a = 1 that is 4 / 150.
    dataset = make_dataset(train=8000, test=0, classes=2)
    settings = {"clients": 5, "alpha": 1.0, "min_train": 1, "min_test": 0}
    shares = [
        label_counts(dataset, build_partition(dataset, "dirichlet", settings, seed=seed)) / 4000
        for seed in range(120)
    ]
    assert np.var(shares) == pytest.approx(4 / 150, rel=0.15)


@given(
    clients=st.integers(1, 40),
    classes=st.integers(1, 12),
    per_client=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_clients_choose_classes_evenly(
    clients: int, classes: int, per_client: int, seed: int
) -> None:
    per_client = min(per_client, classes)
    holds = choose_classes(clients, classes, per_client, stream(seed))
    holders = holds.sum(axis=0)
    assert (holds.sum(axis=1) == per_client).all()
    assert holders.max() - holders.min() <= 1
    assert (holders.min() >= 1) == (clients * per_client >= classes)


def test_pathological_clients_hold_exactly_the_classes_of_their_group(make_dataset) -> None:
    dataset = make_dataset(train=400, classes=10)
    partition = build_partition(
        dataset, "pathological", {"clients": 10, "classes_per_client": 3}, seed=0
    )
    counts = label_counts(dataset, partition)
    held = ["+".join(map(str, np.flatnonzero(row))) for row in counts]
    assert held == list(partition.groups)
    # 40 samples of each class and three holders: 13 or 14 each.
    assert set(counts[counts > 0].tolist()) == {13, 14}


def test_pathological_clients_get_different_pairs_of_classes(make_dataset) -> None:
    dataset = make_dataset(train=2000, classes=10, test=400)
    partition = build_partition(dataset, "pathological", {"clients": 50}, seed=0)
    assert len(set(partition.groups)) > 20  # of 45 possible ones


def test_pathological_leaves_classes_out_that_no_client_holds(make_dataset) -> None:
    dataset = make_dataset(train=400, classes=10)
    partition = build_partition(dataset, "pathological", {"clients": 3}, seed=0)
    assert (label_counts(dataset, partition).sum(axis=0) > 0).sum() == 6


def test_pathological_ignores_classes_without_training_samples() -> None:
    x = np.zeros((60, 2, 2), np.uint8)
    y = np.arange(60) % 2
    dataset = Dataset.from_arrays("gap", x[:40], y[:40], x[40:], y[40:], classes=5)
    partition = build_partition(dataset, "pathological", {"clients": 2}, seed=0)
    assert set(partition.groups) == {"0+1"}


def test_quantity_gives_every_client_its_minimum_and_the_rest_unevenly(make_dataset) -> None:
    dataset = make_dataset(train=4000, test=1000)
    settings = {"clients": 20, "alpha": 0.1, "min_train": 30, "min_test": 5}
    partition = build_partition(dataset, "quantity", settings, seed=0)
    sizes = training_sizes(partition)
    assert sizes.min() >= 30
    assert sizes.max() > 800
    assert min(partition.size(client, "test") for client in partition) >= 5
    mixes = label_counts(dataset, partition)[sizes > 400] / sizes[sizes > 400, None]
    assert np.abs(mixes - 0.25).max() < 0.08


def test_quantity_splits_scarce_test_samples_like_the_training_samples(make_dataset) -> None:
    # Four of fifty test samples are at least 8 % of them, and so of the training samples.
    dataset = make_dataset(train=1000, test=50)
    settings = {"clients": 10, "alpha": 0.1, "min_train": 1, "min_test": 4}
    partition = build_partition(dataset, "quantity", settings, seed=0)
    assert training_sizes(partition).min() >= 80


def test_quantity_can_deal_out_the_bare_minimum(make_dataset) -> None:
    dataset = make_dataset(train=100, test=10)
    partition = build_partition(dataset, "quantity", {"clients": 10}, seed=0)
    assert training_sizes(partition).tolist() == [10] * 10
    assert [partition.size(client, "test") for client in partition] == [1] * 10


@pytest.mark.parametrize(
    ("scheme", "settings", "message"),
    [
        ("iid", {"clients": 500}, r"500 clients .* need 5000 .* has 400; lower partition.clients"),
        ("iid", {"clients": 41}, "to 40 or less or set partition.min_train = 9"),
        ("iid", {"clients": 40, "min_test": 3}, "to 33 or less or set partition.min_test = 2"),
        ("iid", {"clients": 5, "newcomers": 5}, "lower partition.newcomers to at most 4"),
        ("dirichlet", {"clients": 41}, "lower partition.clients to 40"),
        ("quantity", {"clients": 41}, "lower partition.clients to 40"),
        ("pathological", {"clients": 41}, "lower partition.clients to 40"),
        ("pathological", {"classes_per_client": 5}, "classes_per_client = 5, .* lower it to 4"),
        ("pathological", {"clients": 2, "newcomers": 1}, "classes that nobody learns"),
    ],
)
def test_an_impossible_request_is_refused_with_numbers(
    make_dataset, scheme: str, settings: dict[str, int], message: str
) -> None:
    with pytest.raises(PartitionError, match=message):
        build_partition(make_dataset(), scheme, settings, seed=0)


def test_a_class_with_fewer_samples_than_holders_is_refused() -> None:
    x = np.zeros((50, 2, 2), np.uint8)
    y = np.array([0] * 38 + [1] * 2 + [0, 1] * 5)
    dataset = Dataset.from_arrays("rare", x[:40], y[:40], x[40:], y[40:])
    with pytest.raises(PartitionError, match="Class 1 of 'rare' has 2 training samples for 4"):
        build_partition(dataset, "pathological", {"clients": 4, "min_train": 1}, seed=0)


@pytest.mark.parametrize("scheme", ["dirichlet", "groups", "pathological"])
def test_schemes_that_deal_out_classes_refuse_regression(regression, scheme: str) -> None:
    with pytest.raises(PartitionError, match="real numbers; use iid"):
        build_partition(regression, scheme, {}, seed=0)


@pytest.mark.parametrize("scheme", ["iid", "quantity"])
def test_schemes_that_do_not_look_at_labels_accept_regression(regression, scheme: str) -> None:
    partition = build_partition(regression, scheme, {"clients": 5}, seed=0)
    assert training_sizes(partition).sum() == 100
