from __future__ import annotations

import numpy as np
import pytest
import torch

from duotone.data.dataset import Dataset
from duotone.errors import PartitionError
from duotone.partition.build import build_population, own_population, resolve_settings
from duotone.partition.partition import SPLITS
from duotone.partition.roster import Enrolled, Roster
from duotone.types import DataInfo

IMAGES = DataInfo((3, 8, 6), "classes", 4)


def enrolled(client, role="member", data=IMAGES, train=20):
    return Enrolled(client, "all", role, {"train": train, "val": 2, "test": 5}, data)


def test_a_population_of_a_roster_counts_samples_and_holds_none():
    clients = [enrolled("a"), enrolled("b", train=7), enrolled("n", "newcomer")]
    population = Roster.of(clients).population()
    assert population.info == IMAGES
    assert population.partition.members == ("a", "b")
    assert population.partition.newcomers == ("n",)
    assert [len(population.rows(client)) for client in "abn"] == [20, 7, 20]
    assert population.partition.size("b", "test") == 5
    assert len(population.dataset) == 0
    with pytest.raises(IndexError):
        population.data("a")


def test_who_knows_more_classes_says_how_many_there_are():
    more = DataInfo(IMAGES.shape, "classes", 9)
    assert Roster.of([enrolled("a"), enrolled("b", data=more)]).data.outputs == 9


def test_data_of_different_forms_do_not_go_together():
    other = DataInfo((1, 8, 6), "classes", 4)
    with pytest.raises(PartitionError, match="'b' are classes of shape"):
        Roster.of([enrolled("a"), enrolled("b", data=other)])
    with pytest.raises(PartitionError, match="No client of the federation trains"):
        Roster.of([enrolled("a", "newcomer")])


def test_a_client_alone_has_the_samples_it_has_among_others():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (90, 4, 4), dtype=np.uint8), rng.integers(0, 3, 90)
    owner = np.array(["a", "b", "c"] * 30)
    train = np.arange(90) < 60
    arrays = (x[train], y[train], x[~train], y[~train])
    together = Dataset.from_arrays("all", *arrays, client=(owner[train], owner[~train]), classes=3)
    among = build_population(together, "natural", {}, seed=5)
    config = resolve_settings("natural", {})
    for client in "abc":
        own = [part[owner[train if i < 2 else ~train] == client] for i, part in enumerate(arrays)]
        alone = own_population(
            Dataset.from_arrays(client, *own, classes=3), client, "member", config, seed=5
        )
        for split in SPLITS:
            here, there = alone.data(client, split), among.data(client, split)
            assert torch.equal(here.x, there.x)
            assert torch.equal(here.labels, there.labels)


def test_a_client_alone_needs_samples_enough():
    few = Dataset.from_arrays(
        "few", np.zeros((5, 2), np.float32), np.arange(5) % 2, np.zeros((2, 2), np.float32), [0, 1]
    )
    with pytest.raises(PartitionError, match="has 5 train samples, fewer than the 10"):
        own_population(few, "a", "member", resolve_settings("natural", {}), seed=0)
