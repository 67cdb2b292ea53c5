"""FedPer: shared layers below, each client's own layer on top.

Arivazhagan, Aggarwal, Singh, Choudhary: *Federated Learning with Personalization Layers*, 2019,
Algorithms 1 and 2.

**Shared:** all layers but the last (the base layers), BatchNorm statistics included. **Local:** the
last layer (the personalisation layer). **Explains:** all clients have the same features; how a
client weighs them for each class is its own.

==========  =====================================
paper       code
==========  =====================================
W_B         ``ServerState.shared``
W_P         ``ClientState.local``
==========  =====================================

*Members* use the shared layers under their own head. *Newcomers* with labels fit a head of their
own on the shared features (few-shot); the paper has no newcomers. Without labels there is no head
to give them: not served.

*Deviations.* One personalisation layer, the last; the paper also tries whole residual blocks.
"""

from __future__ import annotations

from pydantic import Field
from torch import nn

from duotone.federation.local_training import train_head
from duotone.federation.method import Method
from duotone.federation.settings import MethodSettings
from duotone.networks.reading import find_head
from duotone.types import ClientData, ClientState, RoundInfo, ServerState


class FedPerConfig(MethodSettings):
    """Settings of FedPer."""

    head_epochs: int = Field(10, ge=1)
    """Passes in which a newcomer fits its head."""


class FedPer(Method):
    """Average all layers but the last; train everything together."""

    name = "fedper"
    title = "shared features, a local head, trained together"
    paper = "Arivazhagan et al., Federated Learning with Personalization Layers, 2019"
    Config = FedPerConfig
    config: FedPerConfig
    newcomer_rules = ("few-shot",)

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share what is not in the head."""
        return super().is_shared(name, owner) and not self.is_in_head(name)

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Fit a newcomer's head on the shared features."""
        state = self.first_state(server, info)
        model = self.load(self.personal(server, state), info.data)
        head = find_head(model, self.config.head)
        epochs = self.config.head_epochs
        train_head(model, head, data, self.config, info, epochs=epochs, phase="newcomer")
        return ClientState(self.split(model)[1])
