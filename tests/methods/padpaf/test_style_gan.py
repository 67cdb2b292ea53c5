from __future__ import annotations

import pytest
import torch

from duotone.errors import ConfigError
from duotone.methods.padpaf.generator import (
    ConditionalNorm,
    Generator,
    StyleVectorizer,
    normalised,
)
from duotone.methods.padpaf.style_gan import ContentStyleGAN, Discriminator
from duotone.types import DataInfo

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
