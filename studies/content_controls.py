"""Swaps and probes of content–style FL on all samples, and what they can be expected to show.

python -m studies.content_controls runs/content-style/content-style/seed1 … controls.json

For every run on MNIST and rendered digits: what its judges say of the content of all test samples
drawn in styles of the other client, of handwritten digits painted by hand in the colours of
rendered ones, and of rendered digits cut out and painted white on black; and how well an MLP tells
the two domains apart by content, with the noise of the codes and without, and by such cut-outs,
made smaller and smaller.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from duotone.federation.backends import ClientTask
from duotone.measures.judges import train_judges
from duotone.measures.probe_networks import train_probes
from duotone.measures.questions import Question
from duotone.methods.content_style.content_networks import ContentStyle
from duotone.methods.content_style.content_style import ContentStyleFL
from duotone.runs import load_run
from duotone.runs.last_round import last_serving
from duotone.runs.opened import OpenedRun
from duotone.types import Latents, Params

HANDWRITTEN, RENDERED = CLIENTS = ("mnist-0", "rendered-digits-0")
SIDES = (28, 7, 4)
"""Pixels a side of the cut-outs."""


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


def controls(path: Path) -> dict[str, float]:
    """Return everything that is asked of one run."""
    run = load_run(path)
    plan = OpenedRun(run).plan
    method, population, seed = plan.method, plan.population, plan.config.seed
    assert isinstance(method, ContentStyleFL)
    with run.folder.reading() as last:
        serving = last_serving(plan, last)
        states = {client: last.get(client) for client in population.partition}
    judges = train_judges(population, seed)
    train = {client: population.data(client) for client in CLIENTS}
    test = {client: population.data(client, "test") for client in CLIENTS}
    found: dict[str, float] = {}

    def judged(name: str, x: Tensor, shown: str, style: str) -> None:
        said = judges.verdicts(x)
        is_read = said["label"] == test[shown].labels.numpy()
        is_in_style = said["style"] == judges.styles.index(judges.style_of[style])
        found[f"{name}: digit read"] = round(float(is_read.mean()), 4)
        found[f"{name}: in the style"] = round(float(is_in_style.mean()), 4)

    def told_apart(name: str, old: list[Tensor], new: list[Tensor]) -> None:
        tables = [torch.cat([x.flatten(1) for x in split]).numpy() for split in (old, new)]
        answers = [np.repeat([0, 1], [len(x) for x in split]) for split in (old, new)]
        probe = train_probes(tables[0], [Question("domain", answers[0])], seed)
        found[f"domain from {name}"] = round(float((probe(tables[1])[0] == answers[1]).mean()), 4)

    codes: dict[str, tuple[Latents, Latents]] = {}
    clean: dict[str, tuple[Tensor, Tensor]] = {}
    params: dict[str, Params] = {}
    for client in CLIENTS:
        model = serving.model(method, population, ClientTask(client, states[client]))
        assert isinstance(model, ContentStyle)
        params[client] = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        old, new = train[client].x, test[client].x
        with torch.no_grad():
            codes[client] = method.encode(model, old), method.encode(model, new)
            clean[client] = model.content(old), model.content(new)
    for shown, style in (CLIENTS, CLIENTS[::-1]):
        drawing = method.load(params[style], population.info).eval()
        content, styles = codes[shown][1].shared, codes[style][0].local
        taken = styles[torch.arange(len(content)) % len(styles)]
        with torch.no_grad():
            drawn = method.decode(drawing, Latents(content, taken))
        judged(f"{shown} by {style}", drawn, shown, style)
    pairs = [codes[client] for client in CLIENTS]
    told_apart("content", [old.shared for old, _ in pairs], [new.shared for _, new in pairs])
    without_noise = [clean[client] for client in CLIENTS]
    told_apart(
        "content without noise",
        [old for old, _ in without_noise],
        [new for _, new in without_noise],
    )

    inks = train[RENDERED].x[torch.arange(len(test[HANDWRITTEN])) % len(train[RENDERED])]
    by_hand = painted(test[HANDWRITTEN].x, inks)
    judged("handwriting painted by hand", by_hand, HANDWRITTEN, RENDERED)
    white = cut_out(test[RENDERED].x).expand(-1, 3, -1, -1).contiguous()
    judged("rendered digits cut out", white, RENDERED, HANDWRITTEN)
    for side in SIDES:
        small, new_small = (
            [adaptive_avg_pool2d(cut_out(split[client].x), side) for client in CLIENTS]
            for split in (train, test)
        )
        told_apart(f"cut-outs of {side}×{side}", small, new_small)
    return found


if __name__ == "__main__":
    *runs, out = map(Path, sys.argv[1:])
    written = {str(path): controls(path) for path in runs}
    out.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
