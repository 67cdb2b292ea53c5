"""Ditto on FedProx: the shared model is trained under a pull, too.

Li, Hu, Beirami, Smith: *Ditto*, ICML 2021, whose Algorithm 1 leaves open how the shared model is
trained; here by FedProx (Li et al., MLSys 2020) instead of FedAvg.

**Shared:** a whole model, trained as in FedProx. **Local:** a second whole model per client,
BatchNorm statistics included. **Explains:** as Ditto, where a client's own model has moved away
from the shared one against the pull.

==========  =====================================
paper       code
==========  =====================================
w^t         ``ServerState.shared``
v_k         ``ClientState.extra["own/…"]``
λ           ``lam``
μ           ``mu``
==========  =====================================

*Members* use their own model v_k. *Newcomers* with labels start v from the shared model and train
it for one round's epochs under the same pull (few-shot); without labels they are not served.

*Deviations.* Those of ``ditto`` and ``fedprox``. With ``mu = 0`` it is Ditto to the bit.
"""

from __future__ import annotations

from pydantic import Field

from duotone.federation.local import proximal_loss, train
from duotone.federation.method import Method, MethodSettings, packed, unpacked
from duotone.types import ClientData, ClientState, ClientUpdate, Params, RoundInfo, ServerState


class DittoProxConfig(MethodSettings):
    """Settings of Ditto on FedProx."""

    lam: float = Field(1.0, ge=0)
    """Strength of the pull on the own model, λ (1 in the authors' code); 0 trains it alone."""
    mu: float = Field(0.01, ge=0)
    """Strength of the pull on the shared model, μ (paper: 0.001 to 1); 0 is Ditto."""


class DittoProx(Method):
    """Average one model trained by FedProx; let each client keep another one near it."""

    name = "ditto-prox"
    title = "Ditto whose shared model is trained by FedProx"
    paper = (
        "Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021"
    )
    Config = DittoProxConfig
    config: DittoProxConfig
    features_part = "local"
    newcomer_rules = ("few-shot",)

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train the shared model as FedProx does, and the own model under its own pull."""
        start = {**server.shared, **client.local}
        model = self.load(start, info.data)
        pulled = proximal_loss(start, self.config.mu, self.device)
        loss = train(model, data, self.config, info, loss=pulled)
        shared, local = self.split(model)
        update = ClientUpdate(data.client, shared, len(data), metrics={"train_loss": loss})
        own = self._train_own(server, client, data, info)
        return update, ClientState(local, packed(own, "own"))

    def first_state(self, server: ServerState, info: RoundInfo) -> ClientState:
        """Start the own model from the shared one."""
        local = super().first_state(server, info).local
        return ClientState(local, packed({**server.shared, **local}, "own"))

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Train a newcomer's own model beside the shared one."""
        first = self.first_state(server, info)
        own = self._train_own(server, first, data, info)
        return ClientState(first.local, packed(own, "own"))

    def personal(self, server: ServerState, client: ClientState) -> Params:
        """Return the client's own model; the shared one only trains it."""
        return unpacked(client.extra, "own")

    def _train_own(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> Params:
        """Take one round's steps on the own model, pulled towards the shared one as it came."""
        model = self.load(self.personal(server, client), info.data)
        anchor = {**server.shared, **client.local}
        pulled = proximal_loss(anchor, self.config.lam, self.device)  # Eq. (1)
        train(model, data, self.config, info, loss=pulled)
        shared, local = self.split(model)
        return {**shared, **local}
