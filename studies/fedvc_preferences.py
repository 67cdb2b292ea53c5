"""What preferences p̂ of FedVC as printed tell of a sample's domain (thesis fig. 6.7, 6.8).

python -m studies.fedvc_preferences runs/fedvc-tables docs/results/fedvc-preferences.json

p̂ is computed with the weights v of the sample's own client, as printed, and with equal weights: the
client's weights are the same for all of its samples and tell the client by themselves.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.manifold import TSNE

from duotone.federation.backends import ClientTask
from duotone.files import write_atomically
from duotone.methods.concepts.concept_layer import ConceptLinear, responsibilities
from duotone.networks.reading import find_head, head_inputs
from duotone.runs import Run, load_run, plan_run
from duotone.runs.last_round import last_serving

ENTRIES = ("fedavg", "as-printed", "iota-0.001", "iota-0.005", "iota-0.01", "gamma-0.1")
NEIGHBOURS = 5


@dataclass(frozen=True)
class Points:
    """Codes of the members' test samples, one per row.

    Attributes:
        codes: By name: ``features``, or p̂ with ``own weights`` and with ``equal weights``.
        client: Whose each sample is.
        group: The domain of each client.
    """

    codes: Mapping[str, NDArray[np.float32]]
    client: list[str]
    group: list[str]

    def scaled(self, code: str) -> NDArray[np.float32]:
        """Return a code with deviation one in all directions that vary at all."""
        values = self.codes[code].astype(np.float64)
        spread = values.std(axis=0)
        alive = spread > 0
        return ((values - values.mean(axis=0))[:, alive] / spread[alive]).astype(np.float32)

    def map_of(self, code: str) -> NDArray[np.float32]:
        """Return where t-SNE puts the samples."""
        found: NDArray[np.float32] = TSNE(init="pca", random_state=0).fit_transform(
            self.scaled(code)
        )
        return found

    def domain_told(self, code: str, *, by_other_clients: bool) -> float:
        """Return how often the nearest samples name a sample's domain, by their majority.

        Args:
            code: Which.
            by_other_clients: Whether the neighbours are samples of other clients alone.
        """
        values, groups = self.scaled(code), np.array(self.group)
        distances = cdist(values, values)
        np.fill_diagonal(distances, np.inf)
        if by_other_clients:
            clients = np.array(self.client)
            distances[clients[:, np.newaxis] == clients] = np.inf
        near = groups[np.argsort(distances, axis=1, kind="stable")[:, :NEIGHBOURS]]
        names = np.unique(groups)
        votes = (near[:, :, np.newaxis] == names).sum(axis=1)
        return float(np.mean(names[votes.argmax(axis=1)] == groups))


@torch.no_grad()
def points_of(run: Run) -> Points:
    """Return the codes of a finished run's members, from the models that they use."""
    plan = plan_run(run.config)
    method, population = plan.method, plan.population
    found: dict[str, list[torch.Tensor]] = {}
    clients, groups = [], []
    with run.folder.reading() as last:
        serving = last_serving(plan, last)
        states = {client: last.get(client) for client in population.partition.members}
    for client, state in states.items():
        model = serving.model(method, population, ClientTask(client, state)).eval()
        head = find_head(model, method.config.head)
        data = population.data(client, "test")
        features = head_inputs(model, head, data.x).flatten(1)
        for name, code in preferences_of(head, features).items():
            found.setdefault(name, []).append(code)
        clients += [client] * len(data)
        groups += [population.partition[client].group] * len(data)
    return Points(
        {name: torch.cat(parts).numpy() for name, parts in found.items()}, clients, groups
    )


def preferences_of(head: torch.nn.Module, features: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return p̂ of a client's samples under its own and under equal weights; else the features."""
    if not isinstance(head, ConceptLinear):
        return {"features": features}
    given = (head.places(features), head.centres, head.sharpness)
    equal = torch.full_like(head.weights, 1 / len(head.weights))
    weights = {"own weights": head.weights, "equal weights": equal}
    return {n: head.preference(responsibilities(*given, v)) for n, v in weights.items()}


def told(points: Points, code: str) -> dict[str, float]:
    """Return what a code tells of the domain, and how much it varies at all."""
    return {
        "by any client": round(points.domain_told(code, by_other_clients=False), 4),
        "by other clients": round(points.domain_told(code, by_other_clients=True), 4),
        "spread": float(f"{points.codes[code].std(axis=0).mean():.3g}"),
    }


def main(study: Path, out: Path) -> None:
    """Write what each code of each run tells."""
    results: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for entry in ENTRIES:
        for folder in sorted((study / entry).glob("seed*")):
            points = points_of(load_run(folder))
            results.setdefault(entry, {})[folder.name] = {c: told(points, c) for c in points.codes}
    write_atomically(out, (json.dumps(results, indent=2) + "\n").encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
