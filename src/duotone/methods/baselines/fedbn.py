"""FedBN: one model for all clients, except for its BatchNorm layers.

Li, Jiang, Zhang, Kamp, Dou: *FedBN: Federated Learning on Non-IID Features via Local Batch
Normalization*, ICLR 2021, Algorithm 1.

**Shared:** every layer but BatchNorm. **Local:** BatchNorm as a whole: scale, shift, running mean,
running variance and batch counter. **Explains:** a client's statistics say how its features are
shifted and scaled against others', one number per channel.

*Members* use the shared layers with their own BatchNorm. A member's BatchNorm is as old as its last
turn, and the shared layers below have changed since; ``refresh`` estimates the running statistics
anew from the member's own training inputs before they are used. What is kept stays as trained.

*Newcomers* have no BatchNorm of their own, and the mean of the members' would make the members'
local part public. They begin with the untrained scale and shift, and estimate the statistics on
their own training inputs (label-free); with labels they also train scale and shift, all other
layers fixed (few-shot). Without any samples there is nothing to estimate from: not served.

*Deviations.* In the paper all clients take part in every round, so nobody's BatchNorm is old; with
partial participation that is not so, hence ``refresh``; ``refresh = false`` is as published. The
paper weighs clients equally, here they count by their samples as everywhere. BatchNorm is
recognised by its type and not by "bn" in a name.
"""

from __future__ import annotations

from pydantic import Field
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from duotone.errors import ConfigError
from duotone.federation.local_training import refresh_statistics, train
from duotone.federation.method import Method
from duotone.federation.settings import MethodSettings
from duotone.types import ClientData, ClientState, DataInfo, RoundInfo, ServerState


class FedBNConfig(MethodSettings):
    """Settings of FedBN."""

    refresh: bool = True
    """Whether members estimate BatchNorm's statistics anew before use; false is as published."""
    newcomer_epochs: int = Field(10, ge=0)
    """Passes in which a newcomer with labels trains BatchNorm's scale and shift."""


class FedBN(Method):
    """Average everything but BatchNorm."""

    name = "fedbn"
    title = "one shared model with local BatchNorm"
    paper = (
        "Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, "
        "ICLR 2021"
    )
    Config = FedBNConfig
    config: FedBNConfig
    features_part = "local"
    newcomer_rules = ("few-shot", "label-free")
    table_model = "mlp-bn"

    def build(self, data: DataInfo) -> nn.Module:
        """Build the network; without BatchNorm this would be FedAvg under another name."""
        model = super().build(data)
        if not any(isinstance(layer, _BatchNorm) for layer in model.modules()):
            raise ConfigError(
                "The model has no BatchNorm, so FedBN would be FedAvg. Choose one that has, "
                "such as --set model=cnn-bn or model=mlp-bn, or run fedavg."
            )
        return model

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share what does not belong to a BatchNorm layer."""
        return super().is_shared(name, owner) and not isinstance(owner, _BatchNorm)

    def before_use(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Bring the statistics up to date with the latest shared layers, if settings say so."""
        if not self.config.refresh:
            return client
        model = self.load(self.personal(server, client), info.data)
        refresh_statistics(model, data.x)
        return ClientState(self.split(model)[1])

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Fit a newcomer's statistics to its inputs and, with labels, its affine parameters."""
        model = self.load(self.personal(server, self.first_state(server, info)), info.data)
        refresh_statistics(model, data.x)
        if data.y is not None:
            own = self.parameters_of(model, "local")
            epochs = self.config.newcomer_epochs
            train(model, data, self.config, info, parameters=own, epochs=epochs, phase="newcomer")
        return ClientState(self.split(model)[1])
