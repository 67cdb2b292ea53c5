"""FedDual: a shared and a local feature extractor side by side.

The thesis that FedCD and FedVC come from compares with "FedDual", personalisation by training a
global and a local feature extractor, after Pillutla, Malik, Mohamed, Rabbat, Sanjabi, Xiao:
*Federated Learning with Partial Model Personalization*, ICML 2022. The name does not occur in that
paper or its code; this is the reading: two copies of the network without its last layer, their
features joined, one linear head on both, trained together (FedSim).

**Shared:** one extractor and the head, BatchNorm statistics included. **Local:** the other
extractor, BatchNorm statistics included. **Explains:** the only baseline whose *representation* has
two parts; but nothing forces them to say different things, and the local one may copy the shared.

==========  =====================================
paper       code
==========  =====================================
u           ``ServerState.shared``: ``shared.…``, ``head.…``
v_i         ``ClientState.local``: ``local.…``
==========  =====================================

*Members* use both extractors. *Newcomers* with labels train a local extractor of their own beside
the fixed shared one, for as many passes as a member has on average by that round (few-shot).
Without labels they are not served: the head expects both halves.

*Deviations.* All of it is an interpretation, since no source describes the network.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.federation.method import Method
from duotone.federation.newcomers import catch_up
from duotone.networks.reading import find_head, head_inputs, head_name
from duotone.types import ClientData, ClientState, DataInfo, Latents, RoundInfo, ServerState


class TwoExtractors(nn.Module):
    """Two networks without their last layer, and one head on the features of both.

    Args:
        shared: The network whose features all clients compute alike.
        local: The network whose features are a client's own.
        head: Name of the last layer of both.
    """

    def __init__(self, shared: nn.Module, local: nn.Module, head: str | None = None) -> None:
        super().__init__()
        last = find_head(shared, head)
        if not isinstance(last, nn.Linear):
            raise ConfigError(
                f"FedDual joins features under a linear head, but the model's is a "
                f"{type(last).__name__}; name a linear layer with --set head=NAME."
            )
        self.last = str(head_name(shared, head))
        if not self.last:
            raise ConfigError("FedDual needs layers below the head; choose a model that has some.")
        for network in (shared, local):
            network.set_submodule(self.last, nn.Identity())
        self.shared = shared
        self.local = local
        self.head = nn.Linear(2 * last.in_features, last.out_features)

    def features(self, network: nn.Module, x: Tensor) -> Tensor:
        """Return what the last layer of one of the networks would be given."""
        return head_inputs(network, network.get_submodule(self.last), x)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class, or one number per target."""
        both = [self.features(network, x) for network in (self.shared, self.local)]
        scores: Tensor = self.head(torch.cat(both, dim=1))
        return scores


class FedDual(Method):
    """Average one extractor and the head; keep the other extractor."""

    name = "feddual"
    title = "a shared and a local feature extractor under one shared head"
    paper = (
        "Pillutla et al., Federated Learning with Partial Model Personalization, ICML 2022; named "
        "FedDual by the thesis of FedCD and FedVC"
    )
    newcomer_rules = ("few-shot",)

    def build(self, data: DataInfo) -> TwoExtractors:
        """Build the network twice and join the two."""
        return TwoExtractors(super().build(data), super().build(data), self.config.head)

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share one extractor and the head."""
        return super().is_shared(name, owner) and not name.startswith("local.")

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Train a newcomer's extractor for as long as a member's by now."""
        return catch_up(self, server, self.first_state(server, info), data, info)

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return the features of both extractors."""
        assert isinstance(model, TwoExtractors)
        return Latents(model.features(model.shared, x), model.features(model.local, x))
