"""Pairs of images with contents and styles exchanged, unseen domains too (content–style, Fig. 3).

python -m studies.content_pairs content-style-pairs.json content-style-pairs.png

MNIST and rendered digits train; MNIST-M and SVHN are unseen, and fit a style without labels. As in
the paper: the two images of a pair, both drawn again, and both with the other's style. Judges that
have learnt all these domains say whether the digit can still be read, and from which domain a
picture seems to be; what they say of real images stands beside.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from studies.figures import print_rows
from torch import Tensor

import duotone
from duotone.federation.protocols import Decodes
from duotone.measures.judges import Judges, train_judges
from duotone.measures.sheet import Images, pixels
from duotone.runs.client import Client
from duotone.types import Latents

ENTRIES: dict[str, dict[str, Any]] = {
    "as printed": {"name": "content-style", "variant": "paper", "epochs": 1, "lr_decay": 1.0},
    "content-style": {"name": "content-style"},
}
PAIRS = (("mnist-m", "mnist"), ("svhn", "mnist"), ("svhn", "mnist-m"))
SEED, ROUNDS, IMAGES = 1, 12, 500
TESTED, SHOWN = 300, 4


def trained(method: dict[str, Any], out: Path) -> duotone.Run:
    """Train on two domains; all that is judged is judged here."""
    return duotone.run(
        data="digits5",
        method=method,
        rounds=ROUNDS,
        evaluate_every=ROUNDS,
        latents=0,
        curve=[],
        backend="serial",
        seed=SEED,
        partition={
            "scheme": "domains",
            "members": ["mnist", "rendered-digits"],
            "per_domain": 1,
            "newcomers": 0,
            "max_train": IMAGES,
            "max_test": TESTED,
        },
        out=out,
    )


class Pair:
    """Two clients, with test images and their codes.

    Args:
        clients: Both.
        x: Test images of each.
    """

    def __init__(self, clients: tuple[Client, Client], x: tuple[Tensor, Tensor]) -> None:
        self.clients = clients
        self.x = x
        self.codes = tuple(c.encode_from(part) for c, part in zip(clients, x, strict=True))

    def drawn(self, content: int, style: int) -> Tensor:
        """Return the contents of one in the styles of one, by the decoder of the style's client."""
        client = self.clients[style]
        assert isinstance(client.method, Decodes)
        latents = Latents(self.codes[content].shared, self.codes[style].local)
        with torch.no_grad():
            return client.method.decode(client.model(), latents)

    def rows(self) -> list[Images]:
        """Return what the paper shows: images in turn, drawn again, and exchanged."""
        sheets = (
            self.x,
            (self.drawn(0, 0), self.drawn(1, 1)),
            (self.drawn(0, 1), self.drawn(1, 0)),
        )
        return [
            pixels(torch.stack([part[:SHOWN] for part in both], dim=1).flatten(0, 1))
            for both in sheets
        ]


def read(judges: Judges, x: Tensor, digit: Tensor, client: str) -> dict[str, float]:
    """Return in which share a digit is read, and a client's domain is seen."""
    said = judges.verdicts(x)
    style = judges.styles.index(judges.style_of[client])
    return {
        "digit read": round(float((said["label"] == digit.numpy()).mean()), 4),
        "in the style": round(float((said["style"] == style).mean()), 4),
    }


def main(out: Path, picture: Path) -> None:
    """Train both variants, judge all pairs, and draw the default's."""
    table: dict[str, Any] = {}
    judges: Judges | None = None
    for entry, method in ENTRIES.items():
        with tempfile.TemporaryDirectory() as folder:
            run = trained(method, Path(folder) / "run")
            opened = run.client("mnist-0").opened
            assert opened is not None
            population = opened.plan.population
            clients = {name: f"{name}-0" for pair in PAIRS for name in pair}
            judges = judges or train_judges(population, SEED, list(clients.values()))
            tests = {name: population.data(client, "test") for name, client in clients.items()}
            table["real images"] = {
                name: read(judges, data.x, data.labels, clients[name])
                for name, data in tests.items()
            }
            rows: list[Images] = []
            for names in PAIRS:
                first, second = (clients[name] for name in names)
                pair = Pair(
                    (run.client(first), run.client(second)),
                    (tests[names[0]].x, tests[names[1]].x),
                )
                told = table.setdefault(entry, {}).setdefault(" and ".join(names), {})
                for content in (0, 1):
                    for style, words in ((content, "drawn again"), (1 - content, "exchanged")):
                        shown = pair.drawn(content, style)
                        digit = tests[names[content]].labels
                        told[f"{names[content]}, {words}"] = read(
                            judges, shown, digit, clients[names[style]]
                        )
                rows += pair.rows()
            out.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")
    print_rows(rows, picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
