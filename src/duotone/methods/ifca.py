"""IFCA: several shared models, and each client takes the one that fits it best.

Ghosh, Chung, Yin, Ramchandran: *An Efficient Framework for Clustered Federated Learning*, NeurIPS
2020, Algorithm 1, option II (model averaging).

**Shared:** ``groups`` whole models, BatchNorm statistics included; every client receives all of
them. **Local:** nothing but the client's choice, which it tells the server together with the model
it trained. **Explains:** which clients are alike: those that chose the same model.

==========  =====================================
paper       code
==========  =====================================
θ_j         ``ServerState.shared["j/…"]``
k           ``groups``
ĵ           ``ClientUpdate.extra["group"]``, ``choose_group``
==========  =====================================

*Members* take the model with the lowest loss on their own labelled training samples, anew in every
round and before use. *Newcomers* with labels do the same and train nothing (few-shot); without
labels there is no loss to choose by: not served.

*Deviations.* A group that nobody chose keeps its model; the paper's listing would average nothing.
"""

from __future__ import annotations

import torch
from pydantic import Field

from duotone.federation.aggregate import weighted_mean
from duotone.federation.local import mean_loss, train
from duotone.federation.method import Method, MethodSettings, packed, unpacked
from duotone.types import ClientData, ClientState, ClientUpdate, Params, RoundInfo, ServerState


class IFCAConfig(MethodSettings):
    """Settings of IFCA."""

    groups: int = Field(4, ge=1)
    """Number of shared models, k; 1 is FedAvg."""


class IFCA(Method):
    """Average clients that chose the same model."""

    name = "ifca"
    title = "several shared models; each client takes the one that fits it best"
    paper = "Ghosh et al., An Efficient Framework for Clustered Federated Learning, NeurIPS 2020"
    Config = IFCAConfig
    config: IFCAConfig
    newcomer_rules = ("few-shot",)

    def start(self, info: RoundInfo) -> ServerState:
        """Return one freshly initialised network per group, each from its own random start."""
        shared: dict[str, torch.Tensor] = {}
        for group in range(self.config.groups):
            # The first group begins where every other method does.
            start, _ = self.initial(info, "group", group) if group else self.initial(info)
            shared |= packed(start, str(group))
        return ServerState(shared)

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Choose a model, train it, and say which one it was."""
        chosen = self.adapt(server, client, data, info)
        model = self.load(self.personal(server, chosen), info.data)
        loss = train(model, data, self.config, info)
        shared, local = self.split(model)
        update = ClientUpdate(
            data.client, shared, len(data), dict(chosen.extra), {"train_loss": loss}
        )
        return update, ClientState(local, chosen.extra)

    def server_update(
        self, server: ServerState, updates: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Average each group's updates among themselves."""
        shared = dict(server.shared)
        for group in range(self.config.groups):
            of_group = [update for update in updates if int(update.extra["group"]) == group]
            if of_group:
                shared |= packed(weighted_mean(of_group), str(group))
        return ServerState(shared, server.extra)

    def sent(self, server: ServerState, update: ClientUpdate) -> Params:
        """Return the model of the group an update names."""
        group = update.extra.get("group", torch.tensor(-1))
        return unpacked(server.shared, str(int(group)))

    def adapt(
        self,
        server: ServerState,
        client: ClientState | None,
        data: ClientData | None,
        info: RoundInfo,
    ) -> ClientState:
        """Choose the model with the lowest loss on labelled samples; without them, the first."""
        state = super().adapt(server, client, data, info)
        group = int(state.extra.get("group", 0))
        if data is not None and data.y is not None:
            group = self.choose_group(server, state, data, info)
        return ClientState(state.local, {"group": torch.tensor(group)})

    def choose_group(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> int:
        """Return the group whose model has the lowest loss on a client's samples."""
        losses = []
        for group in range(self.config.groups):
            params = {**unpacked(server.shared, str(group)), **client.local}
            losses.append(mean_loss(self.load(params, info.data), data))
        return min(range(self.config.groups), key=losses.__getitem__)

    def personal(self, server: ServerState, client: ClientState) -> Params:
        """Return the model of the client's group."""
        group = str(int(client.extra["group"]))
        return {**unpacked(server.shared, group), **client.local}
