from __future__ import annotations

import pytest
import torch
from federations import make_population
from torch import nn

from duotone.federation.engine import federate
from duotone.federation.personalise import (
    Personalisation,
    estimate_shares,
    personalised,
    rules_with,
    shifted_bias,
    ways,
)
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.concepts.fedcd import FedCD, FedCDConfig
from duotone.networks.classifiers import cnn, cnn_bn
from duotone.networks.reading import as_network


def drawn(shares, samples, sure=4.0, seed=0):
    """Draw labels, and answers of a classifier that is calibrated for even shares."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(shares, samples, replacement=True, generator=generator)
    noise = torch.randn(samples, len(shares), generator=generator, dtype=torch.float64)
    # Logits of classes with means sure·e_y and unit variance, for equal shares.
    x = noise + sure * torch.eye(len(shares), dtype=torch.float64)[labels]
    return labels, (sure * x).softmax(dim=1)


def test_shares_are_found_from_answers_alone():
    true = torch.tensor([0.7, 0.2, 0.1, 0.0], dtype=torch.float64)
    _, answers = drawn(true, 20_000, sure=1.5)
    even = torch.full((4,), 0.25, dtype=torch.float64)
    found = estimate_shares(answers, even, strength=0.0)
    torch.testing.assert_close(found, true, atol=0.03, rtol=0)


def test_one_step_of_em_by_hand():
    # One sample, answers (0.8, 0.2): both shares and answers agree at (1, 0) only in the end, but
    # with a prior as strong as the sample the fixed point s = (a(s) + 0.5) / 2 is met earlier.
    answers = torch.tensor([[0.8, 0.2]], dtype=torch.float64)
    even = torch.tensor([0.5, 0.5], dtype=torch.float64)
    found = estimate_shares(answers, even, strength=1.0)
    first = float(found[0])
    answer = 0.8 * first / (0.8 * first + 0.2 * (1 - first))
    assert first == pytest.approx((answer + 0.5) / 2, abs=1e-6)
    assert found.sum() == pytest.approx(1.0)


def test_without_samples_the_shares_of_training_stay():
    trained = torch.tensor([0.6, 0.4], dtype=torch.float64)
    found = estimate_shares(torch.zeros(0, 2, dtype=torch.float64), trained)
    assert found.tolist() == pytest.approx([0.6, 0.4])


def test_a_shifted_bias_is_bayes_rule():
    bias = torch.tensor([0.3, -0.2])
    shares, trained = torch.tensor([0.9, 0.1]), torch.tensor([0.5, 0.5])
    logits = torch.tensor([1.0, 2.0])
    before = (logits + bias).softmax(0)
    after = (logits + shifted_bias(bias, shares, trained)).softmax(0)
    expected = before * shares / trained
    torch.testing.assert_close(after, expected / expected.sum())


@pytest.fixture(scope="module")
def trained():
    population = make_population()
    method = FedAvg(FedAvg.Config(), cnn_bn)
    *_, last = federate(method, population, rounds=2)
    return population, method, last


def test_only_the_last_bias_changes_with_the_shares(trained):
    population, method, last = trained
    x = population.data("c3").x
    chosen = Personalisation("prior", (0.25, 0.25, 0.25, 0.25))
    found = personalised(method, last.server.shared, x, last.info, chosen)
    changed = [n for n, t in last.server.shared.items() if not torch.equal(found[n], t)]
    assert changed == ["head.bias"]


def test_only_statistics_change_with_the_norm(trained):
    population, method, last = trained
    x = population.data("c3").x
    found = personalised(method, last.server.shared, x, last.info, Personalisation("norm", ()))
    changed = {n for n, t in last.server.shared.items() if not torch.equal(found[n], t)}
    assert changed
    assert all("running" in name for name in changed)


def test_few_inputs_move_the_norm_a_little(trained):
    population, method, last = trained
    x, name = population.data("c3").x, "norm1.running_mean"
    chosen = Personalisation("norm", ())

    def moved(inputs):
        found = personalised(method, last.server.shared, inputs, last.info, chosen)
        return (found[name] - last.server.shared[name]).norm()

    # The same inputs again and again: 24 samples weigh 24 / (24 + 80), a thousand nearly all.
    assert moved(x) / moved(x.repeat(50, 1, 1, 1)) == pytest.approx(0.2308 / 0.9375, rel=1e-3)


def test_no_change_is_no_change(trained):
    _, method, last = trained
    chosen = Personalisation("none", ())
    x = torch.zeros(2, 1, 8, 8)
    found = personalised(method, last.server.shared, x, last.info, chosen)
    assert found is last.server.shared


@pytest.mark.parametrize(
    ("wish", "model", "expected"),
    [
        ("none", cnn_bn, ("none",)),
        ("auto", cnn_bn, ("none", "prior", "norm")),
        ("auto", cnn, ("none", "prior")),
        ("norm", cnn, ("none",)),
        ("prior", cnn_bn, ("none", "prior")),
    ],
)
def test_what_can_be_changed_depends_on_the_model(wish, model, expected):
    method = FedAvg(FedAvg.Config(), model)
    assert ways(wish, method, make_population().info) == expected


def test_a_last_layer_without_a_bias_cannot_be_shifted():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 4, bias=False))
    method = FedAvg(FedAvg.Config(), as_network(model))
    assert ways("auto", method, make_population().info) == ("none",)


def test_a_network_beside_the_model_is_not_its_last_layer():
    population = make_population()
    method = FedCD(FedCDConfig(complement="bottleneck"), cnn_bn)
    *_, last = federate(method, population, rounds=1)
    chosen = Personalisation("prior", (0.7, 0.1, 0.1, 0.1))
    found = personalised(method, last.server.shared, population.data("c3").x, last.info, chosen)
    changed = [n for n, t in last.server.shared.items() if not torch.equal(found[n], t)]
    assert changed == ["head.bias"]


def test_inputs_come_before_nothing_and_behind_labels():
    assert rules_with("none", ("zero-shot",)) == ("zero-shot",)
    assert rules_with("auto", ("zero-shot",)) == ("label-free", "zero-shot")
    # A head that must be fitted to labels cannot be had from inputs.
    assert rules_with("auto", ("few-shot",)) == ("few-shot",)
    assert rules_with("auto", ("few-shot", "zero-shot")) == ("few-shot", "label-free", "zero-shot")
