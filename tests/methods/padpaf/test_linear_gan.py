from __future__ import annotations

import pytest
import torch
from torch import Tensor

from duotone.data import load_dataset
from duotone.errors import ConfigError
from duotone.federation.engine import MemoryStates, federate
from duotone.methods.padpaf.linear_gan import (
    LinearGAN,
    LinearGANConfig,
    LinearPaDPaF,
    drawing_loss,
    judging_loss,
    line_of,
    most_confident,
    weighted,
)
from duotone.networks import MODELS
from duotone.partition.build import build_population
from duotone.types import DataInfo, Draws


def made(**settings: object) -> LinearPaDPaF:
    return LinearPaDPaF(LinearGANConfig(**settings), MODELS.load("linear"))


def worked(additive: bool = True) -> LinearGAN:
    """A GAN with parameters that can be worked with by hand."""
    model = LinearGAN(additive, 16, 2)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([2.0, 1.0]))
        model.style_offset.copy_(torch.tensor([1.0, 10.0]))
        model.style_weight.copy_(torch.tensor([0.0, 3.0]) if additive else torch.zeros(2))
    return model


def test_the_line_of_a_normal_distribution_is_its_regression():
    covariance = torch.tensor([[4.0, 2.0], [2.0, 9.0]])
    found = line_of(torch.tensor([[3.0]]), torch.tensor([1.0, 10.0]), covariance)
    assert float(found) == pytest.approx(10 + 2 / 4 * 2)


def test_points_are_drawn_from_both_latents_and_predicted_along_their_line():
    model = worked()
    point = model.draw(Draws(torch.tensor([[1.0]]), torch.tensor([[2.0]])))
    assert point.tolist() == [[3.0, 17.0]]  # (2, 1) + 2 · (0, 3) + (1, 10)
    # Σ = (2, 1)(2, 1)ᵀ + (0, 3)(0, 3)ᵀ = ((4, 2), (2, 10)): slope 2 / 4.
    assert model(torch.tensor([[3.0]])).tolist() == [[pytest.approx(11.0)]]


def test_the_density_of_x_is_that_of_what_is_drawn():
    normal = torch.distributions.Normal(1.0, 2.0)
    x = torch.tensor([[0.0], [3.0]])
    assert torch.allclose(worked().log_density(x), normal.log_prob(x.squeeze(1)))


def test_the_surest_client_is_asked_or_all_by_how_sure_they_are():
    confidence = torch.tensor([[0.0, 5.0], [torch.tensor(3.0).log(), 1.0]])
    predictions = torch.tensor([[4.0, 7.0], [8.0, 9.0]])
    assert most_confident(confidence, predictions).tolist() == [8, 7]
    assert float(weighted(confidence, predictions)[0]) == pytest.approx((4 + 3 * 8) / 4)


def test_content_is_judged_around_the_offset_only_if_centred():
    model, points = worked(), torch.tensor([[1.0, 10.0], [2.0, 12.0]])
    assert model.seen(points, centred=True).tolist() == [[0, 0], [1, 2]]
    assert model.seen(points, centred=False) is points


def test_the_discriminators_minimise_two_hinges_and_the_contrast(monkeypatch):
    model = worked()

    def flat(judge: torch.nn.Module, features: Tensor) -> Tensor:
        return torch.full((len(features),), 0.25)

    monkeypatch.setattr("duotone.methods.padpaf.linear_gan.PointJudge.judge", flat)
    monkeypatch.setattr(
        "duotone.methods.padpaf.linear_gan.contrast_term", lambda content, style: torch.tensor(10.0)
    )
    generator = torch.Generator().manual_seed(0)
    config = LinearGANConfig(contrast=0.5)
    # Each judge: (1 − ¼) + (1 + ¼) = 2; the contrast counts by a half.
    assert float(judging_loss(model, torch.zeros(4, 2), generator, config)) == pytest.approx(9)
    assert float(drawing_loss(model, 4, generator, config)) == pytest.approx(-0.5)


@pytest.mark.parametrize(("form", "local"), [("offset", 1), ("additive", 2)])
def test_what_is_named_after_style_stays(form: str, local: int):
    method = made(form=form)
    shared, own = method.split(method.build(DataInfo((1,), "regression", 1)))
    assert {"weight", "offset"} <= set(shared)
    assert {"style_offset", "style_weight"} <= set(own)
    assert not any(name.startswith("style") for name in shared)
    trains = [
        p
        for n, p in method.build(DataInfo((1,), "regression", 1)).named_parameters()
        if n in ("style_offset", "style_weight") and p.requires_grad
    ]
    assert len(trains) == local


def test_only_points_are_taken():
    with pytest.raises(ConfigError, match=r"padpaf-linear draws points .*\(2,\).*one feature"):
        made().build(DataInfo((2,), "regression", 1))


def test_centred_it_starts_at_the_clients_and_its_shared_direction_moves():
    population = build_population(load_dataset("simpson-repo"), "natural", {}, seed=0)
    method, states = made(), MemoryStates()
    (last,) = federate(method, population, rounds=1, seed=0, states=states)
    start = method.start(last.info).shared["weight"]
    assert not torch.equal(last.server.shared["weight"], start)
    for client in population.partition.members:
        data, state = population.data(client), states.get(client)
        assert state is not None
        place = torch.tensor([data.x.mean(), data.labels.mean()])
        assert float((state.local["style_offset"] - place).norm()) < 0.15
