"""Algorithm 2 of PaDPaF with both maps: drawn again, and drawn by others (Figs. 15 and 16).

python -m studies.padpaf_transfer runs/padpaf8/padpaf/seed1 8 3 OUT.json OUT.png

The two numbers are the clients, counted from 1, between whom Fig. 15 goes. For the maps as printed
and those that are asked for the latents themselves: pictures that clients draw, drawn again from
the latents found in them, and drawn by every other client; test images drawn by every other client.
Judges say whether the digit is still the same and whose look it is. Pixels are compared too: the
squared error of a picture drawn again, as a share of that to another picture of the same client.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from studies.figures import print_rows
from torch import Tensor

from duotone.measures.judges import Judges, train_judges
from duotone.measures.sheet import pixels
from duotone.methods.padpaf.style_gan import ContentStyleGAN
from duotone.methods.padpaf.transfer import LatentMaps, learnt_maps
from duotone.partition.partition import Population
from duotone.runs import load_run
from duotone.runs.opened import OpenedRun
from duotone.seeding import derive

AIMS = ("twins", "latents")
PICTURES = 60
"""Of each client, drawn and real."""
_SHOWN = 12


class Transfers:
    """All clients of a run, and what is asked of the maps between them.

    Args:
        path: The run.
    """

    def __init__(self, path: Path) -> None:
        run = load_run(path)
        plan = OpenedRun(run).plan
        self.population: Population = plan.population
        self.models: dict[str, ContentStyleGAN] = {}
        for client in self.population.partition.members:
            model = run.client(client).model()
            assert isinstance(model, ContentStyleGAN)
            self.models[client] = model
        self.seed = run.config.seed
        self.judges: Judges = train_judges(self.population, self.seed)
        self.generator = torch.Generator().manual_seed(derive(self.seed, "transfer"))

    @torch.no_grad()
    def drawn(self, client: str) -> tuple[Tensor, Tensor | None]:
        """Return pictures of a client, and their labels if it is told any."""
        model, label = self.models[client], None
        draws = model.prior(PICTURES, self.generator)
        if model.generator.labels is not None:
            label = torch.arange(PICTURES) % model.generator.labels.num_embeddings
        return model.sample(draws.content, draws.style, label).clamp(0, 1), label

    def real(self, client: str) -> tuple[Tensor, Tensor | None]:
        """Return test images of a client, and their labels if it is told any."""
        data = self.population.data(client, "test").first(PICTURES)
        told = self.models[client].generator.labels is not None
        return data.x, data.labels if told else None

    def styles(self) -> Tensor:
        """Draw styles to put on."""
        return next(iter(self.models.values())).prior(PICTURES, self.generator).style

    def read(self, x: Tensor, digit: np.ndarray[Any, Any], client: str) -> dict[str, float]:
        """Return in which share pictures show a digit, and look like a client's."""
        said = self.judges.verdicts(x)
        style = self.judges.styles.index(self.judges.style_of[client])
        return {
            "digit kept": float((said["label"] == digit).mean()),
            "in the look": float((said["style"] == style).mean()),
        }

    def scores(self, maps: LatentMaps) -> dict[str, Any]:
        """Return everything that is asked of some maps, client by client."""
        found: dict[str, Any] = {}
        for source in self.models:
            x, label = self.drawn(source)
            digit = self.judges.verdicts(x)["label"]
            again = maps.redrawn(source, x, label)
            error = (again - x).square().mean() / (x.roll(1, 0) - x).square().mean()
            own = {"drawn again": {**self.read(again, digit, source), "error": float(error)}}
            new, truth = self.real(source)
            kept = self.population.data(source, "test").first(PICTURES).labels.numpy()
            for target in self.models:
                if target == source:
                    continue
                for words, images, told, shows in (
                    ("drawn, by others", x, label, digit),
                    ("real, by others", new, truth, kept),
                ):
                    moved = maps.transferred(source, target, images, self.styles(), told)
                    own.setdefault(words, {})
                    for name, value in self.read(moved, shows, target).items():
                        own[words].setdefault(name, []).append(value)
            found[self.judges.style_of[source]] = {
                words: {name: round(float(np.mean(v)), 4) for name, v in told.items()}
                for words, told in own.items()
            }
        return found


def main(path: Path, source: int, target: int, out: Path, picture: Path) -> None:
    """Learn both maps of a run, score them, and draw the second."""
    asked = Transfers(path)
    clients = list(asked.models)
    table: dict[str, Any] = {}
    rows = []
    for aim in AIMS:
        maps = learnt_maps(asked.models, aim, asked.generator)
        table[aim] = asked.scores(maps)
        first, second = clients[source - 1], clients[target - 1]
        x, label = asked.drawn(first)
        again = maps.redrawn(first, x, label)
        moved = maps.transferred(first, second, x, asked.styles(), label)
        rows += [pixels(part)[:_SHOWN] for part in (x, again, moved)]
        out.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    images, told = asked.real(clients[-1])
    rows.append(pixels(images)[:_SHOWN])
    for client in clients:
        moved = maps.transferred(clients[-1], client, images, asked.styles(), told)
        rows.append(pixels(moved)[:_SHOWN])
    print_rows(rows, picture)


if __name__ == "__main__":
    run, first, second, out, picture = sys.argv[1:]
    main(Path(run), int(first), int(second), Path(out), Path(picture))
