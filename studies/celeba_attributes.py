"""PaDPaF on CelebA by attributes (appendix C.4): 40 clients, ten workers, who recognises a person.

python -m studies.celeba_attributes docs/results/padpaf-attributes.json docs/images/padpaf-faces.png

Forty clients hold the faces with one attribute each, so that a face can be held many times. Ten
workers have a model each and train it on four clients in turn, one in a round. Written: what a
linear probe reads of a person's identity from content and style features, in the best 1, 10 and 50
guesses (Fig. 18), and whether a worker's faces show its attributes. Drawn: faces of every worker
(Figs. 19 to 21), all of them generated.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.image import imsave
from sklearn.linear_model import Ridge
from studies.linear_probes import fitted, scaled, top
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from duotone.data import Dataset, load_dataset
from duotone.federation.engine import MemoryStates, Start, before_first_round, federate
from duotone.measures.sheet import pixels
from duotone.methods.padpaf.padpaf import PaDPaF, PaDPaFConfig
from duotone.methods.padpaf.style_gan import ContentStyleGAN
from duotone.networks import MODELS
from duotone.networks.reading import in_batches
from duotone.partition.build import build_partition
from duotone.partition.partition import Partition, Population, network_inputs
from duotone.types import ClientState, DataInfo, Draws, ServerState

WORKERS = (
    ("Mustache", "Mouth_Slightly_Open", "Sideburns", "Big_Lips"),
    ("Attractive", "Narrow_Eyes", "Gray_Hair", "Bald"),
    ("Arched_Eyebrows", "Bangs", "Chubby", "Eyeglasses"),
    ("Male", "Rosy_Cheeks", "Wearing_Necktie", "High_Cheekbones"),
    ("Straight_Hair", "Wearing_Earrings", "Black_Hair", "No_Beard"),
    ("5_o_Clock_Shadow", "Young", "Wearing_Necklace", "Wavy_Hair"),
    ("Receding_Hairline", "Bushy_Eyebrows", "Goatee", "Heavy_Makeup"),
    ("Pointy_Nose", "Blond_Hair", "Double_Chin", "Oval_Face"),
    ("Big_Nose", "Smiling", "Blurry", "Brown_Hair"),
    ("Wearing_Lipstick", "Pale_Skin", "Bags_Under_Eyes", "Wearing_Hat"),
)
"""The attributes of each worker, as printed."""
SEED, ROUNDS, FACES = 1, 8, 100
SETTINGS = PaDPaFConfig(lens="none", epochs=2)
"""Two passes as printed; the paper has about 200 rounds, all faces, T_D = 5, a larger network."""


@dataclass(slots=True)
class WorkerStates(MemoryStates):
    """Client states by worker: what a client leaves, the next one of its worker goes on with."""

    worker_of: Mapping[str, str] = field(default_factory=dict)

    def get(self, client: str) -> ClientState | None:
        """Return a copy of the state of a client's worker."""
        return MemoryStates.get(self, self.worker_of[client])

    def put(self, round: int, client: str, state: ClientState) -> None:
        """Keep the state of a client's worker."""
        MemoryStates.put(self, round, self.worker_of[client], state)


def turn(partition: Partition, round: int) -> Partition:
    """Return the clients whose turn it is: of each worker one, the next in the next round."""
    place = (round - 1) % len(WORKERS[0])
    return Partition.from_holdings([partition[attributes[place]] for attributes in WORKERS])


def trained(dataset: Dataset) -> tuple[PaDPaF, DataInfo, list[dict[str, Tensor]]]:
    """Train all workers' models; return the parameters that each uses."""
    settings = {"attributes": [name for own in WORKERS for name in own], "max_train": FACES}
    partition = build_partition(dataset, "attribute", settings, seed=SEED)
    method = PaDPaF(SETTINGS, MODELS.load("linear"))
    states = WorkerStates(worker_of={name: own[0] for own in WORKERS for name in own})
    server: ServerState | None = None
    for round in range(1, ROUNDS + 1):
        population = Population(dataset, turn(partition, round))
        if server is None:
            before = before_first_round(population, rounds=ROUNDS, sampled=None, seed=SEED)
            server = method.start(before)
        start = Start(round - 1, server)
        rounds = federate(method, population, rounds=ROUNDS, seed=SEED, states=states, start=start)
        server = next(rounds).server
    assert server is not None
    found = [states.get(own[0]) for own in WORKERS]
    return (
        method,
        population.info,
        [dict(method.personal(server, state)) for state in found if state is not None],
    )


def recognised(features: Mapping[str, Tensor], people: Tensor, is_test: Tensor) -> dict[str, Any]:
    """Return how often a person is among the likeliest 1, 10 and 50, from different features.

    As printed a probe is scored on the faces it was fitted to; held out, on one more of each.
    """
    count = int(people.max()) + 1
    found: dict[str, Any] = {}
    for name, table in features.items():
        old, new = scaled(table[~is_test], table[is_test])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            probe = nn.Linear(old.shape[1], count)
        fitted(probe, old, people[~is_test], epochs=70, lr=0.1, batch=256, seed=SEED)
        found[name] = {
            words: {f"top {k}": top(probe, x, y, k) for k in (1, 10, 50)}
            for words, x, y in (
                ("as printed", old, people[~is_test]),
                ("held out", new, people[is_test]),
            )
        }
    return found


def shown(faces: Mapping[int, Tensor], dataset: Dataset, x: Tensor) -> dict[str, Any]:
    """Return how much of its own attributes a judge sees in a worker's faces, and in others'.

    The judge is a ridge regression from 16×16 pixels to all attributes of real faces; its answers
    are in deviations over real test faces.
    """
    names = [name for own in WORKERS for name in own]
    truth = np.stack([dataset.factors[name] for name in names], axis=1)

    def table(images: Tensor) -> Any:
        return adaptive_avg_pool2d(images, 16).flatten(1).numpy()

    judge = Ridge(100.0).fit(table(x[dataset.train_rows]), truth[dataset.train_rows])
    real = judge.predict(table(x[dataset.test_rows]))
    read = np.stack(
        [
            (judge.predict(table(drawn)).mean(0) - real.mean(0)) / real.std(0)
            for drawn in faces.values()
        ]
    )
    found = {}
    for worker, own in enumerate(WORKERS):
        columns = [names.index(name) for name in own]
        others = np.delete(read, worker, axis=0)
        found[str(worker + 1)] = {
            name: {
                "own": round(float(read[worker, column]), 3),
                "others": round(float(others[:, column].mean()), 3),
            }
            for name, column in zip(own, columns, strict=True)
        }
    return found


def sheet(method: PaDPaF, info: DataInfo, models: list[dict[str, Tensor]], out: Path) -> None:
    """Draw five faces of each worker with one content, with one style, and with neither."""
    generator = torch.Generator().manual_seed(SEED)
    rows = []
    for params in models:
        model = method.load(params, info).eval()
        draws = method.draw(model, 15, generator)
        generator.manual_seed(SEED)  # the same latents for every worker
        content, style = draws.content.clone(), draws.style.clone()
        content[:5], style[5:10] = content[0].clone(), style[5].clone()
        tiles = np.pad(
            pixels(method.generate(model, Draws(content, style))),
            ((0, 0), (1, 1), (1, 1), (0, 0)),
            constant_values=255,
        )
        gap = np.full((tiles.shape[1], 6, 3), 255, np.uint8)
        blocks = [np.concatenate(list(tiles[i : i + 5]), axis=1) for i in (0, 5, 10)]
        rows.append(np.concatenate([blocks[0], gap, blocks[1], gap, blocks[2]], axis=1))
    imsave(out, np.concatenate(rows))


def main(out: Path, picture: Path) -> None:
    """Train, probe and draw."""
    dataset = load_dataset("celeba64-attributes")
    method, info, models = trained(dataset)
    assert dataset.client is not None
    people = torch.from_numpy(np.unique(dataset.client, return_inverse=True)[1])
    is_test = torch.from_numpy(dataset.is_test)
    x = network_inputs(dataset.x).contiguous()
    generator = torch.Generator().manual_seed(SEED)
    first, untrained = method.load(models[0], info).eval(), method.build(info).eval()
    assert isinstance(untrained, ContentStyleGAN)
    with torch.no_grad():
        features = {
            "content": in_batches(lambda part: method.encode(first, part).shared, x),
            "style of worker 1": in_batches(lambda part: method.encode(first, part).local, x),
            "untrained": in_batches(untrained.content, x),
            "16×16 pixels": adaptive_avg_pool2d(x, 16).flatten(1),
        }
    faces: dict[int, Tensor] = {}
    for worker, params in enumerate(models):
        model = method.load(params, info).eval()
        faces[worker] = method.generate(model, method.draw(model, 100, generator))
    table = {
        "settings": {
            "rounds": ROUNDS,
            "faces per client": FACES,
            "seed": SEED,
            "people": int(people.max()) + 1,
        }
        | SETTINGS.model_dump(include={"lens", "epochs", "variant"}),
        "identity": recognised(features, people, is_test),
        "attributes": shown(faces, dataset, x),
    }
    out.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    sheet(method, info, models, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
