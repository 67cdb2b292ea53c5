from __future__ import annotations

import math

import pytest
import torch

from duotone.methods.concepts.bottleneck import Bottleneck
from duotone.networks.gaussian import Gaussian


def test_nats_are_counted_from_the_place_of_the_label():
    bottleneck = Bottleneck(5, 2, dimensions=2)
    with torch.no_grad():
        bottleneck.places.copy_(torch.tensor([[1.0, 0.0], [0.0, 3.0]]))
    code = Gaussian(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.zeros(2, 2))
    # At its own place nothing; else half the squared distance, here 1 + 9.
    assert bottleneck.nats(code, torch.tensor([0, 1])).tolist() == pytest.approx([0.0, 5.0])
    wide = Gaussian(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, math.log(4)]]))
    expected = 0.5 * (4 - 1 - math.log(4))
    assert bottleneck.nats(wide, torch.tensor([0])).tolist() == pytest.approx([expected])


def test_what_a_code_tells_has_its_price():
    bottleneck = Bottleneck(5, 3)
    z, y = torch.randn(7, 5), torch.tensor([0, 1, 2, 0, 1, 2, 0])
    losses = []
    for weight in (0.0, 2.0):
        torch.manual_seed(0)
        losses.append(bottleneck.loss(z, y, weight))
    nats = bottleneck.nats(bottleneck(z), y).mean()
    torch.testing.assert_close(losses[1] - losses[0], 2 * nats)


def test_the_scale_of_hidden_vectors_does_not_matter():
    bottleneck, z = Bottleneck(6, 3), torch.randn(4, 6)
    torch.testing.assert_close(
        bottleneck(z).mean, bottleneck(100 * z + 7).mean, atol=1e-4, rtol=1e-4
    )
