from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from duotone.data.dataset import Dataset
from duotone.errors import ConfigError, PartitionError, UnknownNameError
from duotone.partition import SCHEMES, Partition, Scheme, Share, build_partition, resolve_settings
from duotone.partition.build import DRAWS
from duotone.partition.describe import training_sizes
from duotone.partition.scheme import CountedSettings

RANDOM = ("iid", "dirichlet", "groups", "pathological", "quantity")


def all_rows(partition: Partition) -> np.ndarray:
    return np.sort(np.concatenate(list(partition.rows.values())))


def owner_shares(dataset: Dataset, partition: Partition, by_class: bool) -> tuple[np.ndarray, ...]:
    """Return, for training and for test samples, who holds which share (of each class)."""
    labels = dataset.y if by_class else np.zeros(len(dataset), int)
    counts = []
    for splits in (("train", "val"), ("test",)):
        table = np.zeros((len(partition), labels.max() + 1))
        for i, holding in enumerate(partition.values()):
            for split in splits:
                np.add.at(table[i], labels[getattr(holding, split)], 1)
        counts.append(table)
    train, test = counts
    return train, test, train.sum(axis=0), test.sum(axis=0)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, dict[str, Any], int, int, int]:
    """A random scheme, settings that suit it, and the size of the data."""
    scheme = draw(st.sampled_from(RANDOM))
    classes = draw(st.integers(2, 6))
    clients = draw(st.integers(2, 8))
    chosen: dict[str, Any] = {"clients": clients, "min_train": 1, "min_test": 0}
    if scheme in ("dirichlet", "groups", "quantity"):
        chosen["alpha"] = draw(st.floats(0.3, 20))
    if scheme == "quantity":
        chosen["min_train"], chosen["min_test"] = draw(st.integers(1, 15)), draw(st.integers(0, 2))
    if scheme == "groups":
        chosen["groups"] = draw(st.integers(2, clients))
        chosen["newcomer_groups"] = draw(st.integers(0, 1))
    else:
        chosen["newcomers"] = draw(st.integers(0, 1))
    if scheme == "pathological":
        # Enough for the members to hold every class, so that every sample is used.
        least = -(-classes // (clients - chosen["newcomers"]))
        chosen["classes_per_client"] = draw(st.integers(least, classes))
    train, test = draw(st.integers(120, 300)), draw(st.integers(20, 80))
    return scheme, chosen, train, test, classes


@given(request=requests(), seed=st.integers(0, 2**40))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_sample_is_used_exactly_once_and_train_and_test_are_split_alike(
    make_dataset, request: tuple[str, dict[str, Any], int, int, int], seed: int
) -> None:
    scheme, chosen, train, test, classes = request
    dataset = make_dataset(train=train, test=test, classes=classes)
    try:
        partition = build_partition(dataset, scheme, chosen, seed=seed)
    except PartitionError:
        reject()  # 100 draws without luck

    assert all_rows(partition).tolist() == list(range(train + test))
    assert not dataset.is_test[partition.rows["train"]].any()
    assert not dataset.is_test[partition.rows["val"]].any()
    assert dataset.is_test[partition.rows["test"]].all()
    assert training_sizes(partition).min() >= 1

    held, tested, of_class, tests_of_class = owner_shares(
        dataset, partition, by_class=scheme in ("dirichlet", "groups", "pathological")
    )
    # Each count is less than one away from its exact value; where a group is dealt out to its
    # clients as well, less than two.
    off = 2 if scheme == "groups" else 1
    difference = np.abs(held / of_class - tested / np.maximum(tests_of_class, 1))
    assert (difference <= off / of_class + off / tests_of_class + 1e-9)[:, tests_of_class > 0].all()


@pytest.mark.parametrize("scheme", RANDOM)
def test_a_partition_depends_on_the_seed_and_on_nothing_else(make_dataset, scheme: str) -> None:
    dataset = make_dataset(train=1000, test=500)
    chosen = {"clients": 10, "min_train": 2, "min_test": 0}
    first, again, other = (
        build_partition(dataset, scheme, chosen, seed=seed) for seed in (3, 3, 4)
    )
    assert first.fingerprint() == again.fingerprint()
    # Other samples, not just the same ones in another order.
    assert set(first["0"].test) != set(other["0"].test)


@pytest.mark.parametrize(
    ("scheme", "chosen"),
    [
        ("iid", {}),
        ("dirichlet", {"alpha": 100.0, "min_test": 0}),
        ("groups", {"alpha": 100.0}),
        ("pathological", {}),
        ("quantity", {"min_train": 5}),
    ],
)
def test_ten_thousand_clients_are_no_problem(
    make_dataset, scheme: str, chosen: dict[str, Any]
) -> None:
    dataset = make_dataset(train=160_000, test=40_000, classes=10)
    partition = build_partition(dataset, scheme, {"clients": 10_000, **chosen}, seed=0)
    assert len(partition) == 10_000
    assert np.array_equal(all_rows(partition), np.arange(200_000))


@pytest.mark.parametrize(
    ("size", "validation", "expected"),
    [(20, 0.1, 2), (4, 0.1, 1), (1, 0.1, 0), (2, 0.9, 1), (10, 0.9, 9), (10, 0.0, 0)],
)
def test_validation_rows_are_split_off_but_never_all(
    make_dataset, size: int, validation: float, expected: int
) -> None:
    dataset = make_dataset(train=size, test=4)
    chosen = {"clients": 1, "validation": validation, "min_train": 1}
    (holding,) = build_partition(dataset, "iid", chosen, seed=0).values()
    assert len(holding.val) == expected
    assert sorted([*holding.train, *holding.val]) == list(range(size))


def test_caps_leave_the_rest_unused(make_dataset) -> None:
    chosen = {"clients": 4, "max_train": 20, "max_test": 5}
    partition = build_partition(make_dataset(), "iid", chosen, seed=0)
    assert training_sizes(partition).tolist() == [20] * 4
    assert [partition.size(client, "test") for client in partition] == [5] * 4
    assert len(np.unique(all_rows(partition))) == 100


def test_the_rows_of_a_client_are_in_random_order(make_dataset) -> None:
    (holding,) = build_partition(make_dataset(), "iid", {"clients": 1}, seed=0).values()
    for rows in (holding.train, holding.val, holding.test):
        assert rows.tolist() != sorted(rows)
    first_half = holding.train[: len(holding.train) // 2]
    assert first_half.mean() == pytest.approx(200, abs=25)


def test_bad_luck_ends_after_a_fixed_number_of_draws_with_advice(make_dataset) -> None:
    chosen = {"clients": 20, "alpha": 0.05}
    with pytest.raises(PartitionError) as caught:
        build_partition(make_dataset(), "dirichlet", chosen, seed=0)
    message = str(caught.value)
    assert f"in {DRAWS} draws" in message
    assert "of 20 clients have fewer than 10 train samples" in message
    assert "lower partition.clients, raise partition.alpha" in message
    assert "\n" not in message


def test_the_advised_minimum_works(make_dataset) -> None:
    dataset, chosen = make_dataset(train=300), {"clients": 10, "alpha": 1.5, "min_train": 28}
    with pytest.raises(PartitionError, match=r"or set partition\.min_train = ") as caught:
        build_partition(dataset, "dirichlet", chosen, seed=0)
    advised = int(str(caught.value).rstrip(".").rsplit(" = ")[1])
    partition = build_partition(dataset, "dirichlet", chosen | {"min_train": advised}, seed=0)
    assert training_sizes(partition).min() >= advised > 0


class Improving(Scheme[CountedSettings]):
    """Gives its one client a sample more in each draw, up to nine."""

    name = "improving"
    Config = CountedSettings
    redraws = True
    draws = 0

    def assign(
        self, dataset: Dataset, config: CountedSettings, rng: np.random.Generator
    ) -> list[Share]:
        self.draws += 1
        rows = dataset.train_rows[: min(self.draws, 9)]
        return [Share("only", "all", "member", rows, dataset.test_rows)]


def test_the_error_tells_how_near_the_best_draw_came(make_dataset) -> None:
    with pytest.raises(PartitionError, match="'only', has 9"):
        build_partition(make_dataset(), f"{__name__}:Improving", {}, seed=0)
    chosen = {"min_train": 7, "validation": 0.0}
    partition = build_partition(make_dataset(), f"{__name__}:Improving", chosen, seed=0)
    assert partition.size("only") == 7  # the first draw that is good enough


def test_a_class_that_no_member_can_learn_is_an_error() -> None:
    x = np.zeros((220, 2, 2), np.uint8)
    y = np.array([0] * 199 + [1] + [0] * 20)
    dataset = Dataset.from_arrays("lonely", x[:200], y[:200], x[200:], y[200:])
    # Forty groups, one of which trains: hardly ever does it get the one sample of class 1.
    chosen = {"clients": 40, "groups": 40, "newcomer_groups": 39, "alpha": 50.0}
    with pytest.raises(PartitionError, match=r"members hold \d training samples of class \d"):
        build_partition(dataset, "groups", chosen | {"min_train": 1, "min_test": 0}, seed=0)


class Greedy(Scheme[CountedSettings]):
    """Gives every row to every client."""

    name = "greedy"
    Config = CountedSettings

    def assign(
        self, dataset: Dataset, config: CountedSettings, rng: np.random.Generator
    ) -> list[Share]:
        rows = (dataset.train_rows, dataset.test_rows)
        return [Share(str(i), "all", "member", *rows) for i in range(config.clients)]


def test_a_scheme_of_ones_own_that_gives_a_sample_away_twice_is_caught(make_dataset) -> None:
    path = f"{__name__}:Greedy"
    assert len(build_partition(make_dataset(), path, {"clients": 1}, seed=0)) == 1
    with pytest.raises(PartitionError, match="'greedy' gives row 0 away 3 times"):
        build_partition(make_dataset(), path, {"clients": 3}, seed=0)


def test_every_scheme_loads_under_its_own_name_and_explains_its_settings() -> None:
    for name in SCHEMES:
        scheme = SCHEMES.load(name)
        assert scheme.name == name
        for field, info in scheme.Config.model_fields.items():
            assert info.description, f"{name}.{field}"


def test_an_unknown_scheme_is_an_error_with_a_suggestion(make_dataset) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'dirichlet'"):
        build_partition(make_dataset(), "dirichlt", {}, seed=0)


def test_settings_of_another_scheme_are_refused(make_dataset) -> None:
    config = resolve_settings("iid", {})
    with pytest.raises(ConfigError, match="'groups' takes GroupSettings, but was given HeldOut"):
        build_partition(make_dataset(), "groups", config, seed=0)


def test_resolved_settings_are_accepted_as_they_are(make_dataset) -> None:
    dataset, chosen = make_dataset(), {"clients": 5, "alpha": 1.0}
    config = resolve_settings("dirichlet", chosen)
    one, two = (build_partition(dataset, "dirichlet", c, seed=0) for c in (config, chosen))
    assert one.fingerprint() == two.fingerprint()


@pytest.mark.parametrize(
    ("scheme", "chosen", "message"),
    [
        ("dirichlet", {"alpha": 0}, "partition.alpha = 0 is wrong: it should be greater than 0"),
        ("dirichlet", {"alpha": float("inf")}, "should be a finite number"),
        ("iid", {"clients": 2.5}, "partition.clients = 2.5 is wrong: it should be a valid integer"),
        ("iid", {"validation": 0.95}, "less than or equal to 0.9"),
        ("iid", {"alfa": 1}, "'iid' has no setting partition.alfa. It has: clients, validation"),
        ("groups", {"group": 3}, "no setting partition.group. Did you mean 'groups'"),
        ("attribute", {}, "partition.attribute = None and partition.attributes = None; give one"),
        ("iid", {"max_train": 5}, "partition.max_train = 5 is below partition.min_train = 10"),
        (
            "natural",
            {"newcomers": 1.5},
            r"a list, such as \[1, 5\], or should be a valid integer",
        ),
    ],
)
def test_a_wrong_setting_is_explained(scheme: str, chosen: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        resolve_settings(scheme, chosen)
    assert "\n" not in str(caught.value)


def test_all_wrong_settings_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_settings("dirichlet", {"alpha": -1, "clients": "many", "color": "red"})
    message = str(caught.value)
    assert message.startswith("3 settings are wrong:")
    for name in ("partition.alpha = -1", "partition.clients = 'many'", "partition.color"):
        assert name in message
