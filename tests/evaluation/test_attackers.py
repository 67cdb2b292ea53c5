from __future__ import annotations

import numpy as np
import torch

from duotone.evaluation.attackers import guessed_source, named_source, train_attacker
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
