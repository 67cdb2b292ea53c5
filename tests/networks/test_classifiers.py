from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from duotone.errors import ConfigError
from duotone.networks import MODELS, describe_models
from duotone.networks.reading import find_head
from duotone.types import DataInfo

TEXT_MODELS = ["char-gru"]
PIXEL_MODELS = [name for name in sorted(MODELS) if name not in TEXT_MODELS]
IMAGE_MODELS = [name for name in PIXEL_MODELS if not name.startswith(("linear", "mlp"))]


def build(name: str, *shape: int, outputs: int = 10) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MODELS.load(name)(DataInfo(shape, "classes", outputs))


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def kinds(model: nn.Module, kind: type[nn.Module]) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, kind)]


@pytest.mark.parametrize("name", PIXEL_MODELS)
@pytest.mark.parametrize("shape", [(1, 4, 4), (1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 29, 30)])
def test_every_model_gives_one_score_per_class(name, shape):
    model = build(name, *shape, outputs=7).eval()
    assert model(torch.rand(2, *shape)).shape == (2, 7)


@pytest.mark.parametrize("name", PIXEL_MODELS)
def test_the_head_of_every_model_is_found(name):
    model = build(name, 1, 8, 8)
    assert find_head(model) is model.head


@pytest.mark.parametrize("name", PIXEL_MODELS)
def test_every_model_can_learn_32_samples_by_heart(name):
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(32, 1, 8, 8, generator=generator)
    y = torch.randint(4, (32,), generator=generator)
    model = build(name, 1, 8, 8, outputs=4).train()
    # One layer has much further to go than several.
    optimizer = torch.optim.Adam(model.parameters(), 0.05 if name == "linear" else 0.005)
    for _ in range(60):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.02:
            break
    assert (model(x).argmax(1) == y).all()


def test_every_model_says_in_one_line_what_it_is():
    found = describe_models()
    assert list(found) == list(MODELS)
    for summary in found.values():
        assert summary != "from a plug-in"
        assert "\n" not in summary


def test_the_small_cnn_has_the_size_of_the_speed_measurements():
    assert size(build("cnn", 1, 28, 28)) == 421_642


def test_thesis_cnn_has_two_convolutions_and_three_linear_layers():
    convolutions = (9 * 1 * 16 + 16) + (9 * 16 * 32 + 32)
    linear = (32 * 7 * 7 * 128 + 128) + (128 * 64 + 64) + (64 * 10 + 10)
    norms = 2 * (16 + 32 + 128 + 64)
    assert convolutions + linear == 214_538
    assert size(build("thesis-cnn", 1, 28, 28)) == 214_538
    assert size(build("thesis-cnn-bn", 1, 28, 28)) == 214_538 + norms == 215_018


def test_digits_cnn_has_the_layers_of_the_paper():
    convolutions = (25 * 1 * 64 + 64) + (25 * 64 * 64 + 64) + (25 * 64 * 128 + 128)
    linear = (128 * 7 * 7 * 2048 + 2048) + (2048 * 512 + 512) + (512 * 10 + 10)
    norms = 2 * (64 + 64 + 128 + 2048 + 512)
    assert convolutions + linear + norms == 14_216_010
    assert size(build("digits-cnn", 1, 28, 28)) == 14_216_010


def test_resnet8_has_the_layers_of_its_name():
    stem = 9 * 3 * 16 + 2 * 16
    block1 = 2 * 9 * 16 * 16 + 2 * 2 * 16
    block2 = 9 * 16 * 32 + 9 * 32 * 32 + 16 * 32 + 3 * 2 * 32
    block3 = 9 * 32 * 64 + 9 * 64 * 64 + 32 * 64 + 3 * 2 * 64
    head = 64 * 10 + 10
    assert stem + block1 + block2 + block3 + head == 78_042
    assert size(build("resnet8-gn", 3, 32, 32)) == 78_042


def test_resnet8_halves_the_image_twice_and_then_averages_it():
    model = build("resnet8-gn", 3, 32, 32)
    x = model.block1(torch.rand(1, 16, 32, 32))
    assert x.shape == (1, 16, 32, 32)
    x = model.block2(x)
    assert x.shape == (1, 32, 16, 16)
    assert model.block3(x).shape == (1, 64, 8, 8)


def test_mlp_bn_is_the_mlp_with_two_norms():
    assert size(build("mlp", 5, outputs=2)) == (5 * 64 + 64) + (64 * 64 + 64) + (64 * 2 + 2)
    assert size(build("mlp-bn", 5, outputs=2)) == size(build("mlp", 5, outputs=2)) + 2 * 2 * 64


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cnn", []),
        ("cnn-bn", ["norm1", "norm2", "norm3"]),
        ("thesis-cnn", []),
        ("thesis-cnn-bn", ["norm1", "norm2", "norm3", "norm4"]),
        ("digits-cnn", ["norm1", "norm2", "norm3", "norm4", "norm5"]),
        ("resnet8-gn", []),
        ("content-cnn", []),
        ("content-cnn-in", []),
        (
            "content-cnn-bn",
            [f"content.layers.{i}" for i in (1, 4, 7)] + ["content.block.1", "content.block.4"],
        ),
        ("mlp", []),
        ("mlp-bn", ["norm1", "norm2"]),
    ],
)
def test_batch_norm_is_where_the_name_says(name, expected):
    assert kinds(build(name, 1, 8, 8), nn.modules.batchnorm._BatchNorm) == expected


def test_resnet8_normalises_each_sample_alone():
    model = build("resnet8-gn", 3, 16, 16).train()
    assert len(kinds(model, nn.GroupNorm)) == 1 + 2 + 3 + 3
    assert not list(model.buffers())
    x = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(x)[:1], model(x[:1]))


def test_pooling_before_the_nonlinearity_changes_nothing():
    x = torch.randn(2, 3, 8, 8)
    pool, relu = torch.nn.MaxPool2d(2), torch.nn.ReLU()
    assert torch.equal(pool(relu(x)), relu(pool(x)))


@pytest.mark.parametrize("name", ["mlp", "mlp-bn"])
def test_an_mlp_takes_tables(name):
    assert build(name, 5, outputs=2)(torch.rand(3, 5)).shape == (3, 2)


@pytest.mark.parametrize("name", IMAGE_MODELS)
@pytest.mark.parametrize("shape", [(5,), (1, 3, 28), (3, 28, 3)])
def test_samples_that_do_not_fit_are_sent_to_the_mlp(name, shape):
    with pytest.raises(ConfigError, match=f"'{name}' needs .* 4×4 .*--set model=mlp") as caught:
        build(name, *shape)
    assert f"have shape {shape}" in str(caught.value)
