"""Scores made by hand."""

from __future__ import annotations

from typing import Any


def probe(
    name: str, mlp: float, chance: float, untrained: float, unit: str = "share"
) -> dict[str, dict[str, Any]]:
    """Return a probe with its references, every interval 0.04 wide."""
    values = {"": mlp, ".linear": mlp - 0.1, ".control": chance, ".untrained": untrained}
    scores = {
        f"probe.{name}{suffix}": {
            "value": value,
            "std": 0.01,
            "direction": "lower",
            "n": 400,
            "unit": unit,
            "low": value - 0.02,
            "high": value + 0.02,
        }
        for suffix, value in values.items()
    }
    reference = {"value": chance, "std": 0.0, "direction": "reference", "n": 400, "unit": unit}
    return {**scores, f"probe.{name}.chance": reference}
