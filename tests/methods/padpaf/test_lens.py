from __future__ import annotations

import pytest
import torch

from duotone.methods.padpaf.lens import Lens, bent, lens_of


def square(size=8, low=0.0, high=1.0):
    """Images with a bright square in their middle half."""
    x = torch.full((4, 1, size, size), low)
    quarter = size // 4
    x[..., quarter : size - quarter, quarter : size - quarter] = high
    return x


def test_a_new_lens_shows_the_canvas_as_it_is():
    lens = Lens(1, 3)
    canvas = torch.rand(2, 1, 8, 8)
    assert torch.allclose(lens(canvas, torch.zeros(2, 3)), canvas, atol=1e-5)


def test_two_tones_are_those_of_ground_and_ink():
    lens = Lens(2, 3)
    with torch.no_grad():
        lens.ground.copy_(torch.tensor([1.0, 0.2]))
        lens.ink.copy_(torch.tensor([0.0, 0.6]))
    canvas = torch.tensor([0.0, 0.25, 1.0]).view(3, 1, 1, 1).expand(3, 2, 8, 8)
    seen = lens(canvas, torch.zeros(3, 3))[:, :, 4, 4]
    assert seen[:, 0].tolist() == pytest.approx([1.0, 0.75, 0.0], abs=1e-6)
    assert seen[:, 1].tolist() == pytest.approx([0.2, 0.3, 0.6], abs=1e-6)


def test_tones_are_bent_at_knots_and_in_between_by_interpolation():
    # Knots at ¼, ½ and ¾; both ends, and what lies beyond them, are on the line.
    amount = torch.tensor([-0.5, 0.0, 0.125, 0.25, 0.375, 0.75, 0.875, 1.0, 1.5])
    curve = torch.tensor([[0.2, -0.4, 0.8], [0.0, 0.0, 0.4]])
    first, second = bent(amount.expand(1, 2, 1, 9), curve)[0, :, 0]
    assert first.tolist() == pytest.approx([0, 0, 0.1, 0.2, -0.1, 0.8, 0.4, 0, 0], abs=1e-6)
    assert second.tolist() == pytest.approx([0, 0, 0, 0, 0, 0.4, 0.2, 0, 0], abs=1e-6)


def test_a_bent_lens_can_solarize_and_what_it_shows_can_be_taken_off_again():
    lens = Lens(1, 3)
    with torch.no_grad():
        lens.ink.fill_(0.0)
        lens.curve.copy_(torch.tensor([[0.25, 0.5, 0.75]]))  # up to ¾, and down to black
    canvas = torch.tensor([0.0, 0.5, 0.75, 0.875, 1.0]).view(5, 1, 1, 1).expand(5, 1, 8, 8)
    seen = lens(canvas, torch.zeros(5, 3)).detach()
    assert seen[:, 0, 4, 4].tolist() == pytest.approx([0, 0.5, 0.75, 0.375, 0], abs=1e-5)
    found = lens.canvas(seen, torch.zeros(1, 3)).detach()[:, 0, 4, 4]
    assert found.tolist() == pytest.approx([0, 0.5, 0.75, 0.375, 0], abs=1e-5)  # the smallest


def test_the_curve_is_trained_only_while_it_is_asked_to():
    lens = Lens(1, 3)
    assert not lens.curve.requires_grad
    with lens.bending():
        assert lens.curve.requires_grad
    assert not lens.curve.requires_grad


def test_there_is_no_ink_outside_of_the_canvas():
    lens = Lens(1, 3)
    with torch.no_grad():
        lens.frame.copy_(2 * torch.eye(2, 3))  # twice as far away
        lens.ground.fill_(0.3)
    seen = lens(torch.ones(1, 1, 8, 8), torch.zeros(1, 3))[0, 0]
    assert torch.allclose(seen[3:5, 3:5], torch.ones(2, 2), atol=1e-5)
    assert torch.allclose(seen[0], torch.full((8,), 0.3), atol=1e-6)


def test_full_blur_spreads_a_point_and_keeps_its_ink():
    lens = Lens(1, 3)
    with torch.no_grad():
        lens.blur.fill_(1.0)
    canvas = torch.zeros(1, 1, 9, 9)
    canvas[..., 4, 4] = 1
    seen = lens(canvas, torch.zeros(1, 3)).detach()
    assert float(seen.sum()) == pytest.approx(1.0, abs=1e-5)
    assert float(seen[0, 0, 4, 4]) < 0.1
    assert float(seen[0, 0, 4, 6]) > 0
    assert float(seen[0, 0, 4, 7]) == 0


def test_tones_and_frame_are_read_off_images():
    ground, ink, frame = lens_of(square(low=0.2, high=0.9))
    assert float(ground) == pytest.approx(0.2)
    assert float(ink) == pytest.approx(0.9)
    # The square covers (−½, ½) both ways in steps of ¼: variance (⅛² + ⅜²)/2 = 5/64.
    scale = 0.35 / (5 / 64) ** 0.5
    assert frame.flatten().tolist() == pytest.approx([scale, 0, 0, 0, scale, 0], abs=1e-5)


def test_dark_on_light_is_the_same_lens_with_the_tones_exchanged():
    light, dark = lens_of(square()), lens_of(1 - square())
    assert (float(dark.ground), float(dark.ink)) == (1.0, 0.0)
    assert torch.allclose(light.frame, dark.frame)


def test_a_shifted_picture_has_a_shifted_frame():
    moved = square(16).roll((2, -4), dims=(2, 3))  # down by ¼, left by ½
    scale, shift = float(lens_of(moved).frame[0, 0]), lens_of(moved).frame[:, 2]
    assert shift.tolist() == pytest.approx([0.5 * scale, -0.25 * scale], abs=1e-5)


def test_a_fitted_lens_brings_a_canvas_to_where_the_images_are():
    lens = Lens(1, 3)
    x = (1 - square(16)).roll((2, -4), dims=(2, 3))
    lens.start(x)
    place = (torch.arange(16) + 0.5) / 8 - 1
    wide = (place.abs() < 0.6).float()  # spreads by about 0.35, as a canvas should
    seen = lens(torch.outer(wide, wide).view(1, 1, 16, 16), torch.zeros(1, 3)).detach()
    found = lens_of(seen)
    assert torch.allclose(found.frame, lens.frame, atol=0.1)
    assert float(found.ground) == pytest.approx(1.0, abs=1e-5)


def test_blank_images_leave_the_frame_alone():
    found = lens_of(torch.full((3, 1, 8, 8), 0.4))
    assert float(found.ground) == pytest.approx(0.4)
    assert torch.equal(found.frame, torch.eye(2, 3))


def test_a_lens_can_be_taken_off():
    lens = Lens(1, 3)
    place = (torch.arange(28) + 0.5) / 14 - 1
    bump = torch.exp(-((place / 0.4) ** 2))
    canvas = torch.outer(bump, bump).view(1, 1, 28, 28)
    with torch.no_grad():
        lens.ground.fill_(0.9)
        lens.ink.fill_(0.1)
        lens.frame.copy_(torch.tensor([[1.2, 0.3, 0.1], [-0.3, 1.2, -0.2]]))
        lens.blur_by_style.weight.zero_()
    style = torch.randn(1, 3)
    seen = lens(canvas, style).detach()
    assert (seen - canvas).abs().max() > 0.5
    assert torch.allclose(lens.canvas(seen, style), canvas, atol=0.05)  # interpolated twice


def test_a_lens_without_contrast_or_squeezed_to_a_line_can_still_be_taken_off():
    lens = Lens(1, 3)
    with torch.no_grad():
        lens.ink.copy_(lens.ground)
        lens.frame.zero_()
        lens.frame_by_style.weight.zero_()
    found = lens.canvas(torch.rand(2, 1, 8, 8), torch.randn(1, 3)).detach()
    assert found.isfinite().all()
    assert 0 <= float(found.min()) <= float(found.max()) <= 1
