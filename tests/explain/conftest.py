from __future__ import annotations

import pytest
from explained_runs import finished


@pytest.fixture(scope="session")
def ruled(tmp_path_factory):
    """FedRep on rows of which it is known whether their class depends on the client."""
    return finished(tmp_path_factory.mktemp("ruled") / "run", "fedrep", "planted-rule-table", 8)


@pytest.fixture(scope="session")
def alike(tmp_path_factory):
    """FedAvg on the same rows: everybody has the same model."""
    return finished(tmp_path_factory.mktemp("alike") / "run", "fedavg", "planted-rule-table", 1)
