from __future__ import annotations

import numpy as np
import pytest
import torch
from federations import make_population
from hypothesis import given, settings
from hypothesis import strategies as st

from duotone.data.dataset import Dataset
from duotone.data.planted import planted_table
from duotone.measures.agreement import Agreement, agreement, measured
from duotone.measures.judges import Trait, styles_of, train_judges
from duotone.partition.build import build_partition
from duotone.partition.partition import Holding, Partition, Population
from duotone.seeding import stream


@pytest.fixture(scope="module")
def table() -> Population:
    dataset = planted_table()
    partition = build_partition(dataset, "natural", {"newcomers": ["c9", "c10"]}, seed=0)
    return Population(dataset, partition)


@pytest.fixture(scope="module")
def judges(table):
    return train_judges(table, seed=0)


def score(agreements):
    return measured(agreements, "reference", stream(0, "test"))


# -- agreement, by hand


def test_agreement_on_kinds_is_accuracy():
    found = agreement("categorical", np.array([0.0, 1, 2, 1]), np.array([0.0, 1, 1, 1]))
    assert found.value == 0.75


def test_agreement_on_angles_is_the_mean_cosine_of_the_error():
    truth, verdict = np.array([0.0, 0.0, 3.0]), np.array([2 * np.pi, np.pi / 2, 3.0])
    assert agreement("angle", truth, verdict).value == pytest.approx(2 / 3)


def test_agreement_on_numbers_is_r2_within_the_client():
    # Mean 2, squared distances 4, 0, 4; squared errors 0, 1, 1: R² = 1 - 2/8.
    found = agreement("number", np.array([0.0, 2.0, 4.0]), np.array([0.0, 1.0, 5.0]))
    assert found.value == pytest.approx(0.75)


def test_samples_without_a_true_value_do_not_count():
    truth = np.array([np.nan, 1.0, 0.0])
    assert agreement("categorical", truth, np.array([0.0, 1.0, 1.0])).value == 0.5
    nothing = agreement("angle", np.full(3, np.nan), np.zeros(3))
    assert nothing.value is None
    assert score([nothing]) is None
    assert score([]) is None


def test_a_large_client_does_not_outweigh_a_small_one():
    large = agreement("categorical", np.zeros(90), np.zeros(90))
    small = agreement("categorical", np.zeros(10), np.ones(10))
    assert score([large, small]).value == pytest.approx(0.5)
    assert score([large, small]).n == 100


@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), min_size=2, max_size=40))
def test_the_interval_encloses_the_accuracy_and_stays_within_its_range(hits):
    found = score([agreement("categorical", np.ones(len(hits)), np.array(hits, float))])
    assert found.value == pytest.approx(np.mean(hits))
    assert -1e-9 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1 + 1e-9


def test_the_standard_error_is_that_of_a_share():
    found = score([Agreement(np.tile([0.0, 1.0], 200), np.ones(400), "share")])
    assert found.std == pytest.approx(np.sqrt(0.25 / 400), rel=0.15)


# -- what is asked


def test_questions_are_label_style_and_every_continuous_factor(judges):
    assert judges.traits[:2] == (Trait("label", "categorical", 4), Trait("style", "categorical", 3))
    rest = {trait.name: trait.scale for trait in judges.traits[2:]}
    names = ("shared0", "shared1", "shared2", "local0", "local1")
    assert rest == dict.fromkeys(names, "number")


def test_the_style_is_the_group_or_the_client_where_members_are_of_one_group():
    grouped = make_population(members=3, newcomers=1).partition
    assert styles_of(grouped) == {"c0": "g0", "c1": "g1", "c2": "g0", "c3": "g1"}
    alike = make_population(members=1, newcomers=1).partition  # only the newcomer is of g1
    assert styles_of(alike) == {"c0": "c0", "c1": "c1"}


def test_a_style_no_member_has_is_not_judged(judges, table):
    apart = judges.asked_about({**judges.style_of, "c9": "new"})
    truth = apart.truth(table, "c9", table.partition["c9"].test)
    assert np.isnan(truth["style"]).all()
    assert np.array_equal(truth["label"], table.data("c9", "test").y)
    assert score([agreement("categorical", truth["style"], truth["label"])]) is None


# -- what judges are worth


def test_judges_read_the_planted_factors_of_members_and_newcomers(judges, table):
    for clients in (table.partition.members, table.partition.newcomers):
        worth = {name: score(found) for name, found in judges.worth(table, clients).items()}
        assert worth["label"].value > 0.9
        assert worth["style"].value > 0.85
        assert worth["shared2"].value > 0.9
        assert worth["local0"].value > 0.85
        assert worth["label"].direction == "reference"


def reversed_in_tests():
    """Return two clients; label 1 is a large number in training samples, a small one in tests."""
    rng = stream(0, "reversed")
    x = rng.normal(size=(400, 2)).astype(np.float32)
    is_test = np.tile(np.arange(200) >= 150, 2)
    y = ((x[:, 0] > 0) ^ is_test).astype(np.int64)
    dataset = Dataset("reversed", x, y, is_test, classes=2)
    none = np.zeros(0, np.int64)
    holdings = [
        Holding(client, client, "member", rows[:150], none, rows[150:])
        for client, rows in zip("ab", np.arange(400).reshape(2, 200), strict=True)
    ]
    return Population(dataset, Partition.from_holdings(holdings))


def test_judges_learn_from_training_samples_and_are_rated_on_test_samples():
    population = reversed_in_tests()
    judges = train_judges(population, seed=0)
    for client in "ab":
        data = population.data(client, "train")
        assert np.mean(judges.verdicts(data.x)["label"] == data.y.numpy()) > 0.95
    worth = judges.worth(population, ["a", "b"])["label"]
    assert max(found.value for found in worth) < 0.05, "what they learnt is wrong of every test"


def test_worth_is_how_often_judges_are_right(judges, table):
    client = table.partition.members[0]
    data = table.data(client, "test")
    expected = np.mean(judges.verdicts(data.x)["label"] == data.y.numpy())
    assert judges.worth(table, [client])["label"][0].value == pytest.approx(expected)


def test_judges_are_the_same_whatever_the_number_of_threads_and_ambient_state(monkeypatch):
    monkeypatch.setattr("duotone.measures.judges._STEPS", 30)
    small = make_population(samples=40)
    torch.manual_seed(1)
    first = train_judges(small, seed=3).network.state_dict()
    torch.set_num_threads(2)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = train_judges(small, seed=3).network.state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == 2
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def styled(label, client, phase):
    """Return 8×8 images of two classes (bright top or bottom); client 1 has a mark at an angle."""
    x = np.full((len(label), 8, 8), 20, np.uint8)
    x[label == 0, :4] += 100
    x[label == 1, 4:] += 100
    marked = np.flatnonzero(client == 1)
    row = np.rint(3.5 + 3 * np.sin(phase[marked])).astype(int)
    column = np.rint(3.5 + 3 * np.cos(phase[marked])).astype(int)
    x[marked, row, column] = 255
    return x


def two_clients(label_of_client):
    """Return two clients whose labels are drawn with a probability of 1 that they differ in."""
    rng = stream(0, "two clients")
    client = np.repeat([0, 1], 500)
    label = (rng.random(1000) < np.asarray(label_of_client)[client]).astype(np.int64)
    phase = np.where(client == 1, rng.uniform(0, 2 * np.pi, 1000), np.nan)
    return client, label, phase


def as_population(x, client, label, factors):
    test = np.tile(np.arange(500) >= 400, 2)
    pairs = {name: (values[~test], values[test]) for name, values in factors.items()}
    dataset = Dataset.from_arrays(
        "two", x[~test], label[~test], x[test], label[test], factors=pairs
    )
    none = np.zeros(0, np.int64)
    holdings = [
        Holding(f"c{i}", "all", "member", np.arange(400) + 400 * i, none, np.arange(100) + at)
        for i, at in ((0, 800), (1, 900))
    ]
    return Population(dataset, Partition.from_holdings(holdings))


def test_an_angle_is_read_where_it_applies_and_only_there():
    client, label, phase = two_clients([0.5, 0.5])
    population = as_population(styled(label, client, phase), client, label, {"phase": phase})
    judges = train_judges(population, seed=0)
    assert judges.traits[-1] == Trait("phase", "angle", 2)
    unmarked, marked = judges.worth(population, ["c0", "c1"])["phase"]
    assert unmarked.value is None
    assert marked.value > 0.95


def test_clients_that_differ_in_labels_alone_have_no_style_to_read():
    client, label, phase = two_clients([0.1, 0.9])
    plain = styled(label, np.zeros_like(client), phase)
    noise = stream(0, "noise").integers(0, 20, plain.shape).astype(np.uint8)
    population = as_population(plain + noise, client, label, {})
    worth = train_judges(population, seed=0).worth(population, ["c0", "c1"])
    assert score(worth["label"]).value > 0.99
    # Whoever reads the label instead of the style is right in nine of ten cases.
    assert score(worth["style"]).value < 0.7


def test_labels_that_are_numbers_are_judged_by_r2():
    rng = stream(0, "numbers")
    x = rng.normal(size=(600, 4)).astype(np.float32)
    y = (x[:, 0] * 5 + 100).astype(np.float32)
    dataset = Dataset.from_arrays("numbers", x[:400], y[:400], x[400:], y[400:])
    none = np.zeros(0, np.int64)
    holding = Holding("c0", "all", "member", np.arange(400), none, np.arange(400, 600))
    population = Population(dataset, Partition.from_holdings([holding]))
    judges = train_judges(population, seed=0)
    assert [trait.name for trait in judges.traits] == ["label"]
    assert score(judges.worth(population, ["c0"])["label"]).value > 0.95


def barred(label, ground, ink):
    """Return 8×8 images in colour, with a bar that lies (label 0) or stands (1), anywhere."""
    x = np.full((len(label), 8, 8, 3), ground, np.uint8)
    at = stream(0, "bars").integers(1, 6, len(label))
    for image, kind, place in zip(x, label, at, strict=True):
        image[(slice(place, place + 2), slice(1, 7))[:: 1 - 2 * kind]] = ink
    return x


def test_labels_are_read_in_colours_that_no_client_has():
    client, label, _ = two_clients([0.5, 0.5])
    white = barred(label, (0, 0, 0), (255, 255, 255))
    judges = train_judges(as_population(white, client, label, {}), seed=0)
    dark = barred(label, (150, 230, 200), (100, 0, 20))
    x = torch.from_numpy(dark).permute(0, 3, 1, 2) / 255
    assert np.mean(judges.verdicts(x)["label"] == label) > 0.99


def test_only_labels_of_images_in_colour_have_a_reader_of_their_own(monkeypatch):
    monkeypatch.setattr("duotone.measures.judges._STEPS", 2)
    assert train_judges(make_population(samples=40), seed=0).reader is None
