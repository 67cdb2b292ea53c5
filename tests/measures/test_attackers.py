from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from duotone.data.dataset import Dataset
from duotone.federation.method import Method
from duotone.federation.settings import MethodSettings
from duotone.measures.attackers import (
    attacker_by_originals,
    attacker_by_restyled,
    guessed_source,
    named_source,
    train_attacker,
)
from duotone.measures.stylists import Stylist
from duotone.partition.partition import Holding, Partition, Population
from duotone.types import DataInfo


def test_an_attacker_learns_who_is_rare_as_well_as_who_is_frequent():
    x = torch.cat([torch.zeros(190, 1, 8, 8), torch.ones(10, 1, 8, 8)])
    source = np.repeat([0, 1], [190, 10])
    attacker = train_attacker(x, source, DataInfo((1, 8, 8), "classes", 2), 0, "test")
    assert named_source(attacker, x).tolist() == source.tolist()


def test_labels_alone_name_who_has_most_of_them():
    # Shares of label 0, 1, 2: the first has 2/4, 1/4, 1/4; the second 0, 1/2, 1/2.
    labels = [np.array([0, 0, 1, 2]), np.array([1, 2])]
    assert guessed_source(labels, np.array([0, 1, 2, 2])).tolist() == [0, 1, 1, 1]


# -- which samples attackers learn from

INFO = DataInfo((1, 8, 8), "classes", 2)
DARK, BRIGHT = torch.zeros(30, 1, 8, 8), torch.ones(30, 1, 8, 8)
SAMPLES = {"a": {"train": DARK, "test": BRIGHT}, "b": {"train": BRIGHT, "test": DARK}}
"""In training samples brightness tells b from a; in test samples it tells a from b."""


class Given(Method):
    """Leaves samples as they are."""

    name, title, paper = "given", "", ""

    def take_off(self, model, x, generator, *, redrawn):
        return x

    def put_on(self, model, content, generator):
        return content


@pytest.fixture
def stylists():
    return [Stylist(client, "member", {}, content, None) for client, content in SAMPLES.items()]


@pytest.fixture
def population():
    splits = [(client, split) for client in SAMPLES for split in ("train", "test")]
    x = torch.cat([SAMPLES[client][split] for client, split in splits]).squeeze(1)
    images = x.mul(255).to(torch.uint8).numpy()
    is_test = np.repeat([split == "test" for _, split in splits], 30)
    dataset = Dataset("light", images, np.arange(120) % 2, is_test, classes=2)
    none = np.zeros(0, np.int64)
    rows = np.arange(120).reshape(2, 2, 30)
    holdings = [
        Holding(client, "g", "member", train, none, test)
        for client, (train, test) in zip(SAMPLES, rows, strict=True)
    ]
    return Population(dataset, Partition.from_holdings(holdings))


def test_who_knows_the_method_learns_from_re_styled_training_samples(stylists):
    method = Given(MethodSettings(), lambda data: nn.Identity())
    attacker = attacker_by_restyled(method, stylists, stylists, INFO, seed=0)
    assert set(named_source(attacker, DARK)) == {0}
    assert set(named_source(attacker, BRIGHT)) == {1}


def test_who_does_not_learns_from_real_training_samples(population):
    attacker = attacker_by_originals(list(SAMPLES), population, seed=0)
    assert set(named_source(attacker, DARK)) == {0}
    assert set(named_source(attacker, BRIGHT)) == {1}
