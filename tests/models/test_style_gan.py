from __future__ import annotations

import pytest
import torch

from duotone.errors import ConfigError
from duotone.models.style_gan import (
    ConditionalNorm,
    ContentStyleGAN,
    Discriminator,
    Generator,
    Lens,
    StyleVectorizer,
    bent,
    lens_of,
    normalised,
)
from duotone.types import DataInfo


def square(size=8, low=0.0, high=1.0):
    """Images with a bright square in their middle half."""
    x = torch.full((4, 1, size, size), low)
    quarter = size // 4
    x[..., quarter : size - quarter, quarter : size - quarter] = high
    return x


# -- the lens


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


# -- the generator


def make_generator(design, labels=0, shape=(1, 8, 8)):
    torch.manual_seed(0)
    return Generator(shape, content=6, style=5, labels=labels, design=design)


@pytest.mark.parametrize("design", ["plain", "lens"])
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 13, 10), (1, 28, 28)])
def test_pictures_have_the_shape_of_the_images(design, shape):
    made = make_generator(design, shape=shape)(torch.randn(4, 6), torch.randn(4, 5))
    assert made.shape == (4, *shape)


def test_statistics_are_those_of_the_last_rows():
    x = torch.tensor([10.0, 1.0, 3.0]).view(3, 1, 1, 1)
    assert normalised(x, 2).flatten().tolist() == pytest.approx([8, -1, 1], abs=1e-3)
    assert torch.allclose(normalised(x, 3), normalised(x), atol=1e-5)


@pytest.mark.parametrize("design", ["plain", "lens"])
@pytest.mark.parametrize("conditional", [False, True])
def test_a_sample_does_not_depend_on_those_beside_it(design, conditional):
    model = ContentStyleGAN(DataInfo((1, 8, 8), "classes", 4), 6, 5, design, conditional)
    content, style = torch.randn(4, 6), torch.randn(4, 5)
    label = torch.tensor([3, 1, 0, 2]) if conditional else None
    together = model.sample(content, style, label)
    alone = model.sample(content[:1], style[:1], None if label is None else label[:1])
    assert together.shape == (4, 1, 8, 8)
    assert torch.allclose(together[:1], alone, atol=1e-5)
    assert not torch.allclose(together[:1], model.draw(content, style, label)[:1], atol=1e-3)


def test_with_a_lens_style_reaches_only_the_last_norm():
    has = [norm.by_style is not None for norm in make_generator("lens").norms]
    assert has == [False, False, True]
    assert all(norm.by_style is not None for norm in make_generator("plain").norms)


def test_a_norm_is_modulated_by_style_and_label():
    norm = ConditionalNorm(1, 2, 0.5, 2)
    with torch.no_grad():
        norm.plain.copy_(torch.tensor([0.5, 0.0]))  # scale, shift
        norm.by_style.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        norm.by_label.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 10.0]]))
    x = torch.tensor([1.0, 3.0]).view(2, 1, 1, 1)
    style, label = torch.tensor([[0.5, 3.0]] * 2), torch.tensor([[1.0, 1.0]] * 2)
    # (1 + 0.5 + 0.5)·(∓1) + 3, and 10 more with the label
    assert norm(x, style, None).flatten().tolist() == pytest.approx([1, 5], abs=1e-4)
    assert norm(x, style, label).flatten().tolist() == pytest.approx([11, 15], abs=1e-4)


def test_a_picture_depends_on_the_label_it_is_asked_for():
    generator = make_generator("lens", labels=3)
    content, style = torch.randn(1, 6).expand(3, 6), torch.randn(1, 5).expand(3, 5)
    made = generator(content, style, torch.tensor([0, 1, 2]))
    assert not torch.allclose(made[0], made[1], atol=1e-4)


def test_only_the_direction_of_a_style_latent_counts():
    vectorizer, z = StyleVectorizer(5), torch.randn(3, 5)
    assert torch.allclose(vectorizer(z), vectorizer(7 * z), atol=1e-5)


# -- the discriminators


def test_a_label_that_is_not_known_counts_for_nothing():
    torch.manual_seed(0)
    judge = Discriminator((1, 8, 8), labels=3).eval()
    features = torch.ones(2, judge.features)
    with torch.no_grad():
        judge.labels.weight.copy_(torch.arange(3.0)[:, None].expand_as(judge.labels.weight))
    plain = judge.judge(features)
    said = judge.judge(features, torch.tensor([2, -1]))
    assert (said - plain).tolist() == pytest.approx([2 * judge.features, 0], rel=1e-4)


def test_content_and_style_are_judged_by_networks_of_one_size():
    model = ContentStyleGAN(DataInfo((1, 8, 8), "classes", 4), 6, 5, "lens", conditional=False)
    sizes = [sum(p.numel() for p in part.parameters()) for part in (model.content, model.style)]
    assert sizes[0] == sizes[1]


def test_a_generator_keeps_no_statistics():
    model = ContentStyleGAN(DataInfo((1, 8, 8), "classes", 4), 6, 5, "plain", conditional=True)
    names = model.state_dict().keys() - {name for name, _ in model.named_parameters()}
    assert all(name.endswith(("._u", "._v")) or name.startswith("scale.") for name in names)


def test_a_table_is_refused():
    with pytest.raises(ConfigError, match="needs images"):
        ContentStyleGAN(DataInfo((5,), "classes", 4), 6, 5, "lens", conditional=False)
