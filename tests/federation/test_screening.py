from __future__ import annotations

import pytest
import torch

from duotone.federation.screening import distance, refusal
from duotone.types import ClientUpdate

SERVER = {"w": torch.zeros(2), "count": torch.tensor(3)}


def sent(weight: float = 5.0, extra: dict | None = None, **changes: torch.Tensor) -> ClientUpdate:
    shared = {"w": torch.tensor([3.0, 4.0]), "count": torch.tensor(4), **changes}
    return ClientUpdate("a", shared, weight, extra or {})


def test_an_honest_update_is_accepted():
    assert refusal(sent(), SERVER) is None


@pytest.mark.parametrize(
    ("update", "word"),
    [
        (sent(w=torch.tensor([float("nan"), 0.0])), "NaN"),
        (sent(w=torch.tensor([float("inf"), 0.0])), "NaN or infinite"),
        (sent(w=torch.zeros(3)), "shape (3,), not (2,)"),
        (sent(w=torch.zeros(2, dtype=torch.float64)), "float64"),
        (sent(other=torch.zeros(1)), "unexpected other"),
        (ClientUpdate("a", {"w": torch.zeros(2)}, 1.0), "lacks count"),
        (sent(weight=0.0), "weight is 0.0"),
        (sent(weight=float("nan")), "weight is nan"),
        (sent(weight=-1.0), "weight is -1.0"),
        (sent(extra={"stats": torch.tensor([float("nan")])}), "stats holds NaN"),
    ],
)
def test_a_bad_update_is_refused_with_its_reason(update, word):
    assert word in (refusal(update, SERVER) or "")


def test_distance_is_euclidean_over_floating_tensors():
    assert distance(sent().shared, SERVER) == 5.0


def test_norm_bound_refuses_what_moved_further():
    assert refusal(sent(), SERVER, max_norm=5.0) is None
    assert "moved by 5" in (refusal(sent(), SERVER, max_norm=4.9) or "")
