"""FedCD: read what is particular to clients off a hidden layer of one shared model.

Peng Yan: *Towards Explainable Personalisation for Federated Learning*, thesis, University of
Technology Sydney 2024, chapter 5 (client-decorrelation by representation alignment).

**Shared:** every parameter and buffer. **Local:** nothing. **Explains:** c = Pᵀz are the directions
of a hidden layer along which clients differ; the rest of the layer is what they have in common.

===============  ============================================================
thesis           code
===============  ============================================================
z                input of the linear layer after ``layer``
P, Pᵀz           ``AlignedLinear.basis``; ``Latents.local``
Q                orthogonal in the network; ``AlignedLinear.complement`` for ``Latents.shared``
Σ_W, Σ_B         ``Scatter.within``, ``Scatter.between``
Ψ, Φ, η, λ       :func:`~duotone.methods.concepts.alignment.incremental_step`
===============  ============================================================

*Members and newcomers* use the server's model as it is (zero-shot). Every ``align_every`` rounds,
and after the last, all members send number, mean and covariance of their hidden vectors, and the
server finds P. Its buffers are the server's: clients neither train nor average them.

*A theorem, for an orthonormal P.* The layer after z computes V z with V = W₁Pᵀ + W₂(I − PPᵀ). A
step of SGD with output gradient g changes V by −lr g zᵀ(PPᵀ + (I − PPᵀ)²) = −lr g zᵀ: exactly what
FedAvg does. Momentum, weight decay and averaging are linear and change nothing; nor does a new P,
if W₁ and W₂ are expressed in it so that V stays. So FedCD is FedAvg with a reading, and ``duotone``
keeps V. The orthonormal P is our repair: with P = Σ_W^(-1/2)Φ as published, PPᵀ is no projection
and V takes another step. The theorem does not cover that case, and it was never run.

*No direction.* How large λ gets if clients do not differ is known
(:func:`~duotone.methods.concepts.chance.by_chance`). If λ is not larger there is no local code, and
the run says so, unless ``rank`` asks for one.

*The shared code* is a complement of P, which at best hides clients from a linear probe, or a
bottleneck: a probabilistic code of z, learnt from labels beside the network, with a price on what
it tells beyond them (:class:`~duotone.methods.concepts.bottleneck.Bottleneck`).

*Variants.* ``duotone`` solves for P exactly and keeps the function. ``paper`` takes the thesis'
incremental rule, with one step of rate 0.001 at each alignment, and leaves W₁ and W₂ as they are,
so that the function jumps. Its P is orthonormal, too.

*Deviations*, where the published equations contradict each other: P is made orthonormal before use
(the text says it is, but ΨΦ is not); Q = I − PPᵀ (d + r orthonormal vectors do not fit into d
dimensions); scatter is divided by the number of samples (the rule diverges without); means are
centred (else the mean of everything is a direction); statistics are of z and of all members, not of
ten that were drawn.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.federation.local_training import train
from duotone.federation.method import Method
from duotone.federation.settings import MethodSettings
from duotone.methods.concepts.aligned_layer import MOST, AlignedLinear, expressed, padded
from duotone.methods.concepts.alignment import (
    discriminants,
    incremental_basis,
    oblique_complement,
    orthogonal_complement,
    orthonormal,
    rank_at_gap,
    turned_to,
    with_ridge,
)
from duotone.methods.concepts.bottleneck import Bottleneck
from duotone.methods.concepts.chance import LEVEL, by_chance, chance_level, nothing_found
from duotone.methods.concepts.hidden import hidden_vectors, layer_after, replace_layer
from duotone.methods.concepts.moments import (
    Moments,
    Scatter,
    above_noise,
    budget_of,
    moments,
    noise_scale,
    pooled,
    private_moments,
)
from duotone.networks.reading import head_inputs
from duotone.seeding import stream
from duotone.types import (
    ClientData,
    ClientState,
    ClientUpdate,
    DataInfo,
    Form,
    Latents,
    RoundInfo,
    ServerState,
)

BOTTLENECK_LR = 0.01
"""Of Adam in the first round; it falls to nothing along a line."""


class FedCDConfig(MethodSettings):
    """Settings of FedCD."""

    variant: Literal["duotone", "paper"] = "duotone"
    """An exact solution that keeps the function, or the thesis' incremental rule."""
    layer: str | None = None
    """The hidden layer that is read; by default the first linear one that is not the last."""
    rank: int | None = Field(None, ge=1, le=MOST)
    """Dimensions of the local code; by default those that stand out, none if all may be chance."""
    complement: Literal["oblique", "orthogonal", "bottleneck"] = "oblique"
    """The shared code: without the differences of means, at right angles to P, or learnt."""
    bottleneck_weight: float = Field(0.03, ge=0)
    """Weight of each nat that a learnt shared code holds beyond the label."""
    align_every: int = Field(5, ge=1)
    """Rounds between two alignments; the last round always has one."""
    epsilon: float | None = Field(None, gt=0)
    """Privacy ε of a sample in all statistics of a run together, at δ = 1e-5; none by default."""
    clip: float = Field(10.0, gt=0)
    """Length to which hidden vectors are cut before noise is added to their statistics."""
    rate: float = Field(0.001, gt=0)
    """Step of the incremental rule, both for Ψ and for Φ."""
    rule_steps: int = Field(1, ge=1)
    """Steps of the incremental rule at each alignment."""


class FedCD(Method):
    """Train one model by FedAvg; find where in a hidden layer clients differ."""

    name = "fedcd"
    title = "one shared model whose hidden layer is split by what tells clients apart"
    paper = "Yan, Towards Explainable Personalisation for Federated Learning, thesis 2024, ch. 5"
    Config = FedCDConfig
    config: FedCDConfig

    def build(self, data: DataInfo) -> nn.Module:
        """Build the network, with an aligned layer where the read layer's output is used."""
        model = super().build(data)
        name = layer_after(model, self.config.layer)
        layer = model.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        replace_layer(model, name, AlignedLinear(layer, self._bottleneck(layer, data)))
        return model

    def _bottleneck(self, layer: nn.Linear, data: DataInfo) -> Bottleneck | None:
        if self.config.complement != "bottleneck":
            return None
        if data.task != "classes":
            raise ConfigError(
                "A bottleneck is learnt from classes, and these data have numbers as targets; "
                "take another shared code: --set complement=oblique"
            )
        return Bottleneck(layer.in_features, data.outputs).to(layer.weight)

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train as in FedAvg; also train the bottleneck on the server model's hidden vectors."""
        learnt = self._learn_bottleneck(server, client, data, info)
        update, state = super().client_update(server, client, data, info)
        return replace(update, shared={**update.shared, **learnt}), state

    def _learn_bottleneck(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> dict[str, Tensor]:
        """Train the bottleneck, if there is one, on what the server's model makes of the samples.

        The network does not learn from it, and is the same with or without it.
        """
        model = self.load(self.personal(server, client), info.data)
        bottleneck = self._layer(model).bottleneck
        if bottleneck is None:
            return {}
        left = 1 - (info.round - 1) / info.rounds
        settings = self.config.model_copy(
            update={"optimizer": "adam", "lr": left * BOTTLENECK_LR, "lr_decay": 1.0}
        )
        weight = self.config.bottleneck_weight
        train(
            bottleneck,
            replace(data, x=hidden_vectors(model, self._layer(model), data.x)),
            settings,
            info,
            loss=lambda _, z, y: bottleneck.loss(z, y, weight),
            phase="bottleneck",
        )
        start = f"{layer_after(model, self.config.layer)}.bottleneck."
        return {n: t for n, t in self.split(model)[0].items() if n.startswith(start)}

    def server_update(
        self, server: ServerState, updates: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Average everything but the alignment, which is the server's own."""
        new = super().server_update(server, updates, info)
        own = (".basis", ".complement")
        kept = {name: server.shared[name] for name in new.shared if name.endswith(own)}
        return ServerState({**new.shared, **kept}, new.extra)

    def collects(self, info: RoundInfo) -> int:
        """Align every few rounds and at the end."""
        return info.round % self.config.align_every == 0 or info.round == info.rounds

    def collect(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientUpdate:
        """Return number, mean and covariance of the client's hidden vectors."""
        model = self.load(self.personal(server, client), info.data)
        hidden = hidden_vectors(model, self._layer(model), data.x).cpu()
        if self.config.epsilon is None:
            found = moments(hidden)
        else:
            # The same noise on two layers could be subtracted away.
            layer = layer_after(model, self.config.layer)
            noise = info.generator("client", data.client, "statistics", layer)
            found = private_moments(hidden, self.config.clip, self._budget(info), noise)
        return ClientUpdate(data.client, {}, len(data), found.as_extra())

    def collected_form(self, server: ServerState, info: RoundInfo) -> dict[str, Form]:
        """Declare the mean and the covariance of a client's hidden vectors."""
        width = self._layer(self.module(info.data)).in_features
        return Moments.form(width, is_exact=self.config.epsilon is None)

    def _budget(self, info: RoundInfo) -> float:
        """Return the share of one alignment in a run's privacy budget."""
        assert self.config.epsilon is not None
        return budget_of(self.config.epsilon) / math.ceil(info.rounds / self.config.align_every)

    def pool(
        self, server: ServerState, collected: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Find P from all members' statistics."""
        if len(collected) < 2:
            return server
        told = [Moments.of_update(update) for update in collected]
        scatter = pooled(told)
        if self.config.epsilon is not None:
            scale = noise_scale(self.config.clip, self._budget(info))
            scatter = above_noise(scatter, told, scale)
        name = layer_after(self.module(info.data), self.config.layer)
        params = {
            key: server.shared[f"{name}.{key}"].double()
            for key in ("weight", "local_weight", "basis")
        }
        extra = dict(server.extra)
        rank, chance = self._rank(scatter, told, info)
        extra["chance"] = torch.tensor(chance)
        if self.config.variant == "paper":
            steps = self.config.rule_steps
            new = padded(incremental_basis(scatter, extra, rank, self.config.rate, steps))
        else:
            new = self._exact(scatter, params["basis"], rank)
            params["weight"], params["local_weight"] = expressed(
                params["weight"], params["local_weight"], params["basis"], new
            )
        params["basis"] = new
        used = new[:, new.any(dim=0)]
        params["complement"] = (
            oblique_complement(used, with_ridge(scatter.within))
            if self.config.complement == "oblique"
            else orthogonal_complement(used)
        )
        aligned = {
            f"{name}.{key}": tensor.to(server.shared[f"{name}.{key}"].dtype)
            for key, tensor in params.items()
        }
        return ServerState({**server.shared, **aligned}, extra)

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return what clients have in common in the hidden layer, and Pᵀz."""
        layer = self._layer(model)
        return layer.codes(head_inputs(model, layer, x).flatten(1))

    def predict_with(self, model: nn.Module, x: Tensor, local: Tensor) -> Tensor:
        """Return the scores with Pᵀz exchanged in the hidden layer, and the rest as it is."""
        layer = self._layer(model)

        def exchanged(_: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
            return (layer.with_local(given[0], local),)

        hook = layer.register_forward_pre_hook(exchanged)
        try:
            return self.predict(model, x)
        finally:
            hook.remove()

    def _layer(self, model: nn.Module) -> AlignedLinear:
        layer = model.get_submodule(layer_after(model, self.config.layer))
        assert isinstance(layer, AlignedLinear)
        return layer

    def _rank(self, scatter: Scatter, told: list[Moments], info: RoundInfo) -> tuple[int, float]:
        """Return how many directions there are, and how easily chance makes the first of them."""
        values, _ = discriminants(scatter)
        # Means of K clients differ in K − 1 directions at most.
        most = min(MOST, len(told) - 1, len(values))
        noise = 0.0
        if self.config.epsilon is not None:
            noise = noise_scale(self.config.clip, self._budget(info)) / self.config.clip
        chance = by_chance(scatter, told, stream(info.seed, "chance", info.round), noise)
        if self.config.rank is not None:
            return min(self.config.rank, most), chance
        found = rank_at_gap(values, most, chance_level(told)) if chance <= LEVEL else 0
        return min(found, most), chance

    def warnings(self, server: ServerState) -> list[str]:
        """Warn if no direction was found along which clients differ."""
        chance = float(server.extra.get("chance", 0.0))
        if chance <= LEVEL:
            return []
        bases = [tensor for name, tensor in server.shared.items() if name.endswith(".basis")]
        rank = sum(int(basis.any(dim=0).sum()) for basis in bases)
        given = (
            f"The local code has {rank} dimensions because they were asked for."
            if rank
            else "The local code has no dimension, and the shared code is the layer itself."
        )
        return [nothing_found(chance, given)]

    def _exact(self, scatter: Scatter, old: Tensor, rank: int) -> Tensor:
        """Return P as the solution of Eq. (5.3), orthonormal and turned to the one before."""
        basis = orthonormal(discriminants(scatter)[1][:, :rank])
        before = old[:, old.any(dim=0)]
        if before.shape == basis.shape:
            basis = turned_to(basis, before)
        return padded(basis)
