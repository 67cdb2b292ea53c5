from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from duotone.federation.local import batches, task_loss, train
from duotone.federation.method import MethodSettings
from duotone.types import ClientData, DataInfo, RoundInfo


@given(st.integers(1, 200), st.integers(1, 50), st.integers(0, 3))
def test_batches_use_every_sample_exactly_once(count, size, seed):
    generator = torch.Generator().manual_seed(seed)
    parts = list(batches(count, size, generator))
    assert sorted(torch.cat(parts).tolist()) == list(range(count))
    assert all(len(part) <= size + 1 for part in parts)


@given(st.integers(2, 200), st.integers(2, 50))
def test_no_batch_has_a_single_sample(count, size):
    parts = batches(count, size, torch.Generator())
    assert all(len(part) > 1 for part in parts)


def test_one_epoch_is_the_gradient_descent_worked_by_hand():
    info = DataInfo((1,), "regression", 1)
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    data = ClientData("a", torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 4.0]), info)
    settings = MethodSettings(lr=0.1, epochs=2, batch_size=2)
    loss = train(model, data, settings, RoundInfo(1, 1, 0, info))
    # loss = ((w−3)² + (2w−4)²)/2, gradient = (w−3) + 2(2w−4) = 5w − 11
    # w = 1 → 1.6 → 1.9; the loss of the second epoch is at w = 1.6: (1.96 + 0.64)/2 = 1.3
    assert model.weight.item() == pytest.approx(1.9)
    assert loss == pytest.approx(1.3)


def test_only_the_named_parameters_change():
    info = DataInfo((2,), "classes", 2)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    before = [p.clone() for p in model.parameters()]
    data = ClientData("a", torch.randn(8, 2), torch.randint(0, 2, (8,)), info)
    train(model, data, MethodSettings(), RoundInfo(1, 1, 0, info), parameters=model[1].parameters())
    same = [torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert same == [True, True, False, False]


def test_learning_rate_decays_by_rounds():
    settings = MethodSettings(lr=0.1, lr_decay=0.5, lr_decay_every=10)
    assert [settings.lr_at(r) for r in (1, 10, 11, 21)] == [0.1, 0.1, 0.05, 0.025]


def test_task_loss_is_cross_entropy_for_classes_and_squared_error_for_numbers():
    scores = torch.tensor([[0.0, 0.0]])
    assert task_loss(lambda x: scores, torch.zeros(1), torch.tensor([1])).item() == pytest.approx(
        0.6931472
    )
    assert task_loss(lambda x: torch.tensor([[3.0]]), torch.zeros(1), torch.tensor([1.0])) == 4.0
