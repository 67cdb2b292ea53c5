"""PaDPaF's linear GAN on Simpson's data (Figs. 3 and 9): which trend it finds, and who is asked.

python -m studies.linear_gan docs/results/simpson-gan.json
python -m studies.linear_gan figure docs/images/simpson-gan.png

Both parameterisations, as published (with the step sizes of the authors' code) and centred. Of
every one: the slope of the shared direction and of each client's line, and squared errors of test
samples. They are predicted by the client that holds them; by the client that is surest of x; by all
clients, weighted by how sure they are. How sure a client is, its style discriminator says, or the
density of what its generator draws. No label of a test sample is used. Results are added to what
the file holds, so that an interrupted study goes on.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from duotone.data import load_dataset
from duotone.federation.engine import MemoryStates, federate
from duotone.methods.padpaf.linear_gan import (
    LinearGAN,
    LinearGANConfig,
    LinearPaDPaF,
    most_confident,
    weighted,
)
from duotone.networks import MODELS
from duotone.partition.build import build_population
from duotone.partition.partition import Population

SEEDS = (1, 2, 3)
DATA = ("simpson", "simpson-repo")
_AS_PUBLISHED = {"centred": False, "optimizer": "sgd", "lr": 0.1, "lr_decay": 0.99, "turns": 3}
ENTRIES: dict[str, dict[str, Any]] = {
    "offset, as published": {"form": "offset", **_AS_PUBLISHED},
    "additive, as published": {"form": "additive", **_AS_PUBLISHED},
    "offset": {"form": "offset"},
    "additive": {"form": "additive"},
}


def trained(settings: dict[str, Any], population: Population, seed: int) -> dict[str, LinearGAN]:
    """Return the model that each member uses after training."""
    method = LinearPaDPaF(LinearGANConfig(**settings), MODELS.load("linear"))
    states = MemoryStates()
    *_, last = federate(method, population, rounds=method.rounds, seed=seed, states=states)
    models = {}
    for client in population.partition.members:
        state = states.get(client)
        assert state is not None
        model = method.load(method.personal(last.server, state), population.info)
        assert isinstance(model, LinearGAN)
        models[client] = copy.deepcopy(model).eval()
    return models


@torch.no_grad()
def asked(models: dict[str, LinearGAN], population: Population) -> dict[str, Any]:
    """Return slopes, and the squared errors of every way to ask."""
    tests = {client: population.data(client, "test") for client in models}
    x = torch.cat([data.x for data in tests.values()])
    y = torch.cat([data.labels for data in tests.values()])
    predictions = torch.stack([model(x).squeeze(1) for model in models.values()])
    own = torch.cat([models[client](data.x).squeeze(1) for client, data in tests.items()])
    ways = {"its own client": own, "all alike": predictions.mean(dim=0)}
    for by in ("confidence", "log_density"):
        sure = torch.stack([getattr(model, by)(x) for model in models.values()])
        words = {"confidence": "discriminators", "log_density": "generators"}[by]
        ways[f"the surest by {words}"] = most_confident(sure, predictions)
        ways[f"weighted by {words}"] = weighted(sure, predictions)
    first = next(iter(models.values()))
    return {
        "shared slope": round(float(first.weight[1] / first.weight[0]), 4),
        "slopes": {
            client: round(float(model.moments()[1][0, 1] / model.moments()[1][0, 0]), 4)
            for client, model in models.items()
        },
        "errors": {way: round(float((told - y).square().mean()), 5) for way, told in ways.items()},
    }


@torch.no_grad()
def draw(found: dict[str, dict[str, LinearGAN]], population: Population, out: Path) -> None:
    """Draw every client's samples, and the line that its generator draws points on."""
    figure = Figure(figsize=(3 * len(found), 3.2), layout="constrained")
    axes = figure.subplots(1, len(found), sharex=True, sharey=True)
    for axis, (entry, models) in zip(axes, found.items(), strict=True):
        for number, (client, model) in enumerate(models.items()):
            data, ink = population.data(client), f"C{number}"
            axis.scatter(data.x, data.labels, s=5, alpha=0.4, color=ink)
            mean, covariance = model.moments()
            across = 2 * covariance[0, 0].sqrt()
            ends = (mean[0] + torch.stack([-across, across]))[:, None]
            axis.plot(ends, model(ends), color=ink)
        axis.set(title=entry, xlabel="x", xlim=(-2.3, 2.3), ylim=(-2.3, 2.3))
        axis.title.set_fontsize(9)
    axes[0].set_ylabel("y")
    FigureCanvasAgg(figure).print_png(str(out))


def main(out: Path) -> None:
    """Train and ask everything; results are added to what the file holds."""
    table: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    for name in DATA:
        population = build_population(load_dataset(name), "natural", {}, seed=0)
        for seed in SEEDS:
            for entry, settings in ENTRIES.items():
                told = table.setdefault(name, {}).setdefault(entry, {})
                if f"seed{seed}" not in told:
                    told[f"seed{seed}"] = asked(trained(settings, population, seed), population)
                    out.write_text(json.dumps(table, indent=1) + "\n")


def figure(out: Path) -> None:
    """Draw every entry on the paper's data, with the first seed."""
    population = build_population(load_dataset(DATA[0]), "natural", {}, seed=0)
    shown = {entry: trained(own, population, SEEDS[0]) for entry, own in ENTRIES.items()}
    draw(shown, population, out)


if __name__ == "__main__":
    main(Path(sys.argv[1])) if len(sys.argv) == 2 else figure(Path(sys.argv[2]))
