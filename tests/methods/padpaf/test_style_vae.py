from __future__ import annotations

import pytest
import torch

from duotone.errors import ConfigError
from duotone.methods.padpaf.generator import StyleVectorizer
from duotone.methods.padpaf.style_vae import ContentStyleVAE, LatentEncoder
from duotone.types import DataInfo

SMALL = DataInfo((1, 8, 8), "classes", 4)


def make(design="lens"):
    torch.manual_seed(0)
    return ContentStyleVAE(SMALL, 5, 3, design)


def test_an_encoder_has_no_spectral_norm_and_no_statistics():
    encoder = LatentEncoder((3, 9, 10), 5)
    assert not list(encoder.buffers())
    assert not any("parametrizations" in name for name in encoder.state_dict())
    q = encoder(torch.rand(2, 3, 9, 10))
    assert q.mean.shape == q.log_variance.shape == (2, 5)
    assert encoder.projected(q).shape == (2, 20)


def test_log_variances_are_kept_in_bounds():
    encoder = LatentEncoder((1, 8, 8), 2)
    with torch.no_grad():
        encoder.log_variance.bias.copy_(torch.tensor([100.0, -100.0]))
    assert encoder(torch.rand(3, 1, 8, 8)).log_variance.tolist() == [[6, -8]] * 3


def test_a_vectorizer_may_tell_long_latents_from_short_ones():
    z = torch.randn(2, 3)
    direction, length = StyleVectorizer(3), StyleVectorizer(3, has_length=True)
    assert torch.allclose(direction(z), direction(2 * z), atol=1e-5)
    assert not torch.allclose(length(z), length(2 * z), atol=1e-2)


def test_a_picture_does_not_depend_on_those_beside_it_when_sampled():
    model, content, style = make(), torch.randn(6, 5), torch.randn(6, 3)
    whole = model.sample(content, style)
    assert torch.allclose(whole[:2], model.sample(content[:2], style[:2]), atol=1e-5)
    assert not torch.allclose(
        model.draw(content, style)[:2], model.draw(content[:2], style[:2]), atol=1e-3
    )


def test_content_is_encoded_without_the_lens_and_style_with_it():
    model, x = make(), torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        model.generator.lens.tones_by_style.weight.zero_()
        light = model.encode(x)
        model.generator.lens.ground.fill_(1)
        model.generator.lens.ink.fill_(0)
        dark = model.encode(1 - x)
    assert torch.allclose(light[0].mean, dark[0].mean, atol=1e-5)
    assert not torch.allclose(light[1].mean, dark[1].mean, atol=1e-3)


def test_encoding_does_not_bend_the_lens():
    model = make()
    content, style = model.encode(torch.rand(4, 1, 8, 8))
    (content.mean.sum() + style.mean.sum()).backward()
    assert all(p.grad is None for p in model.generator.parameters())
    assert all(p.grad is None for p in model.vectorizer.parameters())


def test_without_a_lens_content_is_encoded_from_images_as_they_are():
    model, x = make("plain"), torch.rand(4, 1, 8, 8)
    assert torch.equal(model.encode(x)[0].mean, model.content(x).mean)


def test_tables_and_tiny_images_are_refused():
    with pytest.raises(ConfigError, match="needs images"):
        ContentStyleVAE(DataInfo((5,), "classes", 2), 5, 3, "lens")
    with pytest.raises(ConfigError, match="8"):
        ContentStyleVAE(DataInfo((1, 7, 7), "classes", 2), 5, 3, "lens")
