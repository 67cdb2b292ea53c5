"""FedRep: a shared representation, each client's own head, and never both at once.

Collins, Hassani, Mokhtari, Shakkottai: *Exploiting Shared Representations for Personalized
Federated Learning*, ICML 2021, Algorithm 1.

**Shared:** the representation φ, all layers but the last, BatchNorm statistics included. **Local:**
the head h_i. **Explains:** all clients have the same features; how a client weighs them for each
class is its own.

==========  =====================================
paper       code
==========  =====================================
φ           ``ServerState.shared``
h_i         ``ClientState.local``
τ           ``head_epochs``
==========  =====================================

In a round a client first fits its head to the representation it received, then trains the
representation under that head; the head does not change again before it is used.

*Members* fit their head to the latest representation before they use it, as the authors' code does
in its last round. *Newcomers* with labels fit a head of their own in the same way (few-shot).
Without labels there is no head to give them: not served.

*Deviations.* The representation trains for ``epochs`` passes as in every other method here, not
for one. While the head trains, the layers below stay fixed with their BatchNorm statistics (the
authors' networks have none). With nothing local it is FedAvg to the bit.
"""

from __future__ import annotations

from pydantic import Field
from torch import nn

from duotone.federation.local_training import train, train_head
from duotone.federation.method import Method
from duotone.federation.settings import MethodSettings
from duotone.networks.reading import find_head
from duotone.types import ClientData, ClientState, ClientUpdate, RoundInfo, ServerState


class FedRepConfig(MethodSettings):
    """Settings of FedRep."""

    head_epochs: int = Field(10, ge=1)
    """Passes for the head, in a round and before use (10 in the authors' code); they are cheap."""


class FedRep(Method):
    """Average the representation; fit local heads to it."""

    name = "fedrep"
    title = "shared features, a local head, trained in turn"
    paper = (
        "Collins et al., Exploiting Shared Representations for Personalized Federated Learning, "
        "ICML 2021"
    )
    Config = FedRepConfig
    config: FedRepConfig
    newcomer_rules = ("few-shot",)

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share what is not in the head."""
        return super().is_shared(name, owner) and not self.is_in_head(name)

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Fit the head, then train the representation under it."""
        model = self.load(self.personal(server, client), info.data)
        self._fit_head(model, data, info)
        representation = self.parameters_of(model, "shared")
        loss = train(model, data, self.config, info, parameters=representation)
        return self.trained(model, data, loss)

    def before_use(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Fit the head to the latest representation."""
        model = self.load(self.personal(server, client), info.data)
        self._fit_head(model, data, info)
        return ClientState(self.split(model)[1])

    def _fit_head(self, model: nn.Module, data: ClientData, info: RoundInfo) -> None:
        if self.parameters_of(model, "local"):
            head = find_head(model, self.config.head)
            epochs = self.config.head_epochs
            train_head(model, head, data, self.config, info, epochs=epochs, phase="head")
