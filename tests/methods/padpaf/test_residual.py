from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.nn.utils.parametrize import is_parametrized

from duotone.methods.padpaf.padpaf import PaDPaF, PaDPaFConfig
from duotone.methods.padpaf.residual import (
    DownBlock,
    ResidualGenerator,
    UpBlock,
    residual_features,
)
from duotone.methods.padpaf.style_gan import ContentStyleGAN
from duotone.networks import MODELS
from duotone.types import DataInfo


def silenced(block: nn.Module) -> nn.Module:
    """The same block with convolutions that give nothing."""
    for layer in block.layers:
        if isinstance(layer, nn.Conv2d):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
    return block


def test_without_its_layers_a_block_that_draws_only_enlarges():
    x = torch.randn(3, 2, 4, 4)
    found = silenced(UpBlock(2, 5, 0))(x, torch.randn(3, 5), None, 0)
    assert torch.equal(found, x.repeat_interleave(2, 2).repeat_interleave(2, 3))


def test_without_its_layers_a_block_of_features_lets_through_or_halves():
    x = torch.tensor([[[[1.0, 3.0], [5.0, 7.0]]]])
    same = silenced(DownBlock(1, 1, False, lambda layer: layer))
    half = silenced(DownBlock(1, 1, True, lambda layer: layer))
    assert torch.equal(same(x), x)
    assert half(x).tolist() == [[[[4.0]]]]


@pytest.mark.parametrize(
    ("shape", "blocks", "start"), [((1, 28, 28), 3, (4, 4)), ((3, 64, 64), 4, (4, 4))]
)
def test_three_blocks_draw_digits_and_four_draw_faces(shape, blocks, start):
    made = ResidualGenerator(shape, 6, 5, 0, width=8)
    assert (len(made.blocks), made.start[1:]) == (blocks, start)
    pictures = made(torch.randn(2, 6), torch.randn(2, 5))
    assert pictures.shape == (2, *shape)
    assert 0 <= float(pictures.detach().min()) <= float(pictures.detach().max()) <= 1


def test_features_are_as_many_as_channels_and_every_convolution_is_normalised():
    layers = residual_features((1, 28, 28), 8, spectral_norm)
    assert layers(torch.rand(2, 1, 28, 28)).shape == (2, 8)
    assert all(is_parametrized(m) for m in layers.modules() if isinstance(m, nn.Conv2d))
    assert sum(isinstance(m, DownBlock) for m in layers) == 4


def test_style_stays_and_residual_blocks_are_shared():
    config = PaDPaFConfig(blocks="residual", width=8, norms="local")
    method = PaDPaF(config, MODELS.load("linear"))
    model = method.build(DataInfo((1, 8, 8), "classes", 3))
    assert isinstance(model, ContentStyleGAN)
    assert model.generator.lens is None
    shared, local = method.split(model)
    assert "generator.blocks.0.layers.0.weight" in shared
    assert "generator.blocks.0.norms.0.by_style.weight" in local
    assert all(
        name.split(".")[0] in ("vectorizer", "style", "generator")
        for name in local
        if "_u" not in name and "_v" not in name
    )


def test_a_sample_of_residual_blocks_does_not_depend_on_those_beside_it():
    model = ContentStyleGAN(DataInfo((1, 8, 8), "classes", 4), 6, 5, "plain", True, width=8)
    content, style, label = torch.randn(4, 6), torch.randn(4, 5), torch.tensor([3, 1, 0, 2])
    together = model.sample(content, style, label)
    assert torch.allclose(together[:1], model.sample(content[:1], style[:1], label[:1]), atol=1e-5)
