"""What codes of finished runs tell of a sample's domain: features, FedCD's Pᵀz, FedVC's p̂.

python -m studies.domains_told runs/fedvc-tables docs/results/fedvc-preferences.json
python -m studies.domains_told runs/fedcd-printed docs/results/fedcd-printed-codes.json

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
from torch import Tensor, nn

from duotone.federation.backends import ClientTask
from duotone.federation.method import Method
from duotone.files import write_atomically
from duotone.methods.concepts.concept_layer import ConceptLinear, responsibilities
from duotone.networks.reading import find_head, head_inputs
from duotone.runs import Run, load_run, plan_run
from duotone.runs.last_round import last_serving
from duotone.runs.study_results import read_results

NEIGHBOURS = 5


@dataclass(frozen=True)
class Points:
    """Codes of the members' test samples, one per row.

    Attributes:
        codes: By name: ``shared`` and ``local``, or p̂ with ``own weights`` and ``equal weights``.
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
        values = self.scaled(code)
        start = "pca" if values.shape[1] > 1 else "random"
        found: NDArray[np.float32] = TSNE(init=start, random_state=0).fit_transform(values)
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
    found: dict[str, list[Tensor]] = {}
    clients, groups = [], []
    with run.folder.reading() as last:
        serving = last_serving(plan, last)
        states = {client: last.get(client) for client in population.partition.members}
    for client, state in states.items():
        model = serving.model(method, population, ClientTask(client, state)).eval()
        data = population.data(client, "test")
        for name, code in codes_of(method, model, data.x).items():
            found.setdefault(name, []).append(code)
        clients += [client] * len(data)
        groups += [population.partition[client].group] * len(data)
    return Points(
        {name: torch.cat(parts).numpy() for name, parts in found.items()}, clients, groups
    )


def codes_of(method: Method, model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return p̂ where there are concepts, else the two parts of the representation."""
    head = find_head(model, method.config.head)
    if isinstance(head, ConceptLinear):
        return preferences_of(head, head_inputs(model, head, x).flatten(1))
    codes = method.encode(model, x)
    parts = {"shared": codes.shared, "local": codes.local}
    return {name: code for name, code in parts.items() if code.shape[1]}


def preferences_of(head: ConceptLinear, features: Tensor) -> dict[str, Tensor]:
    """Return p̂ of a client's samples under its own and under equal weights."""
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


def main(study: Path, out: Path, *entries: str) -> None:
    """Write what each code of a study's runs tells; of all entries, or of those named."""
    results: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for entry in read_results(study)["entries"]:
        if entries and entry["name"] not in entries:
            continue
        for path in entry["runs"]:
            points = points_of(load_run(study / path))
            found = {code: told(points, code) for code in points.codes}
            results.setdefault(entry["name"], {})[Path(path).name] = found
    write_atomically(out, (json.dumps(results, indent=2) + "\n").encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
