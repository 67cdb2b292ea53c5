from __future__ import annotations

from collections import OrderedDict

import pytest
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from worked import FIRST, Product, client, make, play, value

from duotone.errors import ConfigError
from duotone.methods.baselines.percnn import PerCNN, layers_above_extractor
from duotone.networks import MODELS
from duotone.networks.reading import as_network
from duotone.types import ClientState, DataInfo


def test_the_extractor_is_trained_first_and_then_the_shared_layers_on_it():
    method = make(PerCNN, Product(1, 1))
    clients = [client("a", 6), client("b", 11, samples=3)]
    states: dict[str, ClientState] = {}
    server, updates = play(method, clients, method.start(FIRST), states)
    # a: 2·(1 − 6)·1 = −10, body 2; then 2·(2 − 6)·2 = −16, head 2.6
    # b: 2·(1 − 11)·1 = −20, body 3; then 2·(3 − 11)·3 = −48, head 5.8
    assert updates["a"].shared.keys() == server.shared.keys() == {"head.weight"}
    assert value(states["a"].local["body.weight"]) == pytest.approx(2)
    assert value(states["b"].local["body.weight"]) == pytest.approx(3)
    assert value(server.shared["head.weight"]) == pytest.approx(5)  # (2.6 + 3·5.8)/4
    newcomer = method.join(server, client("n", 6), FIRST)
    # A fresh body under the fixed head: 2·(5·1 − 6)·5 = −10, body 2
    assert value(newcomer.local["body.weight"]) == pytest.approx(2)


class Block(nn.Module):
    """Convolutions and fully connected layers in modules of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)
        )


NARROW = nn.Linear(8, 2)


def flat(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


@pytest.mark.parametrize(
    ("model", "head", "shared"),
    [
        (
            flat(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 8), nn.ReLU()),
            None,
            {"3.weight", "3.bias"},
        ),
        (
            Block(),
            None,
            {
                *(
                    f"classifier.{layer}.{name}"
                    for layer in (1, 2, 3)
                    for name in ("weight", "bias")
                ),
                "classifier.2.running_mean",
                "classifier.2.running_var",
                "classifier.2.num_batches_tracked",
            },
        ),
        # A name may begin like that of another layer.
        (
            nn.Sequential(OrderedDict(fc_pre=nn.Conv2d(1, 4, 3), fc=nn.Linear(4, 8), end=NARROW)),
            None,
            {"fc.weight", "fc.bias", "end.weight", "end.bias"},
        ),
        (
            flat(spectral_norm(nn.Conv2d(1, 4, 3)), spectral_norm(nn.Linear(4, 8)), NARROW),
            None,
            {"1.bias", "1.parametrizations.weight.original", "2.weight", "2.bias"},
        ),
        # Without convolutions everything below the head is the extractor.
        (
            flat(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 3), nn.Linear(3, 2)),
            None,
            {"3.weight", "3.bias"},
        ),
        (
            flat(nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 2)),
            "1",
            {"1.weight", "1.bias", "2.weight", "2.bias"},
        ),
        # A head without a linear layer can only be named.
        (flat(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 2, 1)), "1", {"1.weight", "1.bias"}),
    ],
)
def test_the_shared_layers_begin_with_the_first_fully_connected_one(model, head, shared):
    method = PerCNN(PerCNN.Config(head=head), as_network(model))
    assert method.split(method.build(DataInfo((1, 8, 8), "classes", 2)))[0].keys() == shared


def test_of_a_model_of_ours_only_what_comes_after_the_convolutions_is_shared():
    data = DataInfo((1, 8, 8), "classes", 4)
    for name in ("cnn", "cnn-bn", "thesis-cnn-bn", "digits-cnn"):
        method = PerCNN(PerCNN.Config(), as_network(MODELS.load(name)))
        shared, local = method.split(method.build(data))
        assert {key.split(".")[0] for key in local} >= {"conv1", "conv2"}
        assert {key.split(".")[0] for key in local} <= {
            *("conv1", "norm1", "conv2", "norm2", "conv3", "norm3")
        }
        assert {key.split(".")[0] for key in shared} >= {"fc1", "head"}
        assert not any(key.startswith("conv") for key in shared)


def test_a_head_that_is_not_there_is_refused_with_the_layers_there_are():
    with pytest.raises(ConfigError, match=r"no layer called 'fc'.*body, head"):
        layers_above_extractor(Product(1, 1), "fc")
