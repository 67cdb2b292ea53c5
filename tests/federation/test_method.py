from __future__ import annotations

import pickle
from types import FunctionType

import pytest
import torch
from torch import nn

from duotone.errors import ConfigError
from duotone.federation.method import Method
from duotone.federation.settings import MethodSettings
from duotone.methods import METHODS
from duotone.methods.baselines.fedavg import FedAvg
from duotone.methods.content_style.content_networks import content_cnn_bn, content_cnn_in
from duotone.networks.classifiers import cnn_bn
from duotone.networks.reading import as_network, find_head, named_tensors
from duotone.types import DataInfo, RoundInfo

DATA = DataInfo((1, 8, 8), "classes", 4)


class LocalNorm(Method):
    name = "local-norm"

    def is_shared(self, name, owner):
        return not isinstance(owner, nn.BatchNorm1d | nn.BatchNorm2d)


def test_split_sorts_parameters_and_buffers_by_the_predicate():
    shared, local = LocalNorm(MethodSettings(), cnn_bn).split(cnn_bn(DATA))
    assert {name.split(".")[0] for name in local} == {"norm1", "norm2", "norm3"}
    assert "norm1.running_mean" in local
    assert "norm1.num_batches_tracked" in local
    assert {name.split(".")[0] for name in shared} == {"conv1", "conv2", "fc1", "head"}


def test_split_returns_copies():
    model = cnn_bn(DATA)
    shared, _ = FedAvg(MethodSettings(), cnn_bn).split(model)
    with torch.no_grad():
        model.head.bias.fill_(7)
    assert not (shared["head.bias"] == 7).any()


def test_every_entry_of_the_state_dict_is_named_once():
    model = cnn_bn(DATA)
    names = [name for name, _, _ in named_tensors(model)]
    assert sorted(names) == sorted(model.state_dict())


def test_spectral_norm_vectors_are_never_shared():
    def network(data):
        return nn.Sequential(
            nn.Flatten(), nn.utils.parametrizations.spectral_norm(nn.Linear(64, 4))
        )

    shared, local = FedAvg(MethodSettings(), network).split(network(DATA))
    assert {name.rsplit(".", 1)[1] for name in local} == {"_u", "_v"}
    assert any(name.endswith("original") for name in shared)


def test_initial_parameters_depend_on_the_seed_alone():
    method = FedAvg(MethodSettings(), cnn_bn)
    first, _ = method.initial(RoundInfo(0, 3, 0, DATA))
    torch.manual_seed(99)
    second, _ = method.initial(RoundInfo(2, 3, 0, DATA))
    other, _ = method.initial(RoundInfo(0, 3, 1, DATA))
    assert torch.equal(first["fc1.weight"], second["fc1.weight"])
    assert not torch.equal(first["fc1.weight"], other["fc1.weight"])


def test_features_are_the_input_of_the_head():
    method = FedAvg(MethodSettings(), cnn_bn)
    model = cnn_bn(DATA).eval()
    x = torch.rand(5, 1, 8, 8)
    features = method.features(model, x)
    assert features.shape == (5, 128)
    assert torch.allclose(model.head(features), model(x))
    latents = method.encode(model, x)
    assert latents.local.shape == (5, 0)


def test_the_head_is_found_by_name_or_is_the_last_linear_layer():
    model = cnn_bn(DATA)
    assert find_head(model) is model.head
    assert find_head(model, "fc1") is model.fc1
    with pytest.raises(ConfigError, match=r"no layer called 'fc9'.*conv1"):
        find_head(model, "fc9")
    with pytest.raises(ConfigError, match="no linear layer"):
        find_head(nn.Conv2d(1, 1, 1))


def test_a_model_may_be_a_class_a_function_or_a_module():
    class Fixed(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)

    module = Fixed()
    assert isinstance(as_network(Fixed)(DATA), Fixed)
    assert isinstance(as_network(cnn_bn)(DATA), nn.Module)
    copied = as_network(module)(DATA)
    assert copied is not module
    assert torch.equal(copied.weight, module.weight)


@pytest.mark.parametrize(
    ("model", "last"), [(cnn_bn, True), (content_cnn_bn, True), (content_cnn_in, False)]
)
def test_channels_lie_last_in_memory_unless_a_network_says_otherwise(model, last):
    module = FedAvg(MethodSettings(), as_network(model)).module(DATA)
    wide = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d)][1]
    assert wide.weight.is_contiguous(memory_format=torch.channels_last) == last


def test_a_method_is_sent_without_its_network():
    method = FedAvg(MethodSettings(), as_network(cnn_bn))
    method.module(DATA)
    assert pickle.loads(pickle.dumps(method))._module is None


def test_methods_answer_at_most_sixteen_questions():
    asked = {n for n, v in vars(Method).items() if isinstance(v, FunctionType | classmethod)}
    families = [kind for name in METHODS for kind in METHODS.load(name).__mro__]
    own = {n for kind in families if kind not in Method.__mro__ for n in vars(kind)}
    questions = {name for name in asked & own if not name.startswith("_")}
    assert {"first_state", "before_use", "join"} <= questions
    assert len(questions) <= 16, sorted(questions)
