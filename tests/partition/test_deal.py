"""Clients beyond the first thousands are shuffled when they are asked: the same bits, later."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from duotone.errors import PartitionError
from duotone.partition import Partition, build_partition
from duotone.partition import partition as partition_module
from duotone.partition.deal import Deal
from duotone.partition.partition import SPLITS, Population
from duotone.partition.scheme import HeldOutSettings
from duotone.partition.shares import deal_evenly, dealt_in_turn, nobody, numbered, shares_of

ASKED = [
    ("iid", {"clients": 30, "newcomers": 3}, "e866e1afb8262f75"),
    (
        "iid",
        {"clients": 30, "max_train": 17, "max_test": 3, "validation": 0.25},
        "982e2213697ec59f",
    ),
    ("iid", {"clients": 30, "validation": 0.0}, "ba91e6abe93befd4"),
    ("dirichlet", {"clients": 20, "min_train": 1, "min_test": 0}, "acc788546789e8f2"),
    ("groups", {"clients": 20, "groups": 5, "min_train": 2, "min_test": 0}, "679e7827e317b08e"),
    ("pathological", {"clients": 20}, "3e98847758c50137"),
    ("quantity", {"clients": 20, "min_train": 1, "min_test": 0}, "373b0bb3b53a278b"),
]


@pytest.mark.parametrize(("scheme", "chosen", "was"), ASKED)
def test_rows_asked_for_late_are_those_shuffled_at_once(
    make_dataset, monkeypatch, scheme, chosen, was
):
    dataset = make_dataset(train=1000, test=200)
    early = build_partition(dataset, scheme, chosen, seed=5)
    assert early.deal is None
    assert early.fingerprint() == was, "partitions of earlier versions, bit by bit"
    monkeypatch.setattr(partition_module, "AT_ONCE", 0)
    late = build_partition(dataset, scheme, chosen, seed=5)
    assert late.deal is not None
    shared = Population.from_arrays(*(lambda p: (p.arrays(), p.form()))(Population(dataset, late)))
    for found in (late, shared.partition):
        assert (found.clients, found.groups, found.roles) == (
            early.clients,
            early.groups,
            early.roles,
        )
        for client, own in early.items():
            for split in SPLITS:
                assert np.array_equal(getattr(found[client], split), getattr(own, split))
                assert found.size(client, split) == len(getattr(own, split))
    for split in SPLITS:
        assert np.array_equal(late.rows[split], early.rows[split])


def test_what_is_shuffled_late_has_a_fingerprint_of_what_it_follows_from(make_dataset, monkeypatch):
    dataset = make_dataset(train=1000, test=200)
    monkeypatch.setattr(partition_module, "AT_ONCE", 0)
    found = [
        build_partition(dataset, "iid", {"clients": 9, **chosen}, seed=seed).fingerprint()
        for chosen, seed in (({}, 1), ({}, 1), ({}, 2), ({"max_train": 20}, 1))
    ]
    assert found[0] == found[1]
    assert len(set(found)) == 3


@pytest.mark.parametrize("validation", [0.0, 0.1, 0.5, 0.9])
def test_as_many_are_held_back_as_python_rounds(validation):
    sizes = np.arange(0, 400)
    ends = np.cumsum(np.append(0, sizes))
    rows = np.arange(ends[-1])
    deal = Deal(rows, rows[:0], ends, np.zeros(len(ends), np.int64), 0, validation, None, None)
    for size, aside in zip(sizes.tolist(), np.diff(deal.offsets()["val"]).tolist(), strict=True):
        held = 0
        if validation > 0 and size > 1:
            held = min(max(1, round(validation * size)), size - 1)
        assert aside == held


def test_two_clients_of_one_name_are_refused():
    none = np.zeros(0, np.int64)
    ends = np.zeros(3, np.int64)
    deal = Deal(none, none, ends, ends, 0, 0.1, None, None)
    with pytest.raises(PartitionError, match="same name"):
        Partition.from_deal(["a", "a"], ["all"] * 2, ["member"] * 2, deal)


@pytest.mark.parametrize(("train", "clients"), [(103, 10), (100, 10), (7, 9)])
def test_rows_dealt_in_turn_are_those_of_an_owner_for_every_row(make_dataset, train, clients):
    dataset = make_dataset(train=train, test=20)
    who = numbered(HeldOutSettings(clients=clients, newcomers=2))
    found = dealt_in_turn(dataset, who, np.random.default_rng(3))
    owner, rng = nobody(dataset), np.random.default_rng(3)
    for rows in (dataset.train_rows, dataset.test_rows):
        deal_evenly(owner, rows, np.arange(clients), rng)
    other = shares_of(dataset, owner, who)
    for name in ("clients", "groups", "roles"):
        assert getattr(found, name) == getattr(other, name)
    for name in ("train", "test", "train_ends", "test_ends"):
        assert np.array_equal(getattr(found, name), getattr(other, name)), name
    assert set(np.diff(found.train_ends)) <= {train // clients, train // clients + 1}


@pytest.mark.parametrize("named", [False, True])
def test_the_form_that_travels_is_small_whatever_the_number_of_clients(make_dataset, named):
    dataset = make_dataset(train=4000, test=400)
    made = build_partition(dataset, "iid", {"clients": 400, "min_test": 1}, seed=1)
    names = [f"client {number}" for number in range(400)] if named else made.clients
    partition = Partition(names, made.groups, made.roles, made.rows, made.offsets)
    population = Population(dataset, partition)
    assert len(pickle.dumps(population.form())) < 500
    there = Population.from_arrays(population.arrays(), population.form()).partition
    assert there.clients == names
    assert there.position(names[17]) == 17
    assert there.fingerprint() == partition.fingerprint()
