"""Small federations that every test can afford."""

from __future__ import annotations

import numpy as np

from duotone.data.dataset import Dataset
from duotone.partition.partition import Holding, Partition, Population
from duotone.runs import Run
from duotone.types import ServerState


def server_of(run: Run) -> ServerState:
    """Return the server's state after a run's last committed round."""
    with run.folder.reading() as last:
        return last.server()


def make_population(
    *, members: int = 3, newcomers: int = 1, samples: int = 24, size: int = 8, seed: int = 0
) -> Population:
    """Return clients whose images can be told apart: class k is bright in quarter k."""
    rng = np.random.default_rng(seed)
    clients = members + newcomers
    per_client = samples + 8 + 12
    y = rng.integers(0, 4, clients * per_client)
    x = rng.integers(0, 90, (len(y), size, size))
    half = size // 2
    for row, label in enumerate(y):
        top, left = divmod(int(label), 2)
        x[row, top * half : (top + 1) * half, left * half : (left + 1) * half] += 150
    is_test = np.tile(np.arange(per_client) >= samples + 8, clients)
    x = x.astype(np.uint8)
    dataset = Dataset.from_arrays("quarters", x[~is_test], y[~is_test], x[is_test], y[is_test])
    holdings = []
    for i in range(clients):
        train = np.arange(i * (samples + 8), i * (samples + 8) + samples)
        val = np.arange(train[-1] + 1, train[-1] + 9)
        first_test = clients * (samples + 8) + i * 12
        kind = "member" if i < members else "newcomer"
        test = np.arange(first_test, first_test + 12)
        holdings.append(Holding(f"c{i}", f"g{i % 2}", kind, train, val, test))
    return Population(dataset, Partition.from_holdings(holdings))


def two_worlds(mixed: float = 0.5) -> Population:
    """Return six members of two domains that lie apart, a newcomer of each, and a mixed one.

    Args:
        mixed: Share of the mixed newcomer's samples that is of domain b.
    """
    rng = np.random.default_rng(0)
    who = [(f"{name}{i}", name, "member", float(name == "b")) for name in "ab" for i in range(3)]
    who += [("na", "a", "newcomer", 0.0), ("nb", "b", "newcomer", 1.0)]
    who += [("mix", "mixed", "newcomer", mixed)]
    sizes = {"train": 80, "val": 8, "test": 20}
    each = sum(sizes.values())
    share = np.concatenate([np.full(each, of_b) for *_, of_b in who])
    place = np.concatenate([np.linspace(0, 1, size, endpoint=False) for size in sizes.values()])
    in_b = np.tile(place, len(who)) < share
    y = rng.integers(0, 2, len(share))
    x = rng.normal(size=(len(share), 6)).astype(np.float32)
    x[:, 0] += 4 * in_b
    x[:, 1] += 3 * y
    is_test = np.tile(np.arange(each) >= each - sizes["test"], len(who))
    domain = np.where(in_b, "b", "a")
    dataset = Dataset("worlds", x, y, is_test, classes=2, domain=domain)
    ends = np.cumsum(list(sizes.values()))[:-1]
    holdings = [
        Holding(name, group, kind, *np.split(np.arange(i * each, (i + 1) * each), ends))
        for i, (name, group, kind, _) in enumerate(who)
    ]
    return Population(dataset, Partition.from_holdings(holdings))
