"""PerCNN: each client's own convolutions under shared fully connected layers.

The thesis that FedCD and FedVC come from compares with "PerCNN", personalisation by training local
feature extractors, after Pillutla, Malik, Mohamed, Rabbat, Sanjabi, Xiao: *Federated Learning with
Partial Model Personalization*, ICML 2022. The name does not occur in that paper or its code; this
is its input-side personalisation with the alternating algorithm FedAlt.

**Shared:** the fully connected layers and their BatchNorm. **Local:** the feature extractor: the
convolutions and everything below the first fully connected layer, BatchNorm statistics included; in
a network without convolutions, everything below the head. **Explains:** a client's own
convolutions say how its inputs differ from others'.

==========  =====================================
paper       code
==========  =====================================
u           ``ServerState.shared``
v_i         ``ClientState.local``
τ_u, τ_v    ``epochs``
==========  =====================================

In a round a client first trains its extractor under the layers it received, then those layers on
its new extractor, ``epochs`` passes each.

*Members* use their own extractor under the shared layers. *Newcomers* with labels train an
extractor of their own under the fixed shared layers, for as many passes as a member has on average
by that round (few-shot). Without labels they are not served.

*Deviations.* The paper starts from a trained FedAvg model; here training starts from scratch like
every other method.
"""

from __future__ import annotations

from torch import nn
from torch.nn.modules.conv import _ConvNd

from duotone.federation.local_training import train
from duotone.federation.method import Method
from duotone.federation.newcomers import catch_up
from duotone.networks.reading import head_name
from duotone.types import (
    ClientData,
    ClientState,
    ClientUpdate,
    DataInfo,
    RoundInfo,
    ServerState,
)


class PerCNN(Method):
    """Average the fully connected layers; train extractor and layers in turn."""

    name = "percnn"
    title = "local convolutions under shared fully connected layers, trained in turn"
    paper = (
        "Pillutla et al., Federated Learning with Partial Model Personalization, ICML 2022; named "
        "PerCNN by the thesis of FedCD and FedVC"
    )
    features_part = "local"  # they begin in convolutions no two clients share
    newcomer_rules = ("few-shot",)
    _shared_layers: tuple[str, ...] = ("head.",)

    def build(self, data: DataInfo) -> nn.Module:
        """Build the network, and see where its extractor ends."""
        model = super().build(data)
        self._shared_layers = layers_above_extractor(model, self.config.head)
        return model

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share what is above the extractor."""
        return super().is_shared(name, owner) and name.startswith(self._shared_layers)

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train the local part, then the shared one (FedAlt)."""
        model = self.load(self.personal(server, client), info.data)
        own, common = (self.parameters_of(model, part) for part in ("local", "shared"))
        train(model, data, self.config, info, parameters=own, phase="local")
        loss = train(model, data, self.config, info, parameters=common, phase="shared")
        return self.trained(model, data, loss)

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Train a newcomer's extractor for as long as a member's by now."""
        return catch_up(self, server, self.first_state(server, info), data, info)


def layers_above_extractor(model: nn.Module, head: str | None = None) -> tuple[str, ...]:
    """Return the starts of the tensor names above a network's feature extractor.

    The extractor ends before the first fully connected layer; without convolutions, before the
    head. Layers count in the order in which the network holds them.
    """
    modules = dict(model.named_modules())
    is_convolutional = any(isinstance(module, _ConvNd) for module in modules.values())
    last = head_name(model, head)
    linear = [name for name, module in modules.items() if isinstance(module, nn.Linear)]
    first = linear[0] if is_convolutional and linear else last
    if first is None:
        return ("head.",)
    if not first:
        return ("",)  # the model is nothing but its head
    names = list(modules)
    return tuple(f"{name}." for name in names[names.index(first) :])
