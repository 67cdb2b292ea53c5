"""Are explanations right? Cards against planted truth, for methods that answer by the client.

python -m studies.explained OUT.json [METHOD …]
python -m studies.explained OUT.json table

In the data a visible gate says whether one rule for all or the rule of the client's group gives the
class. Methods with local parameters learn rows that hide the group; methods with codes learn images
that show it. For every method, seed and client: accuracy, |reading| of the true class and decisions
that change when the local part is exchanged for another group's, on samples that depend on the
client and on those that do not; AUC of |reading| for "depends on the client", also with a
randomised local part; how often exchanging the layer that a card names changes the decision, and
how often exchanging all others does; where there are codes, the same exchanges of local codes.
Results are added to what the file holds, so that an interrupted study goes on.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

import duotone
from duotone.explain import Federation
from duotone.explain.layers import exchange_values, layer_shares, local_layers
from duotone.federation.protocols import ExchangesCodes
from duotone.measures.asked import as_answers
from duotone.measures.decomposition import FloatArray, decomposed
from duotone.runs.client import Client

TABLE, IMAGES = "planted-rule-table", "planted-rule-visible"
METHODS = {
    "fedavg-ft": (TABLE, 20),
    "fedbn": (TABLE, 20),
    "fedrep": (TABLE, 20),
    "ditto": (TABLE, 20),
    "apfl": (TABLE, 20),
    "fedcd": (IMAGES, 20),
    "fedvc": (IMAGES, 20),
    "content-style": (IMAGES, 20),
    "feddva": (IMAGES, 40),
}
SEEDS = (0, 1, 2)
LOOKED_AT = 15  # samples of a client whose layers are exchanged


def explained(name: str, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Train one method with one seed and check its explanations; return a row for each value."""
    data, rounds = METHODS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = duotone.run(
            method=name,
            data=data,
            partition={"scheme": "natural"},
            rounds=rounds,
            evaluate_every=rounds,
            latents=0,
            curve=[],
            seed=seed,
            out=folder / f"{name}-{seed}",
        )
    opened = run.client("c0").opened
    assert opened is not None
    federation = Federation(opened)
    rows = []
    for client in federation.members:
        found = checked(federation, federation.client(client))
        rows += [
            {"method": name, "data": data, "seed": seed, "client": client, "metric": m, "value": v}
            for m, v in found.items()
        ]
    return rows


def checked(federation: Federation, client: Client) -> dict[str, float]:
    """Return all values of one client."""
    population = federation.opened.plan.population
    own = population.data(client.name, "test")
    facts = population.factors(population.rows(client.name, "test"))
    gate, label = facts["gate"] == 1, own.labels.numpy()
    reading, told = readings(federation, client, own.x, label)
    groups = np.array([federation.client(n).facts.group for n in federation.members])
    others = groups != client.facts.group
    decided = client.scores_from(own.x).argmax(dim=1).numpy()
    flips = (told.argmax(axis=2) != decided)[others].mean(axis=0)
    found = {"auc": roc_auc_score(gate, reading)}
    scrambled, _ = readings(federation, randomised(federation, client), own.x, label)
    found["auc.randomised"] = roc_auc_score(gate, scrambled)
    for words, chosen in (("dependent", gate), ("independent", ~gate)):
        found[f"accuracy.{words}"] = float((decided == label)[chosen].mean())
        found[f"reading.{words}"] = float(reading[chosen].mean())
        found[f"flips.{words}"] = float(flips[chosen].mean())
    rival = federation.client(federation.members[int(np.flatnonzero(others)[0])])
    found |= layers_exchanged(client, rival, own.x[gate][:LOOKED_AT])
    found |= codes_exchanged(federation, client, own.x, gate)
    return {metric: round(float(value), 4) for metric, value in found.items()}


def readings(
    federation: Federation, client: Client, x: Tensor, label: np.ndarray[Any, Any]
) -> tuple[FloatArray, FloatArray]:
    """Return |reading| of the true class of samples, and what all members say of them."""
    info = client.facts.info
    members = [federation.client(name) for name in federation.members]
    told = np.stack([as_answers(member.scores_from(x), info) for member in members])
    usual = np.stack([federation.usual(member) for member in members])
    own = as_answers(client.scores_from(federation.background), info).mean(axis=0)
    parts = decomposed(as_answers(client.scores_from(x), info), told, own, usual)
    return np.abs(parts.reading[np.arange(len(label)), label]), told


def randomised(federation: Federation, client: Client) -> Client:
    """Return a client whose local part is noise of the same size."""
    others = [member.params for member in federation.others(client)]
    generator = torch.Generator().manual_seed(0)
    params = dict(client.params)
    for names in local_layers(client, others).values():
        for name in names:
            shuffled = torch.randperm(params[name].numel(), generator=generator)
            params[name] = params[name].flatten()[shuffled].view_as(params[name])
    return Client(client.facts, client.method, params, client.opened)


def layers_exchanged(client: Client, rival: Client, x: Tensor) -> dict[str, float]:
    """Return how often the layer that a card names changes a decision, and all others together."""
    layers = local_layers(client, [rival.params])
    named, others = [], []
    for sample in x.split(1):
        here, there = (int(c.scores_from(sample).argmax()) for c in (client, rival))
        if len(layers) < 2 or here == there:
            continue
        shares = layer_shares(
            client,
            sample,
            [rival.params],
            lambda scores, a=here, b=there: float(scores[0, b] - scores[0, a]),  # type: ignore[misc]
        )
        assert shares is not None
        changed = exchange_values(
            client,
            sample,
            rival.params,
            layers,
            lambda scores, a=here: float(scores[0].argmax() != a),  # type: ignore[misc]
        )
        place = 1 << list(layers).index(shares.largest)
        named.append(changed[place])
        others.append(changed[(len(changed) - 1) ^ place])
    if not named:
        return {}
    return {"layers.named": float(np.mean(named)), "layers.others": float(np.mean(others))}


def codes_exchanged(
    federation: Federation, client: Client, x: Tensor, gate: np.ndarray[Any, Any]
) -> dict[str, float]:
    """Return how often other samples' local codes change a decision: other groups', and own."""
    method = client.method
    if not isinstance(method, ExchangesCodes) or not client.encode_from(x[:1]).local.shape[1]:
        return {}
    population = federation.opened.plan.population
    rng = np.random.default_rng(0)
    decided = client.scores_from(x).argmax(dim=1).numpy()
    network = client.model()
    found = {}
    rivals = [
        n for n in federation.members if federation.client(n).facts.group != client.facts.group
    ]
    for words, names in (("other_group", rivals), ("own", [client.name])):
        given = torch.cat([population.data(name).x[:40] for name in names])
        codes = client.encode_from(given[torch.from_numpy(rng.integers(len(given), size=len(x)))])
        with torch.inference_mode():
            changed = method.predict_with(network, x, codes.local).argmax(dim=1).numpy() != decided
        found[f"codes.{words}.dependent"] = float(changed[gate].mean())
        found[f"codes.{words}.independent"] = float(changed[~gate].mean())
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return means over clients, then over seeds, as a table in Markdown."""
    found = pl.DataFrame(rows)
    columns = {
        "accuracy": ("accuracy.dependent", "accuracy.independent"),
        "size of reading": ("reading.dependent", "reading.independent"),
        "AUC, randomised": ("auc", "auc.randomised"),
        "exchanged local part": ("flips.dependent", "flips.independent"),
        "named layer, all others": ("layers.named", "layers.others"),
        "exchanged code": ("codes.other_group.dependent", "codes.other_group.independent"),
        "own codes": ("codes.own.dependent", "codes.own.independent"),
    }
    lines = [
        f"| method | seeds | {' | '.join(columns)} |",
        f"|---|---:|{'---|' * len(columns)}",
    ]
    for name in METHODS:
        own = found.filter(pl.col("method") == name)
        if not own.height:
            continue
        seeds = own.group_by("metric", "seed").agg(pl.col("value").mean())
        means = dict(seeds.group_by("metric").agg(pl.col("value").mean()).iter_rows())
        cells = [
            " / ".join(f"{means[metric]:.3f}" if metric in means else "–" for metric in pair)
            for pair in columns.values()
        ]
        lines.append(f"| `{name}` | {own['seed'].n_unique()} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is not in the file yet, or print the table."""
    out, *wanted = sys.argv[1:]
    path = Path(out)
    rows = json.loads(path.read_text()) if path.exists() else []
    if wanted == ["table"]:
        sys.stdout.write(table(rows))
        return
    done = {(row["method"], row["seed"]) for row in rows}
    for seed in SEEDS:
        for name in wanted or METHODS:
            if (name, seed) not in done:
                with tempfile.TemporaryDirectory() as folder:
                    rows += explained(name, seed, Path(folder))
                path.write_text(
                    "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", "utf-8"
                )


if __name__ == "__main__":
    main()
