"""Ten rounds of every method, recorded: a change that moves a number must say so.

Record anew with ``python tests/golden/test_trajectories.py`` and add a line under *Changes results*
in the changelog.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from federations import make_population

from duotone.federation.backends.serial import Serial
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.serving import Serving
from duotone.measures.evaluation import evaluate
from duotone.methods import METHODS
from duotone.networks.classifiers import cnn_bn

FOLDER = Path(__file__).parent
LR = {"content-style": 0.0001, "ditto-gan": 0.0002, "padpaf": 0.0002, "padpaf-vae": 0.0005}
"""Learning rates of methods that would jump about with the usual one."""
COMPARED = {"content-style": 2, "ditto-gan": 2, "padpaf": 2}
"""Rounds to compare where a rounding error grows: players against each other, and InstanceNorm,
which has only 2×2 places to normalise in the content of these images."""


def trajectory(name: str) -> dict[str, list[float]]:
    """Return the mean loss in training and, for every client, on its own test samples."""
    population = make_population()
    kind = METHODS.load(name)
    method = kind(kind.Config(lr=LR.get(name, 0.02)), cnn_bn)
    states = MemoryStates()
    backend = Serial(method, population)
    clients = list(population.partition)
    found: dict[str, list[float]] = {"train": [], **{client: [] for client in clients}}
    for result in federate(method, population, rounds=10, sampled=2, states=states):
        losses = [update.metrics["train_loss"] for update in result.updates]
        found["train"].append(sum(losses) / len(losses))
        serving = Serving(result.server, result.info, method.newcomer_rules[0])
        for row in evaluate(serving, clients, population, states, backend):
            if row.metric == "loss":
                found[row.client].append(row.value)
    return found


@pytest.mark.parametrize("name", sorted(METHODS))
def test_ten_rounds_are_as_recorded(name):
    recorded = json.loads((FOLDER / f"{name}.json").read_text())
    found = trajectory(name)
    assert found.keys() == recorded.keys()
    for curve, values in recorded.items():
        # Other processors add up in another order; a tenth of a percent is far below any change
        # of method and far above rounding.
        rounds = COMPARED.get(name, len(values))
        expected = pytest.approx(values[:rounds], rel=1e-3, abs=1e-5)
        assert found[curve][:rounds] == expected, curve


if __name__ == "__main__":
    for name in METHODS:
        rounded = {k: [round(x, 7) for x in v] for k, v in trajectory(name).items()}
        (FOLDER / f"{name}.json").write_text(json.dumps(rounded, indent=1) + "\n")
