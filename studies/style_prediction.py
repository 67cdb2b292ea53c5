"""Which client drew a picture, by PaDPaF's own protocol (appendix C.2.2, Fig. 14).

python -m studies.style_prediction runs/padpaf8/padpaf/seed1 … docs/results/padpaf-prediction.json

Every client draws pictures. From content features a linear probe says which client drew one. From
style features: those of each client's style discriminator become one number by a linear map, and
all clients' numbers become the answer by another. As printed, probes are scored on the pictures
that they were fitted to, and beside it on as many new ones. So is an untrained network's content.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from studies.linear_probes import fitted, scaled, top
from torch import Tensor, nn

from duotone.methods.padpaf.padpaf import PaDPaF
from duotone.methods.padpaf.style_gan import ContentStyleGAN
from duotone.networks.reading import in_batches
from duotone.runs import load_run
from duotone.runs.opened import OpenedRun
from duotone.seeding import derive

PICTURES = 500
"""Of each client, to fit to; as many more are held out."""
EPOCHS, LR, BATCH = 50, 0.01, 32


class OneNumberEach(nn.Module):
    """Features of every client become one number each, and all numbers the answer.

    Args:
        clients: How many there are.
        features: Of each.
    """

    def __init__(self, clients: int, features: int) -> None:
        super().__init__()
        self.numbers = nn.ModuleList(nn.Linear(features, 1) for _ in range(clients))
        self.answer = nn.Linear(clients, clients)

    def forward(self, x: Tensor) -> Tensor:
        """Return a score for each client, given the features of all, one after the other."""
        parts = x.chunk(len(self.numbers), dim=1)
        pairs = zip(self.numbers, parts, strict=True)
        numbers = torch.cat([layer(part) for layer, part in pairs], dim=1)
        scores: Tensor = self.answer(numbers)
        return scores


@torch.no_grad()
def predicted(path: Path) -> dict[str, dict[str, float]]:
    """Return how often the client is told by each kind of features of one run."""
    run = load_run(path)
    plan = OpenedRun(run).plan
    assert isinstance(plan.method, PaDPaF)
    seed = run.config.seed
    generator = torch.Generator().manual_seed(derive(seed, "prediction"))
    models: list[ContentStyleGAN] = []
    for client in plan.population.partition.members:
        model = run.client(client).model()
        assert isinstance(model, ContentStyleGAN)
        models.append(model)
    drawn = []
    for model in models:
        label = None
        if plan.method.config.conditional:
            label = torch.arange(2 * PICTURES) % plan.population.info.outputs
        draws = model.prior(2 * PICTURES, generator)
        drawn.append(plan.method.generate(model, draws, label))
    x = torch.cat(drawn)
    y = torch.arange(len(models)).repeat_interleave(2 * PICTURES)
    is_new = torch.arange(len(x)) % 2 == 1
    untrained = plan.method.build(plan.population.info).eval()
    assert isinstance(untrained, ContentStyleGAN)
    tables = {
        "content": in_batches(models[0].content, x),
        "style": torch.cat([in_batches(model.style, x) for model in models], dim=1),
        "untrained": in_batches(untrained.content, x),
    }
    found = {}
    for name, table in tables.items():
        old, new = scaled(table[~is_new], table[is_new])
        torch.manual_seed(seed)
        network: nn.Module = nn.Linear(old.shape[1], len(models))
        if name == "style":
            network = OneNumberEach(len(models), old.shape[1] // len(models))
        with torch.enable_grad():
            fitted(network, old, y[~is_new], epochs=EPOCHS, lr=LR, batch=BATCH, seed=seed)
        found[name] = {
            "as printed": top(network, old, y[~is_new]),
            "held out": top(network, new, y[is_new]),
        }
    return found


if __name__ == "__main__":
    *runs, out = map(Path, sys.argv[1:])
    table = {str(path): predicted(path) for path in runs}
    out.write_text(json.dumps(table, indent=1) + "\n")
