from __future__ import annotations

import pytest
import torch

from duotone.errors import ConfigError
from duotone.models import MODELS
from duotone.types import DataInfo


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 29, 30)])
def test_every_model_gives_one_score_per_class(name, shape):
    model = MODELS.load(name)(DataInfo(shape, "classes", 7)).eval()
    assert model(torch.rand(2, *shape)).shape == (2, 7)


def test_the_small_cnn_has_the_size_of_the_speed_measurements():
    model = MODELS.load("cnn")(DataInfo((1, 28, 28), "classes", 10))
    assert sum(p.numel() for p in model.parameters()) == 421_642


def test_pooling_before_the_nonlinearity_changes_nothing():
    x = torch.randn(2, 3, 8, 8)
    pool, relu = torch.nn.MaxPool2d(2), torch.nn.ReLU()
    assert torch.equal(pool(relu(x)), relu(pool(x)))


def test_a_table_needs_the_mlp():
    table = DataInfo((5,), "classes", 2)
    assert MODELS.load("mlp")(table)(torch.rand(3, 5)).shape == (3, 2)
    with pytest.raises(ConfigError, match="model=mlp"):
        MODELS.load("cnn")(table)
