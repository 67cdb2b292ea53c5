"""Is f(g·x) = g·f(x) for permutations of colour, as in section 5 of content–style FL?

python -m studies.equivariance docs/results/content-style-equivariance.json

On coloured digits, for the five permutations g of the three colour channels. A representation that
is disentangled does not change in its content, and its style changes by an action of g that is the
same for all images. So the first is measured by how far content moves, as a share of how far
contents of two images are apart (0 is invariant, 1 is another image). The second by R² of a linear
map from styles of images to styles of permuted images, fitted to some images and scored on others
(1 is equivariant), beside R² of leaving styles as they are. Maps of two permutations in a row
should be the map of both: R² of that, too. Pictures: the error of x's content in the style of g·x
against g·x, as a share of the error of x drawn again. Results are added to what the file holds.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import duotone
from duotone.methods.content_style.content_networks import ContentStyle

ENTRIES: dict[str, dict[str, Any]] = {
    "as printed": {"name": "content-style", "variant": "paper", "epochs": 1, "lr_decay": 1.0},
    "content-style": {"name": "content-style"},
}
SEEDS, ROUNDS, IMAGES = (1, 2), 10, 300
CLIENTS = ("told-0", "told-1")
ORDERS = [order for order in permutations(range(3)) if order != (0, 1, 2)]


def permuted(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """Return images whose colour channels are exchanged: g·x."""
    return x[:, list(order)].contiguous()


def moved(before: Tensor, after: Tensor) -> float:
    """Return how far codes move, as a share of how far codes of two samples are apart."""
    apart = (before - before.roll(1, 0)).square().sum()
    return float((after - before).square().sum() / apart)


def r2(told: Tensor, truth: Tensor) -> float:
    """Return the share of the variance of codes that is told."""
    spread = (truth - truth.mean(dim=0)).square().sum()
    return float(1 - (told - truth).square().sum() / spread)


def action(before: Tensor, after: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the affine map that turns codes before into codes after, by least squares."""

    def with_one(codes: Tensor) -> Tensor:
        return torch.cat([codes, torch.ones(len(codes), 1, dtype=codes.dtype)], dim=1)

    solved = torch.linalg.lstsq(with_one(before.double()), after.double(), driver="gelsd")
    return lambda codes: with_one(codes.double()) @ solved.solution


@torch.no_grad()
def measured(model: ContentStyle, old: Tensor, new: Tensor) -> dict[str, float]:
    """Return everything that is asked of one client's model; old images fit maps, new score."""
    styles = {order: (model.style(permuted(old, order))) for order in ORDERS}
    acts = {order: action(model.style(old), after) for order, after in styles.items()}
    content, style = model.content(new), model.style(new)
    again = (model.draw(content, style) - new).square().mean()
    found: dict[str, list[float]] = {}
    for order in ORDERS:
        seen = permuted(new, order)
        after = model.style(seen)
        drawn = (model.draw(content, after) - seen).square().mean()
        kept = model.classify(content).argmax(1) == model(seen).argmax(1)
        values = {
            "content moves": moved(content, model.content(seen)),
            "same prediction": float(kept.float().mean()),
            "style, R² of an action": r2(acts[order](style), after),
            "style, R² of no action": r2(style, after),
            "picture error": float(drawn / again),
        }
        for other in ORDERS:
            both = tuple(order[i] for i in other)
            if both in acts:  # together they change something
                two = acts[other](acts[order](style))
                truth = model.style(permuted(new, both))
                found.setdefault("style, R² of two actions", []).append(r2(two, truth))
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    return {name: round(sum(some) / len(some), 4) for name, some in found.items()}


def main(out: Path) -> None:
    """Train both variants with each seed; measure two members, trained and untrained."""
    table: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    for seed in SEEDS:
        for entry, method in ENTRIES.items():
            if f"seed{seed}" in table.get(entry, {}):
                continue
            with tempfile.TemporaryDirectory() as folder:
                run = duotone.run(
                    data="coloured-digits",
                    method=method,
                    rounds=ROUNDS,
                    evaluate_every=ROUNDS,
                    latents=0,
                    curve=[],
                    backend="serial",
                    seed=seed,
                    partition={
                        "scheme": "natural",
                        "newcomers": ["misled-0", "new-0"],
                        "max_train": IMAGES,
                        "max_test": 250,
                    },
                    out=Path(folder) / "run",
                )
                told = table.setdefault(entry, {}).setdefault(f"seed{seed}", {})
                for name in CLIENTS:
                    client = run.client(name)
                    assert client.opened is not None
                    population = client.opened.plan.population
                    splits = (population.data(name).x, population.data(name, "test").x)
                    model = client.model()
                    assert isinstance(model, ContentStyle)
                    told[name] = measured(model, *splits)
                untrained = client.method.build(population.info).eval()
                assert isinstance(untrained, ContentStyle)
                told["untrained"] = measured(untrained, *splits)
            out.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
