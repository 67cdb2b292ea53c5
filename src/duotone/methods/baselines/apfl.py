"""APFL: each client mixes its own model with the shared one, and learns how much.

Deng, Kamani, Mahdavi: *Adaptive Personalized Federated Learning*, 2020, Algorithm 1.

**Shared:** a whole model w, trained as in FedAvg. **Local:** a second whole model v_i, the
share α_i of it in the mixture, and the mixture's BatchNorm statistics. **Explains:** α_i is one
number per client: how much of its model is its own.

==============================  =====================================
paper                           code
==============================  =====================================
w                               ``ServerState.shared``
v_i                             ``ClientState.extra["own/…"]``
α_i                             ``ClientState.extra["alpha"]``
v̄_i = α_i v_i + (1 − α_i) w     ``mixture``; its buffers in ``extra["mixed/…"]``
==============================  =====================================

*Members* use the mixture v̄_i with the latest shared model. *Newcomers* with labels start v from
the shared model and train it for one round's epochs beside the fixed shared model, with the α of
the start (few-shot); without labels v = w, so the mixture is the shared model (zero-shot).

*Deviations.* α moves at the first batch of a round, as in the authors' code (without that code's
additional decay of α); the text moves it at every step. v_i starts from the shared model at a
client's first turn. The paper has no BatchNorm: averaging two models' statistics would describe
neither, so the mixture has its own.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call

from duotone.federation.local_training import make_optimizer, run_epochs, task_loss, training_mode
from duotone.federation.method import Method
from duotone.federation.optimizers import SGD
from duotone.federation.params import packed, stored, unpacked
from duotone.federation.settings import MethodSettings
from duotone.types import ClientData, ClientState, ClientUpdate, Params, RoundInfo, ServerState


class APFLConfig(MethodSettings):
    """Settings of APFL."""

    alpha: float = Field(0.5, ge=0, le=1)
    """Share of the own model in the mixture at the start, α (paper: 0.25, 0.5, 0.75)."""
    adaptive: bool = True
    """Whether each client learns its α."""


def mixture(own: Params, shared: Params, alpha: Tensor) -> dict[str, Tensor]:
    """Return v̄ = α v + (1 − α) w, parameter by parameter."""
    return {name: alpha * v + (1 - alpha) * shared[name] for name, v in own.items()}


class APFL(Method):
    """Average one model; let each client mix it with its own."""

    name = "apfl"
    title = "a shared and an own model, mixed by a share each client learns"
    paper = "Deng et al., Adaptive Personalized Federated Learning, 2020"
    Config = APFLConfig
    config: APFLConfig
    features_part = "local"
    newcomer_rules = ("few-shot", "zero-shot")

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Step by step, train the shared model as FedAvg does and the own one in the mixture."""
        model = self.load({**server.shared, **client.local}, info.data)
        extra, loss = self._train(model, client.extra, data, info)
        return self.trained(model, data, loss, kept=extra)

    def first_state(self, server: ServerState, info: RoundInfo) -> ClientState:
        """Start the own model from the shared one."""
        local = super().first_state(server, info).local
        model = self.load({**server.shared, **local}, info.data)
        parameters = model.named_parameters(remove_duplicate=False)
        own = {name: stored(p) for name, p in parameters if p.requires_grad}
        return ClientState(local, {**packed(own, "own"), "alpha": torch.tensor(self.config.alpha)})

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Train a newcomer's own model and its share; without labels, use the shared model."""
        first = self.first_state(server, info)
        if data.y is None:
            return first
        model = self.load({**server.shared, **first.local}, info.data)
        extra, _ = self._train(model, dict(first.extra), data, info, is_shared_fixed=True)
        return ClientState(first.local, extra)

    def personal(self, server: ServerState, client: ClientState) -> Params:
        """Return the mixture of the client's own and the latest shared model."""
        mixed = mixture(unpacked(client.extra, "own"), server.shared, client.extra["alpha"])
        return {**server.shared, **client.local, **unpacked(client.extra, "mixed"), **mixed}

    def _train(
        self,
        model: nn.Module,
        extra: Params,
        data: ClientData,
        info: RoundInfo,
        *,
        is_shared_fixed: bool = False,
    ) -> tuple[dict[str, Tensor], float]:
        """Train own model, α and, in place, the shared ``model``; return the new extra and loss."""
        shared = {name: p for name, p in model.named_parameters() if p.requires_grad}
        # Tensors like the model's: the memory format decides in which order sums are taken.
        own = {name: torch.empty_like(p, requires_grad=True) for name, p in shared.items()}
        persistent = model.state_dict().keys()
        buffers = {n: tensor.clone() for n, tensor in model.named_buffers() if n in persistent}
        with torch.no_grad():
            for tensors, kept in ((own, "own"), (buffers, "mixed")):
                for name, tensor in tensors.items():
                    tensor.copy_(extra.get(f"{kept}/{name}", tensor))
        alpha = extra["alpha"].to(self.device, copy=True).requires_grad_()
        lr = self.config.lr_at(info.round)
        of_alpha = SGD([([alpha], lr)])
        optimizers = [make_optimizer(own.values(), self.config, lr)]
        if not is_shared_fixed:
            optimizers.append(make_optimizer(shared.values(), self.config, lr))
        is_first = True

        def step(x: Tensor, y: Tensor) -> Tensor:
            nonlocal is_first
            fixed = {name: w.detach() for name, w in shared.items()}
            mixed = {**mixture(own, fixed, alpha), **buffers}
            value = task_loss(lambda inputs: functional_call(model, mixed, (inputs,)), x, y)
            for optimizer in (of_alpha, *optimizers):
                optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            if not is_shared_fixed:
                task_loss(model, x, y).backward()  # type: ignore[no-untyped-call]
            for optimizer in optimizers:
                optimizer.step()
            if self.config.adaptive and is_first:
                of_alpha.step()
                with torch.no_grad():
                    alpha.clamp_(0, 1)
            is_first = False
            return value

        with training_mode(model, None, min(len(data), self.config.batch_size)):
            loss = run_epochs(step, data, self.config, info)
        # A tied parameter has several names; all of them must be there when a model is loaded.
        by_parameter = {id(shared[name]): tensor for name, tensor in own.items()}
        everywhere = model.named_parameters(remove_duplicate=False)
        own = {name: by_parameter[id(p)] for name, p in everywhere if id(p) in by_parameter}
        state = packed(own, "own") | packed(buffers, "mixed") | {"alpha": alpha}
        return {name: stored(tensor) for name, tensor in state.items()}, loss
