"""Backbones of timm with weights from a file."""

from __future__ import annotations

import sys

import pytest
import torch
from safetensors.torch import save_file

import duotone
from duotone.errors import ConfigError, MissingExtraError
from duotone.networks.reading import find_head
from duotone.types import DataInfo

GREY = DataInfo((1, 32, 32), "classes", 7)


def timm_or_skip():
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # the latter: a torchvision that fits no torch
        pytest.skip(f"timm cannot be imported ({error})")
    return timm


@pytest.fixture
def weights(tmp_path):
    timm = timm_or_skip()
    torch.manual_seed(0)
    network = timm.create_model("test_resnet", pretrained=False)
    path = tmp_path / "test_resnet.safetensors"
    save_file(network.state_dict(), path)
    return network, path


def test_without_timm_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'duotone\[backbones\]'"):
        duotone.pretrained("resnet18")


def test_weights_are_those_of_the_file_and_the_last_layer_is_new(weights):
    network, path = weights
    model = duotone.pretrained("test_resnet", weights=path)(GREY)
    assert find_head(model) is model.network.fc
    own, given = model.network.state_dict(), network.state_dict()
    same = [name for name in own if name in given and torch.equal(own[name], given[name])]
    assert own.keys() - set(same) == {"conv1.0.weight", "fc.weight", "fc.bias"}
    # Grey pixels stand for all three colours.
    summed = given["conv1.0.weight"].sum(dim=1, keepdim=True)
    assert torch.allclose(own["conv1.0.weight"], summed, atol=1e-5)
    assert model(torch.rand(2, 1, 32, 32)).shape == (2, 7)


def test_pixels_are_scaled_as_the_backbone_expects(weights):
    _, path = weights
    colour = DataInfo((3, 32, 32), "classes", 4)
    model = duotone.pretrained("test_resnet", weights=path)(colour).eval()
    x = torch.rand(2, 3, 32, 32)
    expected = model.network.pretrained_cfg
    mean, std = (torch.tensor(expected[name]).view(1, 3, 1, 1) for name in ("mean", "std"))
    assert torch.allclose(model(x), model.network((x - mean) / std), atol=1e-6)
    assert not {"mean", "std"} & model.state_dict().keys()  # nothing to be averaged


def test_wrong_names_and_files_are_one_line(weights, tmp_path):
    with pytest.raises(ConfigError, match=r"no network 'resnet1888'\. Did you mean 'resnet18'"):
        duotone.pretrained("resnet1888")
    with pytest.raises(ConfigError, match=r"There is no file .*none\.safetensors"):
        duotone.pretrained("test_resnet", weights=tmp_path / "none.safetensors")
    with pytest.raises(ConfigError, match="can carry code"):
        duotone.pretrained("test_resnet", weights=tmp_path / "net.pth")
    other = duotone.pretrained("test_efficientnet", weights=weights[1])
    with pytest.raises(ConfigError, match="the weights are of this very network"):
        other(GREY)


def test_a_backbone_is_trained_with_a_head_for_each_client(weights, tmp_path):
    _, path = weights
    run = duotone.run(
        method={"name": "fedper", "epochs": 1},
        data="mini-digits",
        model=duotone.pretrained("test_resnet", weights=path),
        partition={"scheme": "iid", "clients": 3, "newcomers": 1, "max_train": 40, "max_test": 20},
        rounds=1,
        latents=0,
        curve=[],
        backend="serial",
        out=tmp_path / "run",
    )
    parts = run.folder.facts()["parts"]
    assert parts["local"]["parameters"] == 10 * (parts["local"]["parameters"] // 10)
    assert parts["shared"]["parameters"] > parts["local"]["parameters"] > 0
    assert 0 <= run.summary["scores"]["member.accuracy"]["value"] <= 1
