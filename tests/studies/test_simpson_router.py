from __future__ import annotations

import torch
from studies.simpson_router import routed


def test_lines_count_by_their_share_of_each_sample():
    shares = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    predictions = torch.tensor([[2.0, 8.0], [4.0, 8.0]])
    assert routed(shares, predictions).tolist() == [2.0, 7.0]
