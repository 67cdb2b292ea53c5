"""What content and style features of PaDPaF say about plain MNIST, which no client holds.

python -m studies.plain_probes runs/padpaf/padpaf/seed1 … probes.json

For every run: a linear probe of the digit on content features (plain MNIST gets a lens as a
newcomer's images would), on the style features of each member, and on content features of the
untrained network. Held out: 2,000 test images to fit and 2,000 others to score. As in the paper:
4,000 test images to fit, and the same to score.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from duotone.data import load_dataset
from duotone.federation.backends import ClientTask
from duotone.measures.probe_networks import Scaling
from duotone.methods.padpaf.padpaf import PaDPaF
from duotone.methods.padpaf.style_gan import ContentStyleGAN
from duotone.runs import load_run
from duotone.runs.last_round import last_serving
from duotone.runs.opened import OpenedRun
from duotone.types import ClientData

IMAGES = 2000

Table = NDArray[np.float32]


def held_out(features: Table, labels: NDArray[np.int64]) -> float:
    """Fit on the first half, score on the second."""
    return _score(features[:IMAGES], labels[:IMAGES], features[IMAGES:], labels[IMAGES:])


def as_in_the_paper(features: Table, labels: NDArray[np.int64]) -> float:
    """Score on what was fitted to."""
    return _score(features, labels, features, labels)


def _score(x: Table, y: NDArray[np.int64], new_x: Table, new_y: NDArray[np.int64]) -> float:
    scaling = Scaling.of(x)
    probe = LogisticRegression(max_iter=300).fit(scaling.apply(x), y)
    return round(float(probe.score(scaling.apply(new_x), new_y)), 4)


@torch.inference_mode()
def probe(path: Path) -> dict[str, object]:
    """Return all scores of one run."""
    run = load_run(path)
    plan = OpenedRun(run).plan
    method, population = plan.method, plan.population
    assert isinstance(method, PaDPaF)
    with run.folder.reading() as last:
        serving = last_serving(plan, last)
        states = {client: last.get(client) for client in population.partition}
    digits = load_dataset("mnist")
    rows = digits.test_rows[: 2 * IMAGES]
    x = torch.from_numpy(digits.x[rows]).float()[:, None] / 255
    labels = digits.y[rows]

    def scores(features: torch.Tensor) -> dict[str, float]:
        table = features.numpy()
        return {"held out": held_out(table, labels), "as printed": as_in_the_paper(table, labels)}

    plain = ClientData("plain", x[:IMAGES], None, population.info)
    state = method.join(serving.server, plain, serving.info)
    model = method.load(method.personal(serving.server, state), population.info).eval()
    found: dict[str, object] = {"content": scores(method.encode(model, x).shared)}
    for client in population.partition:
        own = serving.model(method, population, ClientTask(client, states[client]))
        found[f"style of {client}"] = scores(method.encode(own, x).local)
    untrained = method.build(population.info)
    assert isinstance(untrained, ContentStyleGAN)
    found["untrained"] = scores(untrained.eval().content(x))
    return found


if __name__ == "__main__":
    *runs, out = map(Path, sys.argv[1:])
    found = {str(path): probe(path) for path in runs}
    out.write_text(json.dumps(found, indent=1) + "\n")
