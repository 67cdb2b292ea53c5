from __future__ import annotations

import pytest
import torch
from federations import make_population

from duotone.partition.partition import Population


@pytest.fixture(autouse=True)
def _one_thread():
    """Tests run side by side; more threads than cores only wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture
def population() -> Population:
    return make_population()
