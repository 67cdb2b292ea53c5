from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from duotone.errors import ConfigError
from duotone.federation.local_training import (
    batches,
    cosine_decay,
    is_labelled,
    mean_loss,
    proximal_loss,
    proximal_term,
    refresh_statistics,
    run_epochs,
    task_loss,
    train,
    train_head,
    training_mode,
    turns_so_far,
)
from duotone.federation.settings import MethodSettings
from duotone.types import NO_LABEL, ClientData, DataInfo, RoundInfo


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


def test_samples_are_shuffled_anew_by_seed_round_client_and_phase():
    info = DataInfo((1,), "classes", 2)

    def order(seed=0, round=1, client="a", phase="train"):
        data = ClientData(client, torch.arange(40.0).view(40, 1), torch.zeros(40).long(), info)
        seen = []

        def step(x, y):
            seen.extend(x.flatten().tolist())
            return torch.zeros(())

        settings = MethodSettings(epochs=2, batch_size=8)
        run_epochs(step, data, settings, RoundInfo(round, 9, seed, info), phase=phase)
        assert seen[:40] != seen[40:], "every epoch has an order of its own"
        return tuple(seen)

    drawn = [order(), order(seed=1), order(round=2), order(client="b"), order(phase="head")]
    assert drawn[0] == order()
    assert len(set(drawn)) == 5


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


def test_the_proximal_term_is_half_the_squared_distance_of_the_parameters():
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    for parameter, value in zip(model.parameters(), (1.0, 2.0, 3.0, 4.0), strict=True):
        nn.init.constant_(parameter, value)
    anchor = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
    anchor["1.running_mean"] += 100  # statistics are not pulled
    # ½·(1² + 1² + 2² + 3² + 4²) = 15.5
    assert proximal_term(model, anchor).item() == 15.5
    x, y = torch.zeros(2, 2), torch.tensor([5.0, 5.0])
    # BatchNorm makes 0 of two equal inputs and then adds 4, which misses 5 by 1: 1 + 2·15.5
    assert proximal_loss(anchor, 2.0, "cpu")(model, x, y).item() == pytest.approx(32)


def test_mean_loss_weighs_all_samples_alike_and_trains_nothing():
    info = DataInfo((1,), "regression", 1)
    model = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1))
    nn.init.zeros_(model[1].weight)
    nn.init.zeros_(model[1].bias)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    y = torch.zeros(150)
    y[140:] = 3.0
    loss = mean_loss(model, ClientData("a", torch.randn(150, 1), y, info))
    # Ten of 150 samples are missed by 3: 90/150. Batches of 100 and 50 are not equally important.
    assert loss == pytest.approx(0.6)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


INFO = DataInfo((3,), "classes", 2)
FIRST = RoundInfo(1, 1, 0, INFO)


def some_data(samples: int = 20) -> ClientData:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(samples, 3, generator=generator)
    return ClientData("a", x, (x.sum(1) > 0).long(), INFO)


def two_norms() -> nn.Sequential:
    """Return a network with a BatchNorm in its lower and one in its upper half."""
    lower = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.ReLU())
    return nn.Sequential(lower, nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_what_is_not_trained_comes_out_as_it_went_in_statistics_included():
    model = two_norms()
    train(model, some_data(), MethodSettings(epochs=1), FIRST)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    upper = [p for name, p in model.named_parameters() if not name.startswith("0.")]
    train(model, some_data(), MethodSettings(batch_size=8), FIRST, parameters=upper)
    after = model.state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if not name.startswith("0.")}


def test_frozen_parameters_take_no_gradient_and_get_their_own_setting_back():
    model = two_norms()
    model[1].weight.requires_grad_(False)
    head = list(model[3].parameters())
    with training_mode(model, head, 8):
        assert [name for name, p in model.named_parameters() if p.requires_grad] == [
            "3.weight",
            "3.bias",
        ]
        assert not model[0][1].training
        assert not model[2].training
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == ["1.weight"]


def test_the_setting_comes_back_after_an_error_too():
    model = two_norms()
    with pytest.raises(ZeroDivisionError), training_mode(model, [], 8):
        raise ZeroDivisionError
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_parameter_the_model_froze_itself_is_never_trained():
    model = two_norms()
    model[1].weight.requires_grad_(False)
    before = model[1].weight.clone()
    train(model, some_data(), MethodSettings(weight_decay=0.1), FIRST)
    assert torch.equal(model[1].weight, before)
    assert not model[1].weight.requires_grad


@pytest.mark.parametrize("settings", [{}, {"batch_size": 1}])
def test_batches_of_one_sample_train_with_the_statistics_there_are(settings):
    torch.manual_seed(1)  # a network that answers the one sample; some are silent on it
    model = two_norms()
    train(model, some_data(), MethodSettings(epochs=1), FIRST)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    data = some_data(5 if settings else 1)
    train(model, data, MethodSettings(epochs=1, **settings), FIRST)
    for name, tensor in model.state_dict().items():
        is_statistic = name.split(".")[-1].startswith(("running", "num"))
        assert torch.equal(tensor, before[name]) == is_statistic, name


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


@pytest.mark.parametrize("last", [nn.Identity(), nn.LogSoftmax(1)])
def test_training_the_head_on_stored_features_is_training_it_in_the_model(last):
    slow = nn.Sequential(plain(), last)
    fast = nn.Sequential(plain(), last)
    fast.load_state_dict(slow.state_dict())
    before = {name: tensor.clone() for name, tensor in slow.state_dict().items()}
    settings = MethodSettings(batch_size=8, momentum=0.5)
    given = {"epochs": 3, "phase": "head"}
    loss = train(slow, some_data(130), settings, FIRST, parameters=slow[0][2].parameters(), **given)
    quick = train_head(fast, fast[0][2], some_data(130), settings, FIRST, **given)
    assert quick == pytest.approx(loss, rel=1e-5)
    for name, tensor in fast.state_dict().items():
        assert torch.allclose(tensor, slow.state_dict()[name], atol=1e-6), name
        assert torch.equal(tensor, before[name]) == name.startswith("0.0"), name


def test_training_the_head_leaves_everything_below_it_to_the_bit():
    model = two_norms()
    train(model, some_data(), MethodSettings(epochs=1), FIRST)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    train_head(model, model[3], some_data(), MethodSettings(), FIRST, epochs=2, phase="head")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]) == (not name.startswith("3.")), name


@pytest.mark.parametrize("below", [1, 2])
def test_a_layer_that_is_not_the_last_cannot_be_trained_as_the_head(below):
    model = two_norms()
    with pytest.raises(ConfigError, match=r"does not give the model's output.*head=NAME"):
        train_head(model, model[below], some_data(), MethodSettings(), FIRST, epochs=1, phase="h")


def test_refreshing_estimates_statistics_anew_and_changes_nothing_else():
    model = nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1))
    nn.init.constant_(model[0].running_mean, 50.0)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    refresh_statistics(model, torch.tensor([[1.0], [2.0], [6.0]]))
    assert model[0].running_mean.item() == pytest.approx(3)
    assert model[0].running_var.item() == pytest.approx(7)  # (4 + 1 + 9)/(3 − 1)
    for name, tensor in model[1].state_dict().items():
        assert torch.equal(tensor, before[f"1.{name}"])
    assert model[0].weight.item() == 1
    assert model[0].bias.item() == 0
    assert model[0].momentum == 0.1


def test_many_samples_are_refreshed_from_in_parts_of_nearly_equal_size():
    model = nn.BatchNorm1d(1)
    x = torch.arange(101.0)[:, None]
    refresh_statistics(model, x)
    # Halves of 51 and 50 samples, with means 25 and 75.5.
    assert model.running_mean.item() == pytest.approx(50.25)


def test_one_sample_refreshes_nothing():
    model = nn.BatchNorm1d(2)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    refresh_statistics(model, torch.tensor([[5.0, 7.0]]))
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("round", "participation", "turns"),
    [
        (0, 1.0, [0]),
        (3, 1.0, [1, 2, 3]),
        (4, 0.5, [2, 4]),
        (10, 0.25, [4, 8]),
        (9, 1 / 3, [3, 6, 9]),
        (1, 0.1, [1]),
    ],
)
def test_turns_are_spread_over_the_rounds_there_were(round, participation, turns):
    info = replace(FIRST, round=round, rounds=20, participation=participation)
    assert [turn.round for turn in turns_so_far(info)] == turns


def test_a_learning_rate_falls_along_a_cosine_towards_its_end():
    info = RoundInfo(1, 4, 0, DataInfo((1, 8, 8), "classes", 4))
    found = [cosine_decay(replace(info, round=round), 0.2) for round in (0, 1, 3)]
    # Half of the rounds are over when the third begins: 0.2 + 0.8 · 0.5.
    assert found == pytest.approx([1, 1, 0.6])


def test_labels_that_are_not_known_are_told_apart():
    assert is_labelled(torch.tensor([0, NO_LABEL])).tolist() == [True, False]
    assert is_labelled(torch.tensor([0.0, math.nan])).tolist() == [True, False]
