from __future__ import annotations

import shutil

import pytest
from explored_pages import Page, finished

import duotone


@pytest.fixture(scope="session")
def fedbn(tmp_path_factory):
    """Clients that differ in their normalisation."""
    return finished(tmp_path_factory.mktemp("explorer") / "fedbn", "fedbn")


@pytest.fixture(scope="session")
def drawing(tmp_path_factory):
    """A run that can draw from codes, but keeps none: only scores were allowed to leave."""
    partition = {"scheme": "iid", "clients": 2, "max_train": 40, "max_test": 12}
    out = tmp_path_factory.mktemp("explorer") / "feddva"
    method = {"name": "feddva", "epochs": 1}
    return finished(out, method, partition=partition, level="scores")


@pytest.fixture(scope="session")
def page(fedbn):
    return Page(fedbn)


@pytest.fixture(scope="session")
def drawn_page(drawing):
    return Page(drawing)


@pytest.fixture
def copied(fedbn, tmp_path):
    """A copy of a run that a test may damage."""
    shutil.copytree(fedbn.path, tmp_path / "run")
    return duotone.load_run(tmp_path / "run")
