from __future__ import annotations

import pytest
import torch

from duotone.errors import ConfigError
from duotone.networks import default_model
from duotone.networks.reading import find_head, head_inputs
from duotone.networks.recurrent import CharGRU
from duotone.types import DataInfo

TEXT = DataInfo((6,), "classes", 3, "abc")


def test_the_last_character_counts_and_so_does_the_first():
    torch.manual_seed(0)
    model = CharGRU(TEXT).eval()
    x = torch.tensor([[1, 2, 3, 1, 2, 3], [1, 2, 3, 1, 2, 1], [2, 2, 3, 1, 2, 3]])
    scores = model(x)
    assert scores.shape == (3, 3)
    assert not torch.allclose(scores[0], scores[1])
    assert not torch.allclose(scores[0], scores[2], atol=1e-6)


def test_its_features_are_the_last_state_of_the_gru():
    model = CharGRU(TEXT).eval()
    x = TEXT.blank(2)
    assert find_head(model) is model.head
    states, _ = model.gru(model.characters(x))
    assert torch.allclose(head_inputs(model, model.head, x), states[:, -1], atol=1e-6)


def test_it_reads_text_alone():
    with pytest.raises(
        ConfigError, match=r"'char-gru' reads text; these samples have shape \(4,\)"
    ):
        CharGRU(DataInfo((4,), "classes", 3))


def test_text_is_read_by_a_gru_unless_another_network_is_named():
    assert default_model(TEXT, "mlp") == "char-gru"
    assert default_model(DataInfo((4,), "classes", 3), "mlp-bn") == "mlp-bn"
    assert default_model(DataInfo((1, 8, 8), "classes", 3), "mlp") == "cnn-bn"


def test_it_can_learn_32_texts_by_heart():
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(4, (32, 6), generator=generator)
    y = torch.randint(3, (32,), generator=generator)
    torch.manual_seed(0)
    model = CharGRU(TEXT)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(40):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert (model(x).argmax(dim=1) == y).float().mean() > 0.9
