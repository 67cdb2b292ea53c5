"""The game on codes, with a model that is linear in them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from duotone.explain.code_game import code_shares
from duotone.types import ClientData, DataInfo, Latents

INFO = DataInfo((3,), "regression", 1)


class Linear:
    """Answers 2·(first feature) + local code · (1, 10); the code is the other two features."""

    device = "cpu"

    def predict_with(self, model, x, local):
        return (2 * x[:, :1]) + local @ torch.tensor([[1.0], [10.0]])


def made(background):
    client = SimpleNamespace(
        method=Linear(),
        facts=SimpleNamespace(info=INFO),
        model=lambda: None,
        encode_from=lambda x: Latents(x[:, :1], x[:, 1:]),
    )
    return SimpleNamespace(background=background), client


def test_codes_by_hand():
    # The sample is (1, 1, 1). Others have means (0, 0.5, 0): they answer 2·0 + 0.5 + 0 = 0.5.
    others = torch.tensor([[0.0, 0.0, 1.0], [0.0, 1.0, -1.0]])
    federation, client = made(others)
    own = ClientData("a", torch.tensor([[5.0, 1.0, 0.8]]), torch.zeros(1), INFO)
    found = code_shares(federation, client, torch.ones(1, 3), 0, own)
    assert found.names == ("shared code", "local 0", "local 1")
    assert found.values == pytest.approx((2, 0.5, 10))
    assert found.total == pytest.approx(13 - 0.5)
    assert found.faithfulness == pytest.approx(1)
    assert found.exchanged == pytest.approx(0.5 + 10)
    assert found.placebo == pytest.approx(10 * 0.2)


def test_without_a_code_there_is_no_game():
    federation, client = made(torch.zeros(2, 3))
    assert code_shares(federation, client, torch.ones(1, 3), 0, None) is None
    client.encode_from = lambda x: Latents(x, x[:, :0])
    own = ClientData("a", torch.ones(1, 3), torch.zeros(1), INFO)
    assert code_shares(federation, client, torch.ones(1, 3), 0, own) is None
