"""Local: every client on its own.

No federation at all: each client trains the same network from the same start on its own samples.
What a federated method gains is measured from here.

**Shared:** nothing. **Local:** every parameter and buffer. **Explains:** nothing is common, so
nothing can be compared.

*Members* keep their model between the rounds in which they are drawn, so a member that is drawn k
times has trained k times ``epochs`` passes. *Newcomers* train a model of their own on their own
labelled samples, for as many passes as a member has on average by that round (few-shot); without
labels there is no model to give them, and the method says so.
"""

from __future__ import annotations

from torch import nn

from duotone.federation.local_training import train, turns_so_far
from duotone.federation.method import Method
from duotone.types import ClientData, ClientState, RoundInfo, ServerState


class Local(Method):
    """Train alone."""

    name = "local"
    title = "every client trains alone, nothing is shared"
    paper = "baseline without federation"
    features_part = "local"
    newcomer_rules = ("few-shot",)

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share nothing."""
        return False

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Train a newcomer's model for as long as a member's by now."""
        model = self.load(self.first_state(server, info).local, info.data)
        for drawn in turns_so_far(info):
            train(model, data, self.config, drawn)
        return ClientState(self.split(model)[1])
