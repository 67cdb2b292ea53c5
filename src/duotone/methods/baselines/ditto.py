"""Ditto: one model for all, and one for each client that stays near it.

``ditto-prox`` is the same on FedProx: the shared model is trained under a pull, too.

Li, Hu, Beirami, Smith: *Ditto: Fair and Robust Federated Learning Through Personalization*, ICML
2021, Algorithm 1, which leaves open how the shared model is trained.

**Shared:** a whole model, trained exactly as in FedAvg, for ``ditto-prox`` as in FedProx (Li et
al., MLSys 2020). **Local:** a second whole model per client, BatchNorm statistics included.
**Explains:** where a client's own model has moved away from the shared one, against the pull, its
data made it.

==========  =====================================
paper       code
==========  =====================================
w^t         ``ServerState.shared``
v_k         ``ClientState.extra["own/…"]``
λ           ``lam``
h_k(v; w^t) ``proximal_loss(w^t, lam, …)``, Eq. (1)
μ           ``mu``, of ``ditto-prox``
==========  =====================================

*Members* use their own model v_k. *Newcomers* with labels start v from the shared model and train
it for one round's epochs under the same pull (few-shot). Without labels they have no model of their
own, and the shared one is not what Ditto is judged by: not served; use ``fedavg`` for that.

*Deviations.* The paper takes the two steps of a batch in turn; they do not touch one another, so
here one model passes over the same batches after the other, with the same result (but for the
random numbers of dropout). A client's v starts from the shared model at its first turn; in the
authors' code it starts from the initial network, and a member that is never drawn keeps an
untrained model. ``ditto-prox`` with ``mu = 0`` is Ditto to the bit.
"""

from __future__ import annotations

from pydantic import Field

from duotone.federation.local_training import Loss, proximal_loss, task_loss, train
from duotone.federation.method import Method
from duotone.federation.params import packed, unpacked, whole
from duotone.federation.settings import MethodSettings
from duotone.types import ClientData, ClientState, ClientUpdate, Params, RoundInfo, ServerState


class DittoConfig(MethodSettings):
    """Settings of Ditto."""

    lam: float = Field(1.0, ge=0)
    """Strength of the pull on the own model, λ (1 in the authors' code); 0 trains it alone."""


class Ditto(Method):
    """Average one model; let each client keep another one near it."""

    name = "ditto"
    title = "a shared model, and an own one for each client that is pulled towards it"
    paper = (
        "Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021"
    )
    Config = DittoConfig
    config: DittoConfig
    features_part = "local"
    newcomer_rules = ("few-shot",)

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train the shared model, and the own model under the pull."""
        start = {**server.shared, **client.local}
        model = self.load(start, info.data)
        loss = train(model, data, self.config, info, loss=self._shared_loss(start))
        update, state = self.trained(model, data, loss)
        own = self._train_own(server, client, data, info)
        return update, ClientState(state.local, packed(own, "own"))

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

    def _shared_loss(self, start: Params) -> Loss:
        """Return what the shared model is trained by, from where it starts: as in FedAvg."""
        return task_loss

    def _train_own(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> Params:
        """Take one round's steps on the own model, pulled towards the shared one as it came."""
        model = self.load(self.personal(server, client), info.data)
        anchor = {**server.shared, **client.local}
        pulled = proximal_loss(anchor, self.config.lam, self.device)  # Eq. (1)
        train(model, data, self.config, info, loss=pulled)
        return whole(model)


class DittoProxConfig(DittoConfig):
    """Settings of Ditto on FedProx."""

    mu: float = Field(0.01, ge=0)
    """Strength of the pull on the shared model, μ (paper: 0.001 to 1); 0 is Ditto."""


class DittoProx(Ditto):
    """Average one model trained by FedProx; let each client keep another one near it."""

    name = "ditto-prox"
    title = "Ditto whose shared model is trained by FedProx"
    Config = DittoProxConfig
    config: DittoProxConfig

    def _shared_loss(self, start: Params) -> Loss:
        """Return FedProx's loss: the shared model is pulled to where it starts."""
        return proximal_loss(start, self.config.mu, self.device)
