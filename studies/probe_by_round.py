"""What a linear probe reads off content features of plain MNIST as rounds go by (PaDPaF, Fig. 4).

python -m studies.probe_by_round studies/padpaf-rounds.toml docs/results/padpaf-rounds.json

The study's runs are trained once more, and looked at on the way: the digit from content features,
and from the style features of each member. Held out: fitted to 2,000 test images and scored on
2,000 others. As printed: fitted to all of them and scored on the same.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import torch
from studies.plain_probes import IMAGES, as_in_the_paper, held_out

from duotone.data import load_dataset
from duotone.federation.backends import ClientTask
from duotone.federation.backends.choice import make_backend
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.serving import Serving
from duotone.methods.padpaf.padpaf import PaDPaF
from duotone.runs import plan_run
from duotone.runs.plan import Plan
from duotone.types import ClientData

LOOKS = 4
"""How often a run is looked at, evenly; the last time is its end."""


@torch.no_grad()
def read(plan: Plan, serving: Serving, states: MemoryStates) -> dict[str, dict[str, float]]:
    """Return what probes read off the features of a model as it is."""
    method, population = plan.method, plan.population
    assert isinstance(method, PaDPaF)
    digits = load_dataset("mnist")
    rows = digits.test_rows[: 2 * IMAGES]
    x, labels = torch.from_numpy(digits.x[rows]).float()[:, None] / 255, digits.y[rows]
    plain = ClientData("plain", x[:IMAGES], None, population.info)
    state = method.join(serving.server, plain, serving.info)
    model = method.load(method.personal(serving.server, state), population.info).eval()
    tables = {"content": method.encode(model, x).shared.numpy()}
    for client in population.partition.members:
        own = serving.model(method, population, ClientTask(client, states.get(client)))
        tables[f"style of {client}"] = method.encode(own, x).local.numpy()
    return {
        name: {"held out": held_out(table, labels), "as printed": as_in_the_paper(table, labels)}
        for name, table in tables.items()
    }


def by_round(plan: Plan) -> dict[str, Any]:
    """Train a run and return what probes read, by round."""
    config, found = plan.config, {}
    assert config.rounds is not None
    every = max(1, config.rounds // LOOKS)
    states = MemoryStates()
    with make_backend(plan.method, plan.population, config, lambda line: None) as backend:
        for result in federate(
            plan.method,
            plan.population,
            rounds=config.rounds,
            seed=config.seed,
            backend=backend,
            states=states,
        ):
            if result.info.round % every == 0:
                serving = Serving(result.server, result.info, plan.rule)
                found[str(result.info.round)] = read(plan, serving, states)
    return found


def main(study: Path, out: Path) -> None:
    """Train and probe every seed of a study's entries."""
    told = tomllib.loads(study.read_text(encoding="utf-8"))
    table: dict[str, Any] = {}
    for name, entry in told["entries"].items():
        for seed in told["seeds"]:
            plan = plan_run({**told["settings"], **entry, "seed": seed})
            table.setdefault(name, {})[f"seed{seed}"] = by_round(plan)
            out.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
