"""Private bias: one shared model, to whose output each client adds its own constant.

Almansoori, Horváth, Takáč: *PaDPaF: Partial Disentanglement with Partially-Federated GANs*, TMLR
2024, section 5 and appendix C.1, *Linear Regression*.

**Shared:** everything but the bias of the last layer. **Local:** that bias, and the mean features
around which it is measured. **Explains:** the shared weights are the trend inside clients, and the
bias is how far a client lies above or below the others. Pooled, the two are mixed up, and the trend
may come out with the wrong sign: Simpson's paradox.

=======  ===================================================
paper    code
=======  ===================================================
w        ``ServerState.shared``: with ``linear`` just ``head.weight``
b_i      ``ClientState.local``: ``head.bias`` and ``head.centre``, b_i = bias − w · centre
=======  ===================================================

With the model ``linear`` this is the linear form of PaDPaF, and what statistics knows as a
regression with fixed effects. Under a network it personalises how often a class is answered.

*Members* use the shared weights with their own bias. *Newcomers* with labels fit a bias for as long
as a member has (few-shot); without labels there is none to give them: not served.

*Deviations.* A bias is the client's output at its own mean features (``centred``), which describes
the same functions. As published it is the output at the origin, which may lie far from the client:
then every change of the weights has to wait for the bias to follow, and after the paper's 50 rounds
the slope still has the wrong sign though the error is small already.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from duotone.errors import ConfigError
from duotone.federation.local_training import train
from duotone.federation.method import Method
from duotone.federation.newcomers import catch_up
from duotone.federation.settings import MethodSettings
from duotone.networks.reading import find_head, head_inputs, in_batches
from duotone.types import ClientData, ClientState, ClientUpdate, DataInfo, RoundInfo, ServerState


class PrivateBiasConfig(MethodSettings):
    """Settings of private bias."""

    centred: bool = True
    """Whether a bias is measured at the client's mean features, or at the origin as published."""


class CentredLinear(nn.Linear):
    """A linear layer whose bias is its output at some centre: W (h − centre) + bias.

    Args:
        like: The layer it begins as, the centre being the origin.
    """

    def __init__(self, like: nn.Linear) -> None:
        super().__init__(like.in_features, like.out_features)
        with torch.no_grad():
            self.weight.copy_(like.weight)
            self.bias.zero_()
            if isinstance(like.bias, nn.Parameter):
                self.bias.copy_(like.bias)
        self.register_buffer("centre", torch.zeros(like.in_features))
        self.centre: Tensor

    @torch.no_grad()
    def move(self, centre: Tensor) -> None:
        """Measure the bias somewhere else, without changing what the layer computes."""
        self.bias.add_(self.weight @ (centre - self.centre))
        self.centre.copy_(centre)

    def forward(self, h: Tensor) -> Tensor:
        """Return the outputs for some features."""
        return functional.linear(h - self.centre, self.weight, self.bias)


class PrivateBias(Method):
    """Average everything but the last bias."""

    name = "private-bias"
    title = "everything shared but the last bias: the trend is common, the level is not"
    paper = "Almansoori et al., PaDPaF, TMLR 2024 (its linear form)"
    Config = PrivateBiasConfig
    config: PrivateBiasConfig
    newcomer_rules = ("few-shot",)

    def build(self, data: DataInfo) -> nn.Module:
        """Build the network, with a last layer whose bias can be measured anywhere."""
        model = super().build(data)
        last = find_head(model, self.config.head)
        if not isinstance(last, nn.Linear):
            raise ConfigError(
                f"private-bias keeps the bias of a linear layer, but the model's last is a "
                f"{type(last).__name__}; name a linear layer with --set head=NAME."
            )
        if not self.head:
            return CentredLinear(last)
        model.set_submodule(self.head, CentredLinear(last))
        return model

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share all but the last bias and where it is measured."""
        is_own = isinstance(owner, CentredLinear) and name.endswith(("bias", "centre"))
        return super().is_shared(name, owner) and not is_own

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train weights and bias together."""
        model = self._load(server, client, data, info)
        loss = train(model, data, self.config, info)
        return self.trained(model, data, loss)

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Fit a newcomer's bias to the shared weights."""
        state = self.first_state(server, info)
        begun = ClientState(self.split(self._load(server, state, data, info))[1])
        return catch_up(self, server, begun, data, info)

    @torch.no_grad()
    def _load(
        self, server: ServerState, state: ClientState, data: ClientData, info: RoundInfo
    ) -> nn.Module:
        """Load a client's model, its bias measured at the client's mean features now."""
        model = self.load(self.personal(server, state), info.data).eval()
        if self.config.centred:
            head = find_head(model, self.config.head)
            assert isinstance(head, CentredLinear)
            given = in_batches(partial(head_inputs, model, head), data.x)
            head.move(given.mean(dim=0))
        return model
