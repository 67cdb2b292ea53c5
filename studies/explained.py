"""Are explanations right? Cards against planted truth, for methods that answer by the client.

python -m studies.explained OUT.json [METHOD …]
python -m studies.explained OUT.json tables

In the data a visible gate says whether one rule for all or the rule of the client's group gives the
class. Methods with local parameters learn rows and images that hide the group; methods with codes,
and FedAvg, learn images that show it. For every method, data, seed and client:

- accuracy, on samples that depend on the client and on those that do not;
- |reading| of the true class, and how far it is from the truth; AUC of |reading| for "depends on
  the client", also with a randomised local part; reading with a local part of another group;
- decisions that change with another group's local part; the same foretold from half of the members:
  of the answers whose reading is above a limit, how many does most of the other half decide
  otherwise (precision), and of those that it does, how many were named (recall);
- decisions that change with another group's local part where a card says that something in the
  answer is particular to the client, and where it says that hardly anything is;
- how often a card names one layer alone, and then the decisions that change with this layer, and
  with all others, of a client that had no part in the naming;
- decisions that change with local codes of another group's samples, and of own ones;
- how often a card says that the client speaks through the input.

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
from duotone.explain.card import SMALL
from duotone.explain.layers import exchange_values, layer_shares, local_layers
from duotone.explain.through_input import through_input
from duotone.federation.protocols import ExchangesCodes
from duotone.measures.asked import as_answers
from duotone.measures.decomposition import FloatArray, decomposed
from duotone.runs.client import Client

TABLE, HIDDEN, VISIBLE = "planted-rule-table", "planted-rule", "planted-rule-visible"
PARAMETERS = ("fedavg-ft", "fedbn", "fedrep", "ditto", "apfl")
ROUNDS = {
    **{(name, TABLE): 20 for name in PARAMETERS},
    **{(name, HIDDEN): 40 for name in PARAMETERS},
    **{(name, VISIBLE): 20 for name in ("fedavg", "fedcd", "fedvc", "content-style")},
    ("feddva", VISIBLE): 40,
    ("fedavg", HIDDEN): 20,  # the control: nothing in the images shows the group
}
SPEAKING = ("fedavg", "fedcd", "fedrep")
SEEDS = (0, 1, 2)
LOOKED_AT = 15  # samples of a client whose layers are exchanged
MOVED = 10  # samples of a client that are moved to where others' samples lie
NAMED = 0.2  # a larger reading foretells that others decide otherwise; chosen with seed 9


def explained(name: str, data: str, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Train one method with one seed and check its explanations; return a row for each client."""
    rounds = ROUNDS[name, data]
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
    return [
        {
            "method": name,
            "data": data,
            "seed": seed,
            "client": client,
            "values": checked(federation, federation.client(client)),
        }
        for client in federation.members
    ]


def checked(federation: Federation, client: Client) -> dict[str, float]:
    """Return all values of one client."""
    population = federation.opened.plan.population
    own = population.data(client.name, "test")
    facts = population.factors(population.rows(client.name, "test"))
    gate, label = facts["gate"] == 1, own.labels.numpy()
    told = answers(federation, own.x)
    reading = readings(federation, client, own.x, told)
    groups = np.array([federation.client(n).facts.group for n in federation.members])
    others = groups != client.facts.group
    decided = client.scores_from(own.x).argmax(dim=1).numpy()
    flips = (told.argmax(axis=2) != decided)[others].mean(axis=0)
    of_label = np.abs(of(reading, label))
    found = {"auc": roc_auc_score(gate, of_label)}
    scrambled = readings(federation, randomised(federation, client), own.x, told)
    found["auc.randomised"] = roc_auc_score(gate, np.abs(of(scrambled, label)))
    rival = federation.client(federation.members[int(np.flatnonzero(others)[0])])
    wrong = of(readings(federation, rival, own.x, told), label)
    for words, chosen in (("dependent", gate), ("independent", ~gate)):
        found[f"accuracy.{words}"] = float((decided == label)[chosen].mean())
        found[f"reading.{words}"] = float(of_label[chosen].mean())
        off = np.abs(of(reading, label) - facts["reading"])
        found[f"off.{words}"] = float(off[chosen].mean())
        found[f"wrong_part.{words}"] = float(wrong[chosen].mean())
        found[f"flips.{words}"] = float(flips[chosen].mean())
        found[f"through_input.{words}"] = speaking(federation, client, own.x[chosen][:MOVED])
    particular = of(told.mean(axis=0), decided)
    named = np.abs(of(told[federation.members.index(client.name)], decided) - particular) >= SMALL
    for words, chosen in (("named", named), ("unnamed", ~named)):
        found[f"part.{words}"] = float(flips[chosen].mean()) if chosen.any() else float("nan")
    found |= foretold(federation, client, own.x, told)
    alike = [n for n in federation.members if federation.client(n).facts.group == rival.facts.group]
    judge = federation.client(alike[-1])
    found |= layers_exchanged(client, rival, judge, own.x[gate][:LOOKED_AT])
    found |= codes_exchanged(federation, client, own.x, gate)
    return {m: round(float(value), 4) for m, value in found.items() if not np.isnan(value)}


def answers(federation: Federation, x: Tensor) -> FloatArray:
    """Return what all members say of some samples, ``(members, samples, classes)``."""
    members = [federation.client(name) for name in federation.members]
    return np.stack([as_answers(m.scores_from(x), m.facts.info) for m in members])


def of(values: FloatArray, label: np.ndarray[Any, Any]) -> FloatArray:
    """Return the values ``(samples, classes)`` of one class of each sample."""
    found: FloatArray = values[np.arange(len(label)), label]
    return found


def readings(
    federation: Federation,
    client: Client,
    x: Tensor,
    told: FloatArray,
    members: Sequence[int] | None = None,
) -> FloatArray:
    """Return what is reading in a client's answers, compared with all or some members."""
    chosen = list(range(len(told))) if members is None else list(members)
    usual = [federation.usual(federation.client(federation.members[m])) for m in chosen]
    info = client.facts.info
    own = as_answers(client.scores_from(federation.background), info).mean(axis=0)
    answer = as_answers(client.scores_from(x), info)
    return decomposed(answer, told[chosen], own, np.stack(usual)).reading


def foretold(
    federation: Federation, client: Client, x: Tensor, told: FloatArray
) -> dict[str, float]:
    """Return how well readings against half of the members foretell what the other half decides."""
    rest = [i for i, name in enumerate(federation.members) if name != client.name]
    decided = client.scores_from(x).argmax(dim=1).numpy()
    half, other = rest[::2], rest[1::2]
    named = of(readings(federation, client, x, told, half), decided) > NAMED
    changes = (told[other].argmax(axis=2) != decided).mean(axis=0) > 0.5
    hits = float((named & changes).sum())
    return {
        "foretold.precision": hits / named.sum() if named.any() else float("nan"),
        "foretold.recall": hits / changes.sum() if changes.any() else float("nan"),
    }


def speaking(federation: Federation, client: Client, x: Tensor) -> float:
    """Return how often a card says that the client speaks through the input."""
    if client.method.name not in SPEAKING:
        return float("nan")
    found = [through_input(federation, client, sample) for sample in x.split(1)]
    return float(np.mean([f.speaks for f in found if f is not None] or [np.nan]))


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


def layers_exchanged(client: Client, rival: Client, judge: Client, x: Tensor) -> dict[str, float]:
    """Return how often the layer that a card names changes a decision, and all others together.

    The layer is named by exchanging the rival's; whether it changes the decision is tried with
    layers of another client of the rival's group.
    """
    named, others, alone = [], [], []
    for sample in x.split(1):
        here, there, judged = (int(c.scores_from(sample).argmax()) for c in (client, rival, judge))
        if here in (there, judged):
            continue
        shares = layer_shares(
            client,
            sample,
            [rival.params],
            lambda scores, a=here, b=there: float(scores[0, b] - scores[0, a]),  # type: ignore[misc]
        )
        if shares is None:
            continue
        alone.append(shares.is_one_layers_doing)
        layers = local_layers(client, [judge.params])
        if not alone[-1] or shares.largest not in layers:
            continue
        changed = exchange_values(
            client,
            sample,
            judge.params,
            layers,
            lambda scores, a=here: float(scores[0].argmax() != a),  # type: ignore[misc]
        )
        place = 1 << list(layers).index(shares.largest)
        named.append(changed[place])
        others.append(changed[(len(changed) - 1) ^ place])
    if not alone:
        return {}
    found = {"layers.one": float(np.mean(alone))}
    if named:
        found |= {"layers.named": float(np.mean(named)), "layers.others": float(np.mean(others))}
    return found


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


TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "Reading": {
        "accuracy": ("accuracy.dependent", "accuracy.independent"),
        "size of reading": ("reading.dependent", "reading.independent"),
        "off the truth": ("off.dependent", "off.independent"),
        "wrong part": ("wrong_part.dependent", "wrong_part.independent"),
        "AUC, randomised": ("auc", "auc.randomised"),
        "precision, recall": ("foretold.precision", "foretold.recall"),
    },
    "Exchanges": {
        "exchanged local part": ("flips.dependent", "flips.independent"),
        "part: named, not": ("part.named", "part.unnamed"),
        "one layer named": ("layers.one",),
        "that layer, all others": ("layers.named", "layers.others"),
    },
    "Codes and inputs": {
        "accuracy": ("accuracy.dependent", "accuracy.independent"),
        "exchanged code": ("codes.other_group.dependent", "codes.other_group.independent"),
        "own codes": ("codes.own.dependent", "codes.own.independent"),
        "through the input": ("through_input.dependent", "through_input.independent"),
    },
}


def tables(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return means over clients, then over seeds, as tables in Markdown."""
    found = pl.DataFrame(
        [
            {**{name: row[name] for name in ("method", "data", "seed")}, "metric": m, "value": v}
            for row in rows
            for m, v in row["values"].items()
        ]
    )
    seeds = found.group_by("method", "data", "metric", "seed").agg(pl.col("value").mean())
    over_seeds = seeds.group_by("method", "data", "metric").agg(pl.col("value").mean())
    means = {tuple(key): value for *key, value in over_seeds.iter_rows()}
    lines = []
    for title, columns in TABLES.items():
        lines += [f"## {title}", "", f"| method, data | {' | '.join(columns)} |"]
        lines.append(f"|---|{'---|' * len(columns)}")
        for name, data in ROUNDS:
            is_personal = name in PARAMETERS
            if is_personal == (title == "Codes and inputs") and name not in SPEAKING:
                continue
            if not is_personal and title != "Codes and inputs":
                continue
            cells = [
                " / ".join(
                    f"{means[name, data, metric]:.3f}" if (name, data, metric) in means else "–"
                    for metric in pair
                )
                for pair in columns.values()
            ]
            lines.append(f"| `{name}`, {data} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Run what is not in the file yet, or print the tables."""
    out, *wanted = sys.argv[1:]
    path = Path(out)
    rows = json.loads(path.read_text()) if path.exists() else []
    if wanted == ["tables"]:
        sys.stdout.write(tables(rows))
        return
    done = {(row["method"], row["data"], row["seed"]) for row in rows}
    for seed in SEEDS:
        for name, data in ROUNDS:
            if (name, data, seed) not in done and (not wanted or name in wanted):
                with tempfile.TemporaryDirectory() as folder:
                    rows += explained(name, data, seed, Path(folder))
                path.write_text(
                    "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", "utf-8"
                )


if __name__ == "__main__":
    main()
