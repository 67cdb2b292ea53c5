from __future__ import annotations

import math

import pytest
import torch

from duotone.errors import ConfigError
from duotone.methods.content_style.content_networks import (
    ContentCNN,
    ContentEncoder,
    ContentStyle,
    StyleEncoder,
    adain,
)
from duotone.networks.reading import find_head
from duotone.types import DataInfo

COLOUR = DataInfo((3, 28, 28), "classes", 10)


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


# -- AdaIN, Eq. (1)


def test_adain_gives_a_channel_its_new_mean_and_deviation():
    content = torch.tensor([0.0, 2.0, 4.0, 6.0]).view(1, 1, 2, 2)
    # mean 3, variance 5; new deviation 2, new mean 10
    expected = [10 + 2 * (value - 3) / math.sqrt(5) for value in (0, 2, 4, 6)]
    found = adain(content, torch.tensor([[2.0]]), torch.tensor([[10.0]]))
    assert found.flatten().tolist() == pytest.approx(expected, rel=1e-4)


def test_adain_styles_every_channel_of_every_sample_on_its_own():
    scale, shift = torch.tensor([[1.0, 3.0], [0.5, 2.0]]), torch.tensor([[0.0, 1.0], [-4.0, 5.0]])
    found = adain(5 * torch.randn(2, 2, 8, 8) + 7, scale, shift)
    assert torch.allclose(found.mean((2, 3)), shift, atol=1e-4)
    assert torch.allclose(found.std((2, 3), unbiased=False), scale, atol=1e-4)


def test_adain_makes_a_constant_map_its_new_mean_with_a_finite_gradient():
    content = torch.full((1, 2, 4, 4), 3.0, requires_grad=True)
    found = adain(content, torch.ones(1, 2), torch.tensor([[5.0, -1.0]]))
    assert torch.allclose(found[0, 0], torch.tensor(5.0))
    assert torch.allclose(found[0, 1], torch.tensor(-1.0))
    found.square().sum().backward()
    assert content.grad is not None
    assert content.grad.isfinite().all()


# -- encoders


@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_constant_images_give_finite_outputs_and_gradients(level):
    model = ContentStyle(COLOUR, 8)
    x = torch.full((2, 3, 28, 28), level)
    content, style = model.content(x), model.style(x)
    loss = model.classify(content).square().sum() + model.draw(content, style).sum()
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_instance_norm_takes_brightness_and_contrast_off_after_the_first_convolution():
    encoder = ContentEncoder((1, 28, 28), "instance")
    convolution, norm = encoder.layers[0], encoder.layers[1]
    # Away from the border, where padding is part of what is convolved.
    x = torch.zeros(1, 1, 28, 28)
    x[..., 10:18, 10:18] = 10 * torch.rand(8, 8)  # strong enough for ε not to count
    plain = norm(convolution(x))
    stronger = norm(convolution(3 * x))
    assert torch.allclose(plain, stronger, atol=1e-2)


def test_content_is_of_each_sample_alone_and_has_no_buffers():
    model = ContentCNN(COLOUR, norm="instance").train()
    x = torch.rand(4, 3, 28, 28)
    torch.testing.assert_close(model(x)[:1], model(x[:1]))
    assert not list(model.buffers())
    assert sum(1 for _ in ContentCNN(COLOUR, norm="batch").buffers()) == 5 * 3


@pytest.mark.parametrize(
    ("shape", "maps"),
    [((3, 28, 28), (7, 7)), ((3, 32, 32), (8, 8)), ((1, 8, 8), (2, 2)), ((3, 29, 30), (7, 7))],
)
def test_content_is_a_quarter_of_the_image_a_side_and_is_drawn_at_full_size(shape, maps):
    model = ContentStyle(DataInfo(shape, "classes", 10), 8)
    x = torch.rand(2, *shape)
    content, style = model.content(x), model.style(x)
    assert content.shape == (2, 48, *maps)
    assert style.shape == (2, 8)
    drawn = model.draw(content, style)
    assert drawn.shape == x.shape
    assert 0 <= drawn.min() <= drawn.max() <= 1


def test_content_of_the_smallest_images_keeps_more_than_a_pixel():
    # Of a single pixel InstanceNorm would leave nothing.
    model = ContentCNN(DataInfo((1, 4, 4), "classes", 3), norm="instance")
    one, other = model(torch.rand(2, 1, 4, 4))
    assert not torch.allclose(one, other)


def test_the_style_does_not_tell_where_something_is():
    encoder = StyleEncoder(1, 4).eval()
    x = torch.zeros(2, 1, 64, 64)
    blob = torch.rand(6, 6)
    # Moved by what three halvings are, and far from the border.
    x[0, 0, 24:30, 24:30] = blob
    x[1, 0, 32:38, 32:38] = blob
    one, other = encoder(x)
    assert torch.allclose(one, other, atol=1e-4)


# -- the whole


def test_flattened_content_becomes_maps_again():
    model = ContentStyle(COLOUR, 8)
    content = model.content(torch.rand(2, 3, 28, 28))
    assert torch.equal(model.maps(content.flatten(1)), content)


def test_the_classifier_reads_content_alone_and_its_last_layer_is_the_head():
    model = ContentStyle(COLOUR, 8)
    assert find_head(model) is model.head
    model(torch.rand(2, 3, 28, 28)).sum().backward()
    unused = ("style.", "mapping.", "decoder.")
    for name, parameter in model.named_parameters():
        assert (parameter.grad is None) == name.startswith(unused), name


def test_the_classifier_starts_out_as_it_would_alone():
    torch.manual_seed(3)
    alone = ContentCNN(COLOUR, norm="instance").state_dict()
    torch.manual_seed(3)
    within = ContentStyle(COLOUR, 8).state_dict()
    assert all(torch.equal(tensor, within[name]) for name, tensor in alone.items())


def test_images_that_are_too_small_for_a_style_are_refused():
    with pytest.raises(ConfigError, match=r"8×8 pixels.*another method"):
        ContentStyle(DataInfo((1, 7, 28), "classes", 3), 8)


def test_with_instance_norm_channels_stay_apart_however_images_lie_in_memory():
    x = torch.rand(4, 3, 28, 28)
    last = x.contiguous(memory_format=torch.channels_last)
    model = ContentStyle(COLOUR, 8)
    for encoder in (model.content, model.style):
        assert torch.equal(encoder(x), encoder(last))
    assert model.content(last).is_contiguous()
