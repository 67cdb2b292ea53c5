"""What swaps and probes of content–style FL can be expected to show, without any method.

python -m studies.content_controls runs/content-style/content-style/seed1 … controls.json

For every run on MNIST and rendered digits: what its judges say of handwritten digits painted by
hand in the colours of rendered ones, and of rendered digits cut out and painted white on black; and
how well an MLP tells the two domains apart by such cut-outs, made smaller and smaller, and by the
content of all members' samples, with the noise of the codes and without.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from duotone.evaluation.judges import train_judges
from duotone.evaluation.probes import train_probes
from duotone.evaluation.questions import Question
from duotone.federation.backends import ClientTask
from duotone.methods.content_style import ContentStyleFL
from duotone.models.content_style import ContentStyle
from duotone.runs import load_run, plan_run
from duotone.runs.serving import last_serving

HANDWRITTEN, RENDERED = CLIENTS = ("mnist-0", "rendered-digits-0")
SIDES = (28, 7, 4)


def cut_out(x: Tensor) -> Tensor:
    """Return how far each pixel is from the ground, the median colour, from 0 to 1."""
    ground = x.flatten(2).median(dim=2).values[:, :, None, None]
    distance = (x - ground).abs().mean(dim=1, keepdim=True)
    most = distance.flatten(1).quantile(0.98, dim=1)[:, None, None, None].clamp(min=0.05)
    return (distance / most * 1.3 - 0.2).clamp(0, 1)


def painted(digits: Tensor, models: Tensor) -> Tensor:
    """Return white digits on black in the ink and on the ground of other images."""
    ink_share = cut_out(models)

    def mean_where(share: Tensor) -> Tensor:
        return (models * share).sum((2, 3), True) / share.sum((2, 3), True).clamp(min=1)

    ink, ground = mean_where(ink_share), mean_where(1 - ink_share)
    return ground + (ink - ground) * digits[:, :1]


def told_apart(train: list[Tensor], test: list[Tensor], seed: int) -> float:
    """Return the accuracy of an MLP that tells two tables of codes apart."""
    tables = [torch.cat([t.flatten(1) for t in tensors]).numpy() for tensors in (train, test)]
    answers = [np.repeat([0, 1], [len(t) for t in tensors]) for tensors in (train, test)]
    probe = train_probes(tables[0], [Question("domain", answers[0])], seed)
    return round(float((probe(tables[1])[0] == answers[1]).mean()), 4)


def controls(path: Path) -> dict[str, float]:
    """Return all controls of one run."""
    run = load_run(path)
    plan = plan_run(run.config)
    method, population, seed = plan.method, plan.population, plan.config.seed
    assert isinstance(method, ContentStyleFL)
    train = [population.data(client).x for client in CLIENTS]
    test = [population.data(client, "test") for client in CLIENTS]
    found: dict[str, float] = {}

    judges = train_judges(population, seed)
    models = train[1][torch.arange(len(test[0])) % len(train[1])]
    white = cut_out(test[1].x).expand(-1, 3, -1, -1).contiguous()
    for name, x, y, style in (
        ("handwriting painted by hand", painted(test[0].x, models), test[0].labels, RENDERED),
        ("rendered digits cut out", white, test[1].labels, HANDWRITTEN),
    ):
        said = judges.verdicts(x)
        number = judges.styles.index(judges.style_of[style])
        found[f"{name}: digit read"] = round(float((said["label"] == y.numpy()).mean()), 4)
        found[f"{name}: style of the other"] = round(float((said["style"] == number).mean()), 4)

    shapes = [cut_out(x) for x in train], [cut_out(data.x) for data in test]
    for side in SIDES:
        small, new_small = ([adaptive_avg_pool2d(x, side) for x in split] for split in shapes)
        found[f"domain from cut-outs of {side}×{side}"] = told_apart(small, new_small, seed)

    store = run.folder.store()
    serving = last_serving(plan, store)
    codes: dict[str, list[Tensor]] = {"train": [], "test": []}
    clean: dict[str, list[Tensor]] = {"train": [], "test": []}
    for client, own, new in zip(CLIENTS, train, test, strict=True):
        model = serving.model(method, population, ClientTask(client, store.get(client)))
        assert isinstance(model, ContentStyle)
        with torch.no_grad():
            for split, x in (("train", own), ("test", new.x)):
                codes[split].append(method.encode(model, x).shared)
                clean[split].append(model.content(x))
    found["domain from content"] = told_apart(codes["train"], codes["test"], seed)
    found["domain from content without noise"] = told_apart(clean["train"], clean["test"], seed)
    return found


if __name__ == "__main__":
    *runs, out = map(Path, sys.argv[1:])
    written = {str(path): controls(path) for path in runs}
    out.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
