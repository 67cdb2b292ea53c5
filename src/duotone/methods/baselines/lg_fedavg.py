"""LG-FedAvg: each client's own representation under a shared head.

Liang, Liu, Ziyin, Allen, Auerbach, Brent, Salakhutdinov, Morency: *Think Locally, Act Globally:
Federated Learning with Local and Global Representations*, 2020, Algorithm 1.

**Shared:** the last layer. **Local:** every layer below it, BatchNorm statistics included.
**Explains:** all clients read their features alike, so a local representation is whatever makes a
client's samples readable for the shared head.

==========  =====================================
paper       code
==========  =====================================
θ^ℓ_m       ``ClientState.local``
θ^g         ``ServerState.shared``
==========  =====================================

*Members* use their own representation under the shared head. *Newcomers* with labels train a
representation of their own under the fixed shared head, for as many passes as a member has on
average by that round (few-shot). Without labels they are not served: the paper lets all members'
local models vote, which would take those models from their owners.

*Deviations.* The authors start from a trained FedAvg model; here training starts from scratch like
every other method. The auxiliary losses on the representation (adversarial, self-supervised) are
left out; the paper's main results use none.
"""

from __future__ import annotations

from torch import nn

from duotone.federation.method import Method
from duotone.federation.newcomers import catch_up
from duotone.types import ClientData, ClientState, RoundInfo, ServerState


class LGFedAvg(Method):
    """Average the last layer; train everything together."""

    name = "lg-fedavg"
    title = "local features under a shared head, trained together"
    paper = (
        "Liang et al., Think Locally, Act Globally: Federated Learning with Local and Global "
        "Representations, 2020"
    )
    features_part = "local"
    newcomer_rules = ("few-shot",)

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Share what is in the head."""
        return super().is_shared(name, owner) and self.is_in_head(name)

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Train a newcomer's layers for as long as a member's by now."""
        return catch_up(self, server, self.first_state(server, info), data, info)
