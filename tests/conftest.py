from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from federations import make_population

from duotone.partition.partition import Population


@pytest.fixture(autouse=True)
def _one_thread():
    """Tests run side by side; more threads than cores only wait for each other."""
    torch.set_num_threads(1)


@contextmanager
def _briefly() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("probe_networks._STEPS", "judges._STEPS", "judges._READER_STEPS"):
            patch.setattr(f"duotone.measures.{name}", 20)
        patch.setattr("duotone.measures.attackers._STEPS", 20)
        yield


@pytest.fixture
def brief_measures():
    """Let the networks that measure a run learn for a moment only, in this process.

    They learn longest of all that a small run does. It is for tests that look at no score of
    theirs; what these scores are worth is tested in tests/measures.
    """
    with _briefly():
        yield


@pytest.fixture(scope="module")
def brief_measures_throughout():
    """The same for a whole file, and for the runs that its tests share."""
    with _briefly():
        yield


@pytest.fixture
def population() -> Population:
    return make_population()
