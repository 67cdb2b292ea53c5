from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duotone.federation.aggregate import ServerAdam, weighted_mean
from duotone.types import ClientUpdate, ServerState

numbers = st.floats(-1e3, 1e3, width=32)
weights = st.floats(0.125, 1e3, width=32)


def update(client: str, weight: float, **tensors: torch.Tensor) -> ClientUpdate:
    return ClientUpdate(client, tensors, weight)


def test_weighted_mean_of_two_clients_is_the_one_worked_by_hand():
    a = update("a", 1, w=torch.tensor([1.0, 2.0]))
    b = update("b", 3, w=torch.tensor([5.0, -2.0]))
    # (1·1 + 3·5) / 4 = 4 and (1·2 − 3·2) / 4 = −1
    assert weighted_mean([a, b])["w"].tolist() == [4.0, -1.0]


def test_batch_norm_statistics_are_averaged_and_its_counter_is_not():
    def norm(mean: float, variance: float, count: int) -> dict[str, torch.Tensor]:
        layer = torch.nn.BatchNorm1d(1)
        layer.running_mean.fill_(mean)
        layer.running_var.fill_(variance)
        layer.num_batches_tracked.fill_(count)
        return {f"norm.{name}": tensor for name, tensor in layer.state_dict().items()}

    a, b = update("a", 1, **norm(0.0, 2.0, 7)), update("b", 3, **norm(1.0, 4.0, 10))
    result = weighted_mean([a, b])
    assert result["norm.running_mean"].item() == 0.75
    assert result["norm.running_var"].item() == 3.5
    assert result["norm.num_batches_tracked"].item() == 10
    assert result["norm.num_batches_tracked"].dtype == torch.int64


@given(st.lists(st.tuples(numbers, weights), min_size=1, max_size=6))
def test_mean_lies_between_the_smallest_and_the_largest(pairs):
    updates = [update(str(i), w, v=torch.tensor([x])) for i, (x, w) in enumerate(pairs)]
    value = weighted_mean(updates)["v"].item()
    tolerance = 1e-4
    assert min(x for x, _ in pairs) - tolerance <= value <= max(x for x, _ in pairs) + tolerance


@given(st.lists(st.tuples(numbers, weights), min_size=1, max_size=6), st.randoms())
def test_mean_does_not_depend_on_the_order(pairs, random):
    updates = [update(str(i), w, v=torch.tensor([x])) for i, (x, w) in enumerate(pairs)]
    shuffled = random.sample(updates, len(updates))
    first, second = weighted_mean(updates)["v"], weighted_mean(shuffled)["v"]
    assert torch.allclose(first, second, rtol=1e-6, atol=1e-6)


@given(st.lists(weights, min_size=1, max_size=6), numbers)
def test_equal_updates_are_their_own_mean(given_weights, number):
    value = torch.tensor([number])
    updates = [update(str(i), w, v=value) for i, w in enumerate(given_weights)]
    assert torch.allclose(weighted_mean(updates)["v"], value, rtol=1e-6)


@given(st.lists(st.tuples(numbers, weights), min_size=1, max_size=6), st.floats(0.5, 50, width=32))
def test_mean_knows_only_relative_weights(pairs, factor):
    updates = [update(str(i), w, v=torch.tensor([x])) for i, (x, w) in enumerate(pairs)]
    scaled = [update(u.client, u.weight * factor, **u.shared) for u in updates]
    first, second = weighted_mean(updates)["v"], weighted_mean(scaled)["v"]
    assert torch.allclose(first, second, rtol=1e-5, atol=1e-5)


def test_server_adam_takes_the_step_worked_by_hand():
    adam = ServerAdam(lr=0.1, beta1=0.9, beta2=0.99, tau=0.001)
    server = ServerState({"w": torch.tensor([1.0]), "mean": torch.tensor([0.0])})
    after = adam.step(
        server, {"w": torch.tensor([2.0]), "mean": torch.tensor([3.0])}, buffers={"mean"}
    )
    # change 1: m = 0.1, v = 0.99·1e-6 + 0.01 = 0.01000099; w = 1 + 0.1·0.1/(√v + 0.001)
    step = 0.1 * 0.1 / (0.01000099**0.5 + 0.001)
    assert after.shared["w"].item() == pytest.approx(1 + step, rel=1e-6)
    assert after.shared["mean"].item() == 3.0
    assert after.extra["adam.m/w"].item() == pytest.approx(0.1)

    again = adam.step(after, {"w": after.shared["w"] + 1, "mean": torch.tensor([0.0])}, {"mean"})
    # m = 0.9·0.1 + 0.1 = 0.19, v = 0.99·0.01000099 + 0.01
    second = 0.1 * 0.19 / ((0.99 * 0.01000099 + 0.01) ** 0.5 + 0.001)
    assert again.shared["w"].item() == pytest.approx(after.shared["w"].item() + second, rel=1e-5)
