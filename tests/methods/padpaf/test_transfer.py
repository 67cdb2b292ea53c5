from __future__ import annotations

import pytest
import torch
from torch import nn

from duotone.methods.padpaf.style_gan import ContentStyleGAN
from duotone.methods.padpaf.transfer import Aim, LatentMaps, learnt_maps, transfer_loss
from duotone.types import DataInfo, Draws

INFO = DataInfo((1, 8, 8), "classes", 3)


def drawn_by(*names: str, conditional: bool = False) -> dict[str, ContentStyleGAN]:
    torch.manual_seed(0)
    return {n: ContentStyleGAN(INFO, 4, 3, "plain", conditional).eval() for n in names}


def knowing(aim: Aim, models: dict[str, ContentStyleGAN], draws: Draws) -> LatentMaps:
    """Maps that find the given latents in whatever they are shown."""
    maps = LatentMaps(models, aim).eval()
    for number, latents in ((None, draws.content), (0, draws.style)):
        fixed = nn.Linear(1, 1)
        fixed.forward = lambda features, z=latents: z  # type: ignore[method-assign]
        if number is None:
            maps.content = nn.Sequential(fixed)
        else:
            maps.styles[number] = nn.Sequential(fixed)
    return maps


def latents(count: int = 6) -> Draws:
    torch.manual_seed(1)
    content, style = torch.randn(count, 4), torch.randn(count, 3)
    return Draws(
        2 * content / content.norm(dim=1, keepdim=True),
        3**0.5 * style / style.norm(dim=1, keepdim=True),
    )


def test_the_right_latents_cost_nothing_and_draw_the_picture_again():
    models, draws = drawn_by("a"), latents()
    maps = knowing("latents", models, draws)
    assert float(transfer_loss(maps, "a", draws).detach()) == pytest.approx(0, abs=1e-10)
    x = models["a"].sample(draws.content, draws.style).detach().clamp(0, 1)
    assert torch.allclose(maps.redrawn("a", x), x, atol=1e-5)


def test_the_distance_counts_content_and_style():
    models, draws = drawn_by("a"), latents()
    off = Draws(-draws.content, draws.style)
    # Content lies on a sphere of squared length 4 in 4 dimensions: (2z)² is 4 per dimension.
    loss = transfer_loss(knowing("latents", models, off), "a", draws)
    assert float(loss.detach()) == pytest.approx(4.0, rel=1e-4)
    off = Draws(draws.content, -draws.style)
    loss = transfer_loss(knowing("latents", models, off), "a", draws)
    assert float(loss.detach()) == pytest.approx(4.0, rel=1e-4)


def test_as_printed_content_features_are_correlated_with_those_of_the_redrawn(monkeypatch):
    models, draws, seen = drawn_by("a"), latents(), []
    maps = knowing("twins", models, draws)

    def compared(first, second):
        seen.append((first.detach(), second.detach()))
        return first.sum()

    monkeypatch.setattr("duotone.methods.padpaf.transfer.barlow_twins", compared)
    transfer_loss(maps, "a", draws)
    ((first, second),) = seen
    assert torch.allclose(first, second, atol=1e-4)  # the same picture twice
    other = knowing("twins", models, Draws(draws.content.flip(0), draws.style))
    transfer_loss(other, "a", draws)
    assert not torch.allclose(*seen[1], atol=1e-4)


def test_a_transfer_takes_content_from_the_source_and_all_else_from_the_target():
    models, draws = drawn_by("a", "b"), latents()
    maps = knowing("latents", models, draws)
    style = torch.randn(6, 3)
    x = torch.rand(6, 1, 8, 8)
    wanted = models["b"].sample(draws.content, style).detach().clamp(0, 1)
    assert torch.allclose(maps.transferred("a", "b", x, style), wanted)


@pytest.mark.parametrize(
    ("aim", "conditional", "turns"), [("twins", True, 15), ("latents", False, 60)]
)
def test_learning_maps_leaves_the_models_alone_and_lowers_the_loss(
    aim: Aim, conditional: bool, turns: int
):
    models = drawn_by("a", "b", conditional=conditional)
    before = {n: t.clone() for n, t in models["a"].state_dict().items()}
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(32) % 3 if conditional else None
    draws = models["a"].prior(32, generator)
    first = learnt_maps(models, aim, torch.Generator().manual_seed(0), turns=0)
    maps = learnt_maps(models, aim, torch.Generator().manual_seed(0), turns=turns, batch=32)
    losses = [float(transfer_loss(own, "a", draws, label).detach()) for own in (first, maps)]
    assert losses[1] < losses[0]
    after = models["a"].state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
