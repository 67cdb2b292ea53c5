from __future__ import annotations

import numpy as np
import pytest
import torch
from federations import server_of
from torch import nn
from worked import FIRST, client, make, play, value

import duotone
from duotone.data import load_dataset
from duotone.errors import ConfigError
from duotone.methods.baselines.private_bias import CentredLinear, PrivateBias
from duotone.partition import build_partition
from duotone.types import ClientData, ClientState, DataInfo


def line(weight: float, bias: float) -> nn.Linear:
    layer = nn.Linear(1, 1)
    nn.init.constant_(layer.weight, weight)
    nn.init.constant_(layer.bias, bias)
    return layer


def test_moving_the_centre_changes_the_bias_and_not_the_outputs() -> None:
    layer = CentredLinear(line(2, 1))
    x = torch.tensor([[0.0], [3.0]])
    assert layer(x).flatten().tolist() == [1, 7]
    layer.move(torch.tensor([3.0]))
    assert value(layer.bias) == 7
    assert layer(x).flatten().tolist() == [1, 7]


def test_a_layer_without_a_bias_gets_one() -> None:
    bare = nn.Linear(1, 1, bias=False)
    nn.init.constant_(bare.weight, 2)
    assert CentredLinear(bare)(torch.tensor([[3.0]])).item() == 6


def test_a_bias_at_the_origin_steps_with_the_weight_and_stays_at_home() -> None:
    method = make(PrivateBias, line(1, 0), centred=False)
    states: dict[str, ClientState] = {}
    clients = [client("a", 6), client("b", 11, samples=3)]
    server, updates = play(method, clients, method.start(FIRST), states)
    # The loss is (w + b − y)². a: 2·(1 − 6) = −10 for both, a step of 1; b: −20, a step of 2.
    assert updates["a"].shared.keys() == server.shared.keys() == {"weight"}
    assert value(server.shared["weight"]) == pytest.approx(2.75)  # 1 + (1 + 3·2)/4
    assert [value(states[name].local["bias"]) for name in ("a", "b")] == pytest.approx([1, 2])


def test_around_its_own_mean_a_client_with_one_input_learns_nothing_but_its_bias() -> None:
    method = make(PrivateBias, line(1, 0))
    states: dict[str, ClientState] = {}
    server, _ = play(method, [client("a", 6)], method.start(FIRST), states)
    # The centre is 1, where the output is 1: the bias steps from 1 to 2. x − 1 = 0 moves no weight.
    assert value(server.shared["weight"]) == 1
    assert value(states["a"].local["centre"]) == 1
    assert value(states["a"].local["bias"]) == pytest.approx(2)


def test_a_newcomer_fits_its_bias_to_the_shared_weight() -> None:
    method = make(PrivateBias, line(2, 0), epochs=50)
    x = torch.tensor([[0.0], [1.0], [2.0]])
    data = ClientData("n", x, torch.tensor([5.0, 7.0, 9.0]), FIRST.data)
    server = method.start(FIRST)
    state = method.join(server, data, FIRST)
    model = method.load(method.personal(server, state), FIRST.data)
    assert model(torch.tensor([[10.0]])).item() == pytest.approx(25, abs=1e-3)
    assert value(method.personal(server, state)["weight"]) == 2


def test_a_head_that_is_not_linear_is_refused() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.last = nn.Linear(1, 1), nn.Bilinear(1, 1, 1)

    method = make(PrivateBias, Odd(), head="last")
    with pytest.raises(ConfigError, match="the model's last is a Bilinear"):
        method.build(DataInfo((1,), "regression", 1))


class Watch:
    def run_started(self, folder, plan, round) -> None: ...
    def round_committed(self, progress) -> None: ...
    def message(self, line) -> None: ...


def regression(tmp_path, method: str, data: str, lr: float):
    return duotone.run(
        method={"name": method, "lr": lr, "epochs": 5, "batch_size": 10},
        data=data,
        model="linear",
        rounds=30,
        evaluate_every=30,
        latents=0,
        curve=[],
        partition={"scheme": "natural", "newcomers": ["c4"]},
        backend="serial",
        out=tmp_path / "run",
        observers=[Watch()],
    )


def slope_inside_members(data: str) -> float:
    """Return the least-squares slope of the members' training samples around their own means."""
    dataset = load_dataset(data)
    partition = build_partition(dataset, "natural", {"newcomers": ["c4"]}, seed=0)
    x, y = [], []
    for name in partition.members:
        rows = partition[name].train
        x.append(dataset.x[rows, 0] - dataset.x[rows, 0].mean())
        y.append(dataset.y[rows] - dataset.y[rows].mean())
    return float(np.polyfit(np.concatenate(x), np.concatenate(y), 1)[0])


def weight_of(run) -> float:
    return value(server_of(run).shared["head.weight"])


@pytest.mark.parametrize("data", ["simpson", "simpson-repo"])
def test_it_finds_the_trend_inside_clients_and_predicts_newcomers(data, tmp_path) -> None:
    run = regression(tmp_path, "private-bias", data, lr=0.5)
    assert weight_of(run) == pytest.approx(slope_inside_members(data), rel=0.05)
    scores = run.summary["scores"]
    assert scores["member.mse"]["value"] <= 0.0025
    # Ten samples of one client: in simpson-repo their noise alone is 0.0027.
    assert scores["newcomer.mse"]["value"] <= (0.0025 if data == "simpson" else 0.0035)


@pytest.mark.parametrize("data", ["simpson", "simpson-repo"])
def test_pooled_the_trend_has_the_wrong_sign(data, tmp_path) -> None:
    run = regression(tmp_path, "fedavg", data, lr=0.1)
    assert weight_of(run) < -0.5
    assert run.summary["scores"]["member.mse"]["value"] > 0.02


def test_where_slopes_differ_the_shared_weight_is_their_mean(tmp_path) -> None:
    run = regression(tmp_path, "private-bias", "simpson-slopes", lr=0.5)
    assert weight_of(run) == pytest.approx(slope_inside_members("simpson-slopes"), rel=0.05)
