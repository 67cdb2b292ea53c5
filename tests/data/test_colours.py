from __future__ import annotations

import pytest
import torch

from duotone.data.colours import (
    half_changed,
    random_clouds,
    random_levels,
    random_textures,
    recoloured,
)


def test_black_and_white_become_the_levels_that_were_drawn():
    x = torch.tensor([0.0, 0.5, 1.0]).view(1, 1, 1, 3).expand(1, 2, 1, 3)
    black, white = (torch.tensor(pair).view(1, 2, 1, 1) for pair in ([0.1, 0.9], [0.5, 0.3]))
    found = recoloured(x, black, white)
    assert found[0, 0, 0].tolist() == pytest.approx([0.1, 0.3, 0.5])
    assert found[0, 1, 0].tolist() == pytest.approx([0.9, 0.6, 0.3])


def test_levels_are_within_range_apart_and_of_both_polarities():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        black, white = random_levels(1000, 3)
    assert torch.stack([black, white]).min() >= 0
    assert torch.stack([black, white]).max() <= 1
    assert (white - black).abs().min() >= 0.3 - 1e-6
    assert 0.4 < float((white > black).float().mean()) < 0.6


def test_levels_may_differ_from_pixel_to_pixel():
    x = torch.tensor([0.0, 1.0]).expand(1, 1, 2, 2)
    black = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    white = torch.tensor([[0.6, 0.7], [0.8, 0.9]])
    expected = torch.tensor([[0.1, 0.7], [0.3, 0.9]])
    assert torch.allclose(recoloured(x, black, white)[0, 0], expected)


def test_textures_are_smooth_within_range_and_of_another_strength_in_every_image():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        clouds = random_clouds(torch.Size((20, 3, 28, 28)))
        black, white = random_textures(torch.Size((200, 3, 28, 28)))
    assert clouds.shape == (20, 3, 28, 28)
    steps = (clouds[..., 1:] - clouds[..., :-1]).abs().mean()
    assert steps < 0.5 * clouds.std()  # independent pixels would differ by more than they spread
    for level in (black, white):
        assert 0 <= level.min() <= level.max() <= 1
        strengths = level.std(dim=(2, 3)).mean(1)
        assert strengths.min() < 0.02 < 0.08 < strengths.max()


def test_about_half_of_the_images_are_changed_and_the_others_not_at_all():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        x = torch.rand(1000, 1, 2, 2)
        found = half_changed(x, torch.ones(()), torch.zeros(()))
    is_kept = (found == x).flatten(1).all(dim=1)
    assert 0.45 < float(is_kept.float().mean()) < 0.55
    assert torch.allclose(found[~is_kept], 1 - x[~is_kept])
