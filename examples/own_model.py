"""Train your own network: any class that gives one score per class."""

from torch import Tensor, nn

import duotone


class TinyNet(nn.Module):
    """One hidden layer; duotone finds the last linear layer by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class; pixels arrive in [0, 1]."""
        return self.head(self.body(x))


clients = {"scheme": "dirichlet", "clients": 8, "newcomers": 1}
run = duotone.run(method="fedavg", data="mini-digits", model=TinyNet, partition=clients, rounds=10)
print(run.summary["scores"]["member.accuracy"])
