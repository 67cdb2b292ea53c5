"""Small finished runs to be explained."""

from __future__ import annotations

import warnings

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
