from __future__ import annotations

import numpy as np
import torch
from studies.celeba_attributes import WORKERS, WorkerStates, recognised, turn

from duotone.partition.partition import Holding, Partition
from duotone.types import ClientState


def test_forty_attributes_are_printed_each_once():
    names = [name for own in WORKERS for name in own]
    assert (len(WORKERS), len(names), len(set(names))) == (10, 40, 40)


def test_each_worker_sends_one_client_in_turn():
    row = np.zeros(1, np.int64)
    names = [name for own in WORKERS for name in own]
    partition = Partition.from_holdings([Holding(n, n, "member", row, row, row) for n in names])
    assert turn(partition, 1).clients == tuple(own[0] for own in WORKERS)
    assert turn(partition, 4).clients == tuple(own[3] for own in WORKERS)
    assert turn(partition, 5).clients == turn(partition, 1).clients


def test_what_a_client_leaves_the_next_of_its_worker_goes_on_with():
    states = WorkerStates(worker_of={"a": "first", "b": "first", "c": "second"})
    states.put(1, "a", ClientState({"style": torch.ones(1)}))
    found = states.get("b")
    assert found is not None
    assert found.local["style"].tolist() == [1]
    assert states.get("c") is None


def test_people_are_recognised_by_features_that_name_them():
    people = torch.arange(60).repeat(2)
    is_test = torch.arange(120) >= 60
    named = torch.nn.functional.one_hot(people).float()
    found = recognised({"names": named, "nothing": torch.randn(120, 2)}, people, is_test)
    assert found["names"]["held out"]["top 1"] == 1
    assert found["nothing"]["held out"]["top 1"] < 0.2
    assert found["nothing"]["held out"]["top 50"] > found["nothing"]["held out"]["top 10"]
