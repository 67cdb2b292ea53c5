from __future__ import annotations

import warnings

import pytest

import duotone

NATURAL = {"scheme": "natural", "newcomers": ["c11"], "max_test": 40}


def finished(out, name, data, rounds, partition=NATURAL, **settings):
    """Return a small finished run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without observers, messages are warnings
        return duotone.run(
            method={"name": name, **settings},
            data=data,
            partition=partition,
            rounds=rounds,
            evaluate_every=rounds,
            latents=0,
            curve=[],
            backend="serial",
            out=out,
        )


@pytest.fixture(scope="session")
def ruled(tmp_path_factory):
    """FedRep on rows of which it is known whether their class depends on the client."""
    return finished(tmp_path_factory.mktemp("ruled") / "run", "fedrep", "planted-rule-table", 8)


@pytest.fixture(scope="session")
def alike(tmp_path_factory):
    """FedAvg on the same rows: everybody has the same model."""
    return finished(tmp_path_factory.mktemp("alike") / "run", "fedavg", "planted-rule-table", 1)
