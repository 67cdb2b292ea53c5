"""Per-FedAvg: a shared start from which a few steps make a good model for anyone.

Fallah, Mokhtari, Ozdaglar: *Personalized Federated Learning with Theoretical Guarantees: A
Model-Agnostic Meta-Learning Approach*, NeurIPS 2020, Algorithm 1, in the first-order form
(FO-MAML).

**Shared:** every parameter and buffer of the start. **Local:** the adapted copy, which never comes
back into training. **Explains:** the step from the start to the adapted copy is what is personal,
but nothing says what it means.

==============================  =====================================
paper                           code
==============================  =====================================
w                               ``ServerState.shared``
α                               ``inner_lr``
β                               ``lr``
D, D′                           the two halves of a batch
w̃ = w − α ∇f(w, D)              ``meta_step``, Eq. (8)
w ← w − β ∇f(w̃, D′)             ``meta_step``, Eq. (9) without its second-order factor
==============================  =====================================

*Members* adapt the start on their own labelled samples before they use it. *Newcomers* do the same
(few-shot); without labels they use the start as it is (zero-shot), which was not trained for that.

*Deviations.* The factor (I − α∇²f) is left out, as in the paper's own FO variant. Adaptation makes
``adapt_epochs`` passes with ``inner_lr`` instead of one single step. BatchNorm's statistics see
both halves of every batch and are averaged.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from duotone.federation.local_training import (
    make_optimizer,
    run_epochs,
    task_loss,
    train,
    training_mode,
)
from duotone.federation.method import Method
from duotone.federation.optimizers import Optimizer
from duotone.federation.params import whole
from duotone.federation.settings import MethodSettings
from duotone.types import ClientData, ClientState, ClientUpdate, RoundInfo, ServerState


class PerFedAvgConfig(MethodSettings):
    """Settings of Per-FedAvg."""

    inner_lr: float = Field(0.01, ge=0)
    """Learning rate of adaptation, α (paper: 0.01); 0 trains on the second halves alone."""
    adapt_epochs: int = Field(1, ge=0)
    """Passes over the client's own samples before use; 0 uses the start as it is."""


def meta_step(
    model: nn.Module, optimizer: Optimizer, x: Tensor, y: Tensor, inner_lr: float
) -> Tensor:
    """Move the model by the gradient taken where one step on the first half leads; return its loss.

    A batch too small to halve serves as both halves.
    """
    half = len(x) // 2 if len(x) >= 4 else None
    parameters = [p for p in model.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in parameters]
    first = task_loss(model, x[:half], y[:half])
    gradients = torch.autograd.grad(first, parameters, allow_unused=True)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            if gradient is not None:
                parameter.sub_(gradient, alpha=inner_lr)  # Eq. (8)
    second = task_loss(model, x[half or 0 :], y[half or 0 :])
    optimizer.zero_grad()
    second.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter, old in zip(parameters, before, strict=True):
            parameter.copy_(old)
    optimizer.step()  # Eq. (9), first order
    return second


class PerFedAvg(Method):
    """Average starts that were trained to be adapted."""

    name = "per-fedavg"
    title = "a shared start that each client adapts in a few steps"
    paper = (
        "Fallah et al., Personalized Federated Learning with Theoretical Guarantees: A "
        "Model-Agnostic Meta-Learning Approach, NeurIPS 2020"
    )
    Config = PerFedAvgConfig
    config: PerFedAvgConfig
    features_part = "local"
    newcomer_rules = ("few-shot", "zero-shot")

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train the start by meta-steps."""
        model = self.load(self.personal(server, client), info.data)
        optimizer = make_optimizer(model.parameters(), self.config, self.config.lr_at(info.round))
        with training_mode(model, None, min(len(data), self.config.batch_size)):
            loss = run_epochs(
                lambda x, y: meta_step(model, optimizer, x, y, self.config.inner_lr),
                data,
                self.config,
                info,
            )
        return self.trained(model, data, loss)

    def before_use(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Adapt the start to labelled samples; without them, keep it as it is."""
        if data.y is None or 0 in (self.config.adapt_epochs, self.config.inner_lr):
            return client
        model = self.load(self.personal(server, client), info.data)
        inner = self.config.model_copy(update={"lr": self.config.inner_lr, "lr_decay": 1.0})
        train(model, data, inner, info, epochs=self.config.adapt_epochs, phase="adapt")
        return ClientState(whole(model))
