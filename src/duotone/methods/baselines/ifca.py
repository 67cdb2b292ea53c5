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
The paper starts the groups from random networks and tries several times. Random deep networks are
about equally bad for all clients: the one that is best for the first is trained, and from then
on best for all (measured on ``planted``: one group takes all clients, four seeds out of four). So
by default all groups are one for ``warm_rounds`` rounds, as in FedAvg; then the clients of that
round are split by the direction in which they moved the model (k-means on the unit sphere), and
from there on it is the paper's algorithm. ``warm_rounds = 0`` is the published start.
"""

from __future__ import annotations

import math

import torch
from pydantic import Field
from sklearn.cluster import KMeans
from torch import Tensor
from torch.nn import functional

from duotone.federation.local_training import mean_loss, train
from duotone.federation.method import Method
from duotone.federation.params import packed, unpacked
from duotone.federation.robust import shortage
from duotone.federation.settings import MethodSettings
from duotone.seeding import derive
from duotone.types import (
    ClientData,
    ClientState,
    ClientUpdate,
    Form,
    Params,
    RoundInfo,
    ServerState,
)


class IFCAConfig(MethodSettings):
    """Settings of IFCA."""

    groups: int = Field(4, ge=1, le=1000)
    """Number of shared models, k; 1 is FedAvg."""
    warm_rounds: int = Field(5, ge=0)
    """Rounds as one group before the split; 0 starts each group at random instead (paper)."""


def split_by_direction(moves: Tensor, groups: int, info: RoundInfo) -> list[int]:
    """Return a group for each of some clients' moves, so that moves of a group point alike.

    Args:
        moves: One row per client: what it changed.
        groups: How many groups to make; fewer if there are fewer clients.
        info: The source of the random starts of k-means.
    """
    directions = functional.normalize(moves.double(), dim=1)
    seed = derive(info.seed, "split") % 2**32
    means = KMeans(min(groups, len(moves)), n_init=20, random_state=seed)
    return [int(group) for group in means.fit_predict(directions.numpy())]


class IFCA(Method):
    """Average clients that chose the same model."""

    name = "ifca"
    title = "several shared models; each client takes the one that fits it best"
    paper = "Ghosh et al., An Efficient Framework for Clustered Federated Learning, NeurIPS 2020"
    Config = IFCAConfig
    config: IFCAConfig
    told = ("train_loss", "group")
    features_part = "local"  # two groups compute features with different models
    newcomer_rules = ("few-shot",)

    def start(self, info: RoundInfo) -> ServerState:
        """Return one freshly initialised network per group."""
        shared: dict[str, Tensor] = {}
        for group in range(self.config.groups):
            # The first group begins where every other method does.
            is_other = group > 0 and self.config.warm_rounds == 0
            start, _ = self.initial(info, "group", group) if is_other else self.initial(info)
            shared |= packed(start, str(group))
        return ServerState(shared)

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Choose a model, train it, and say which one it was."""
        chosen = self.before_use(server, client, data, info)
        model = self.load(self.personal(server, chosen), info.data)
        loss = train(model, data, self.config, info)
        extra = chosen.extra
        group = {"group": float(extra["group"])}
        return self.trained(model, data, loss, sent=extra, kept=extra, metrics=group)

    def server_update(
        self, server: ServerState, updates: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Average each group's updates among themselves."""
        chosen = [int(update.extra["group"]) for update in updates]
        if info.round == self.config.warm_rounds:
            parameters = [name for name, _ in self.module(info.data).named_parameters()]
            first = unpacked(server.shared, "0")
            moves = [
                torch.cat([(u.shared[n] - first[n]).flatten() for n in parameters]) for u in updates
            ]
            chosen = split_by_direction(torch.stack(moves), self.config.groups, info)
        shared, extra = dict(server.shared), dict(server.extra)
        rule = self.config.aggregate
        for group in range(self.config.groups):
            of_group = [u for u, choice in zip(updates, chosen, strict=True) if choice == group]
            if info.round < self.config.warm_rounds:
                of_group = updates
            # Among too few, nobody can tell the hostile ones: such a group keeps its model.
            if of_group and not shortage(rule, len(of_group), self.config.hostile):
                old = ServerState(*(unpacked(p, str(group)) for p in (server.shared, server.extra)))
                new = super().server_update(old, of_group, info)
                shared |= packed(new.shared, str(group))
                extra |= packed(new.extra, str(group))
        return ServerState(shared, extra)

    def extra_form(self, server: ServerState, info: RoundInfo) -> dict[str, Form]:
        """Declare the group that a client chose."""
        return {"group": Form((), torch.int64)}

    def sent(self, server: ServerState, update: ClientUpdate) -> Params:
        """Return the model of the group an update names; nothing if there is no such group."""
        return unpacked(server.shared, str(int(update.extra["group"])))

    def first_state(self, server: ServerState, info: RoundInfo) -> ClientState:
        """Begin with the first model."""
        return ClientState(super().first_state(server, info).local, {"group": torch.tensor(0)})

    def before_use(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Choose the model with the lowest loss on labelled samples; without them, keep it."""
        if data.y is None:
            return client
        group = self.choose_group(server, client, data, info)
        return ClientState(client.local, {"group": torch.tensor(group)})

    def choose_group(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> int:
        """Return the group whose model has the lowest loss on a client's samples."""
        losses = []
        for group in range(self.config.groups):
            params = {**unpacked(server.shared, str(group)), **client.local}
            loss = mean_loss(self.load(params, info.data), data)
            losses.append(math.inf if math.isnan(loss) else loss)
        return losses.index(min(losses))

    def personal(self, server: ServerState, client: ClientState) -> Params:
        """Return the model of the client's group."""
        group = str(int(client.extra["group"]))
        return {**unpacked(server.shared, group), **client.local}
