from __future__ import annotations

import numpy as np
import pytest

from duotone.data.dataset import Dataset
from duotone.errors import ConfigError, PartitionError
from duotone.partition import Partition, build_partition
from duotone.partition.build import build_population
from duotone.partition.features import human_key


def in_turn(names: list[str], train: int, test: int) -> tuple[np.ndarray, np.ndarray]:
    values = np.array(names)
    return values[np.arange(train) % len(names)], values[np.arange(test) % len(names)]


@pytest.fixture(scope="module")
def two_domains(make_dataset) -> Dataset:
    domain = in_turn(["svhn", "mnist"], 48, 24)
    return make_dataset(train=48, test=24, classes=3, domain=domain)


def sizes(partition: Partition) -> dict[str, int]:
    return {client: len(h.train) + len(h.val) for client, h in partition.items()}


def domains_of(dataset: Dataset, rows: np.ndarray) -> dict[str, int]:
    names, counts = np.unique(dataset.domain[rows], return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def test_names_are_sorted_as_a_reader_expects() -> None:
    names = ["client-10", "b", "9", "client-9", "10", "client-9a"]
    assert sorted(names, key=human_key) == ["9", "10", "b", "client-9", "client-9a", "client-10"]


def test_each_domain_has_its_clients_and_the_last_ones_are_new(two_domains: Dataset) -> None:
    settings = {"per_domain": 3, "newcomers": 1, "min_train": 8}
    partition = build_partition(two_domains, "domains", settings, seed=0)
    assert partition.clients == ("mnist-0", "mnist-1", "mnist-2", "svhn-0", "svhn-1", "svhn-2")
    assert partition.newcomers == ("mnist-2", "svhn-2")
    assert sizes(partition) == dict.fromkeys(partition, 8)
    for holding in partition.values():
        assert domains_of(two_domains, holding.train) == {holding.group: len(holding.train)}
        assert domains_of(two_domains, holding.test) == {holding.group: 4}


def test_mixed_newcomers_hold_equally_many_samples_of_every_domain(two_domains: Dataset) -> None:
    # Six clients, 24 + 12 samples per domain: a mixed client takes 4 + 2 from each, an own 8 + 4.
    settings = {"per_domain": 2, "mixed": 2, "min_train": 1, "validation": 0.0}
    partition = build_partition(two_domains, "domains", settings, seed=0)
    assert sizes(partition) == dict.fromkeys(partition, 8)
    for client in ("mixed-0", "mixed-1"):
        holding = partition[client]
        assert (holding.group, holding.role) == ("mixed", "newcomer")
        assert domains_of(two_domains, holding.train) == {"mnist": 4, "svhn": 4}
        assert domains_of(two_domains, holding.test) == {"mnist": 2, "svhn": 2}


def test_clients_of_domains_that_do_not_train_are_newcomers(two_domains: Dataset) -> None:
    settings = {"per_domain": 2, "newcomers": 0, "members": ["svhn"]}
    partition = build_partition(two_domains, "domains", settings, seed=0)
    assert partition.members == ("svhn-0", "svhn-1")
    assert partition.newcomers == ("mnist-0", "mnist-1")


def test_the_number_of_clients_may_be_confirmed(two_domains: Dataset) -> None:
    settings = {"per_domain": 2, "clients": 4}
    assert len(build_partition(two_domains, "domains", settings, seed=0)) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"per_domain": 2, "members": ["mnis"]}, "'mnis', .* Did you mean 'mnist'.*: mnist, svhn"),
        ({"per_domain": 2, "members": []}, "No client would train"),
        ({"per_domain": 2, "newcomers": 2}, "No client would train: .* lower partition.newcomers"),
        ({"per_domain": 2, "clients": 50}, "clients = 50, .* are 4; leave"),
        ({"per_domain": 12}, r"24 of 24 clients .* 10 train samples .*lower partition.per_domain"),
    ],
)
def test_an_impossible_request_about_domains_is_refused(
    two_domains: Dataset, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(PartitionError, match=message):
        build_partition(two_domains, "domains", settings, seed=0)


def test_data_without_domains_cannot_be_split_by_domain(make_dataset) -> None:
    with pytest.raises(PartitionError, match="'toy' does not say which domain"):
        build_partition(make_dataset(), "domains", {}, seed=0)


@pytest.fixture(scope="module")
def turned(make_dataset) -> Dataset:
    angle = np.arange(80) % 3 * 15
    return make_dataset(train=60, test=20, factors={"angle": (angle[:60], angle[60:])})


def test_there_is_one_client_per_value_of_an_attribute(turned: Dataset) -> None:
    partition = build_partition(turned, "attribute", {"attribute": "angle"}, seed=0)
    assert partition.clients == partition.groups == ("0", "15", "30")
    for client, holding in partition.items():
        rows = np.concatenate([holding.train, holding.val, holding.test])
        assert (turned.factors["angle"][rows] == int(client)).all()


def test_more_clients_than_values_share_the_values(turned: Dataset) -> None:
    settings = {"attribute": "angle", "clients": 4}
    partition = build_partition(turned, "attribute", settings, seed=0)
    assert partition.clients == ("0-0", "0-1", "15-0", "30-0")
    assert sizes(partition) == {"0-0": 10, "0-1": 10, "15-0": 20, "30-0": 20}


@pytest.mark.parametrize(
    "values",
    [np.array(["hat", "", "bald", "", "hat"] * 16), np.array([1.5, np.nan, 0.5, np.nan, 1.5] * 16)],
    ids=["text", "numbers"],
)
def test_samples_without_a_value_belong_to_nobody(make_dataset, values: np.ndarray) -> None:
    dataset = make_dataset(train=60, test=20, factors={"hair": (values[:60], values[60:])})
    partition = build_partition(dataset, "attribute", {"attribute": "hair"}, seed=0)
    assert partition.clients == tuple(str(value) for value in (values[2], values[0]))
    # Of every five samples one has the first value, two have the second and two have none.
    assert list(sizes(partition).values()) == [12, 24]
    assert [len(holding.test) for holding in partition.values()] == [4, 8]


def test_an_attribute_without_any_value_is_refused(make_dataset) -> None:
    empty = np.full(80, "")
    dataset = make_dataset(train=60, test=20, factors={"hair": (empty[:60], empty[60:])})
    with pytest.raises(PartitionError, match="No sample of 'toy' has a value of 'hair'"):
        build_partition(dataset, "attribute", {"attribute": "hair"}, seed=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attribute": "angel"}, "no factor 'angel'. Did you mean 'angle'.* Known factors: angle"),
        ({"attribute": "angle", "clients": 2}, "has 3 values .* raise it to 3"),
        ({"attribute": "angle", "min_train": 21}, "choose an attribute with fewer values"),
    ],
)
def test_an_impossible_request_about_attributes_is_refused(
    turned: Dataset, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(PartitionError, match=message):
        build_partition(turned, "attribute", settings, seed=0)


@pytest.fixture(scope="module")
def faces(make_dataset) -> Dataset:
    """Every second sample has a hat, every third a beard, every fifth glasses."""
    number = np.arange(80)
    factors = {
        name: (number % step == 0).astype(int)
        for name, step in zip(("hat", "beard", "glasses"), (2, 3, 5), strict=True)
    }
    both = {name: (values[:60], values[60:]) for name, values in factors.items()}
    return make_dataset(train=60, test=20, factors=both)


def test_several_attributes_have_a_client_each_and_a_sample_can_be_held_twice(
    faces: Dataset,
) -> None:
    settings = {"attributes": ["hat", "beard", "glasses"], "validation": 0.0}
    partition = build_partition(faces, "attribute", settings, seed=0)
    assert partition.clients == partition.groups == ("hat", "beard", "glasses")
    assert [sorted(holding.train.tolist()) for holding in partition.values()] == [
        list(range(0, 60, step)) for step in (2, 3, 5)
    ]
    assert sorted(partition["beard"].test.tolist()) == list(range(60, 80, 3))


def test_fewer_clients_than_attributes_hold_what_one_of_theirs_applies_to(faces: Dataset) -> None:
    settings = {"attributes": ["hat", "beard", "glasses"], "clients": 2, "validation": 0.0}
    partition = build_partition(faces, "attribute", settings, seed=0)
    assert partition.clients == ("hat+beard", "glasses")
    wanted = [row for row in range(60) if row % 2 == 0 or row % 3 == 0]
    assert sorted(partition["hat+beard"].train.tolist()) == wanted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attributes": ["hat", "bread"]}, "no factor 'bread'. Did you mean 'beard'"),
        ({"attributes": ["hat", "beard"], "clients": 3}, "clients = 3, .* has 2 different names"),
        ({"attributes": ["hat", "hat"]}, "has 1 different names"),
    ],
)
def test_an_impossible_request_about_several_attributes_is_refused(
    faces: Dataset, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(PartitionError, match=message):
        build_partition(faces, "attribute", settings, seed=0)


@pytest.mark.parametrize("settings", [{}, {"attribute": "hat", "attributes": ["hat"]}])
def test_one_attribute_or_several_must_be_named(
    faces: Dataset, settings: dict[str, object]
) -> None:
    with pytest.raises(ConfigError, match="give one of the two"):
        build_partition(faces, "attribute", settings, seed=0)


def test_a_sample_of_two_clients_cannot_have_two_styles(make_dataset) -> None:
    ones = (np.ones(60, int), np.ones(20, int))
    dataset = make_dataset(train=60, test=20, factors={"hat": ones, "beard": ones})
    with pytest.raises(PartitionError, match="hold the same samples; use style = none"):
        build_population(dataset, "attribute", {"attributes": ["hat", "beard"]}, "padpaf4", seed=0)
