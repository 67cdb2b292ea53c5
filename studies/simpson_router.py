"""Appendix C.1 of PaDPaF: one line for all clients, against a line each with a router.

python -m studies.simpson_router docs/results/simpson-router.json

On Simpson's data, of the paper's text and of its authors' code: one line for everybody; a line for
each client, then frozen, with a linear router that says how much each of them counts. A router that
is given x alone is what can be used. One that is given (x, y), as in the authors' code, has seen
what is asked for. Both are trained for 50 passes in batches of 10, as printed, and for 500.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from duotone.data import load_dataset
from duotone.federation.local_training import batches

SEEDS = (1, 2, 3)
EPOCHS, LONG, BATCH = 50, 500, 10
"""Passes and batch; the first two as printed."""
LR, BETAS = 0.05, (0.5, 0.9)
"""Of Adam. The decays are those of all the paper's optimisers; it has no step size for this one."""


def fitted(
    parameters: Sequence[Tensor], loss: Callable[[Tensor], Tensor], count: int, epochs: int
) -> None:
    """Minimise a loss of some rows."""
    optimizer = torch.optim.Adam(parameters, LR, BETAS)
    generator = torch.Generator().manual_seed(int(torch.randint(2**31, ())))
    for _ in range(epochs):
        for rows in batches(count, BATCH, generator):
            optimizer.zero_grad()
            loss(rows).backward()
            optimizer.step()


def routed(shares: Tensor, predictions: Tensor) -> Tensor:
    """Return what lines predict together, each counting by its share of a sample."""
    return (shares * predictions).sum(dim=1)


def experiment(name: str, seed: int) -> dict[str, float]:
    """Return the squared errors of everything on one data set, on training and test samples."""
    torch.manual_seed(seed)
    data = load_dataset(name)
    assert data.client is not None
    x, y = torch.from_numpy(data.x).float(), torch.from_numpy(data.y).float()
    owner = torch.tensor([int(str(client)[1:]) - 1 for client in data.client])
    old, new = (torch.from_numpy(rows) for rows in (data.train_rows, data.test_rows))
    found: dict[str, float] = {}

    def told(what: str, predicted: Tensor) -> None:
        for split, rows in (("train", old), ("test", new)):
            error = (predicted[rows] - y[rows]).square().mean()
            found[f"{what}, {split}"] = round(float(error), 5)

    pooled = nn.Linear(1, 1)
    fitted(
        [*pooled.parameters()],
        lambda rows: (pooled(x[old][rows]).squeeze(1) - y[old][rows]).square().mean(),
        len(old),
        EPOCHS,
    )
    lines = [nn.Linear(1, 1) for _ in range(int(owner.max()) + 1)]
    for number, line in enumerate(lines):
        own = old[owner[old] == number]
        fitted(
            [*line.parameters()],
            lambda rows, own=own, line=line: (
                (line(x[own][rows]).squeeze(1) - y[own][rows]).square().mean()
            ),
            len(own),
            EPOCHS,
        )
    with torch.no_grad():
        told("one line", pooled(x).squeeze(1))
        predictions = torch.cat([line(x) for line in lines], dim=1)
        told("a line each, client known", predictions.gather(1, owner[:, None]).squeeze(1))
    for words, given in (("x", x), ("x and y", torch.cat([x, y[:, None]], dim=1))):
        for epochs in (EPOCHS, LONG):
            router = nn.Linear(given.shape[1], len(lines))
            fitted(
                [*router.parameters()],
                lambda rows, given=given, router=router: (
                    routed(router(given[old][rows]).softmax(1), predictions[old][rows])
                    .sub(y[old][rows])
                    .square()
                    .mean()
                ),
                len(old),
                epochs,
            )
            with torch.no_grad():
                shares = router(given).softmax(1)
                told(f"routed by {words}, {epochs} passes", routed(shares, predictions))
    return found


if __name__ == "__main__":
    table = {
        name: {f"seed{seed}": experiment(name, seed) for seed in SEEDS}
        for name in ("simpson", "simpson-repo")
    }
    Path(sys.argv[1]).write_text(json.dumps(table, indent=1) + "\n")
