"""FedProx: one model for all clients, and local training stays near it.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: *Federated Optimization in Heterogeneous Networks*,
MLSys 2020, Algorithm 2.

**Shared:** every parameter and buffer, averaged as in FedAvg. **Local:** nothing. **Explains:**
nothing about a client; the pull only keeps local training near what all agreed on.

==========  =====================================
paper       code
==========  =====================================
w^t         ``ServerState.shared``
h_k(w; w^t) ``proximal_loss(w^t, mu, …)``, Eq. (2)
μ           ``mu``
==========  =====================================

*Members and newcomers* use the shared model as it is (zero-shot).

*Deviations.* The paper lets slow clients stop early (γ-inexact solutions); here every client makes
all its epochs, so that the pull is the only difference from FedAvg, and ``mu = 0`` is FedAvg to the
bit. For the same reason clients are drawn evenly and count by their samples; the paper draws them
by their samples and counts them evenly. BatchNorm's affine parameters are pulled like weights; its
statistics are not.
"""

from __future__ import annotations

from pydantic import Field

from duotone.federation.local_training import proximal_loss, train
from duotone.federation.method import Method
from duotone.federation.settings import MethodSettings
from duotone.types import ClientData, ClientState, ClientUpdate, RoundInfo, ServerState


class FedProxConfig(MethodSettings):
    """Settings of FedProx."""

    mu: float = Field(0.01, ge=0)
    """Strength of the pull towards the shared model, μ (paper: 0.001 to 1); 0 is FedAvg."""


class FedProx(Method):
    """Average what the clients trained under a pull towards the last average."""

    name = "fedprox"
    title = "one shared model; local training is pulled towards it"
    paper = "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020"
    Config = FedProxConfig
    config: FedProxConfig

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train as in FedAvg, on the loss of Eq. (2)."""
        start = self.personal(server, client)
        model = self.load(start, info.data)
        pulled = proximal_loss(start, self.config.mu, self.device)
        loss = train(model, data, self.config, info, loss=pulled)
        return self.trained(model, data, loss)
