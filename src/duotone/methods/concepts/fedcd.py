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
Ψ, Φ, η, λ       :func:`~duotone.methods.concepts.incremental_rule.incremental_step`
FC1, FC2, FC3    ``layer``; the last is an ``AlignedHead``
===============  ============================================================

*Members and newcomers* use the server's model as it is (zero-shot). Every ``align_every`` rounds,
and after the last, members send number, mean and covariance of their hidden vectors, and the server
finds P. Its buffers are the server's: clients neither train nor average them.

*A theorem, for an orthonormal P.* The layer after z computes V z with V = W₁Pᵀ + W₂(I − PPᵀ). A
step of SGD with output gradient g changes V by −lr g zᵀ(PPᵀ + (I − PPᵀ)²) = −lr g zᵀ: exactly what
FedAvg does. Momentum, weight decay and averaging are linear and change nothing; nor does a new P,
if W₁ and W₂ are expressed in it so that V stays. So FedCD is FedAvg with a reading, and ``duotone``
keeps V. With P = Σ_W^(-1/2)Φ as published, PPᵀ is no projection and V takes another step.

*No direction.* How large λ gets if clients do not differ is known
(:func:`~duotone.methods.concepts.chance.by_chance`). If λ is not larger there is no local code, and
the run says so, unless ``rank`` asks for one.

*The shared code* is a complement of P, which at best hides clients from a linear probe, or a
bottleneck: a probabilistic code of z, learnt from labels beside the network, with a price on what
it tells beyond them (:class:`~duotone.methods.concepts.bottleneck.Bottleneck`).

*Variants.* ``duotone`` solves for P exactly, with all members, and keeps the function. ``paper`` is
the thesis: the clients of the round take one step of rate 0.001 at an alignment (``rule_steps``; on
each mini-batch with ``rule_per``), P = ΨΦ as it comes, Q by Algorithm 5, and W₁ and W₂ stay, so
that the function jumps. ``orthonormal`` repairs its P.

*Deviations*, where the published equations contradict each other: scatter is divided by the number
of samples and by its mean spread (the rule diverges without); means are centred (else the mean of
everything is a direction); statistics are of z, not of c (d × d, as Ψ); the rank, which is not
printed, is found. FC3 has nothing after it to be given [Pᵀz; Qz]: a linear layer is added there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.federation.method import Method
from duotone.methods.concepts.aligned_layer import (
    MOST,
    AlignedHead,
    AlignedLinear,
    padded,
    with_basis,
)
from duotone.methods.concepts.alignment import (
    discriminants,
    oblique_complement,
    orthogonal_complement,
    orthonormal,
    turned_to,
    with_ridge,
)
from duotone.methods.concepts.bottleneck import Bottleneck, learn_bottleneck
from duotone.methods.concepts.chance import (
    LEVEL,
    by_chance,
    chance_level,
    nothing_found,
    rank_at_gap,
)
from duotone.methods.concepts.fedcd_settings import FedCDConfig
from duotone.methods.concepts.hidden import hidden_vectors, layer_after, replace_layer
from duotone.methods.concepts.incremental_rule import (
    basis_of,
    batch_steps,
    continued,
    mean_of_steps,
    pooled_steps,
    steps_form,
)
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
        name = self.head if self._reads_head else layer_after(model, self.config.layer)
        layer = model.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        width = layer.out_features if self._reads_head else layer.in_features
        kind = AlignedHead if self._reads_head else AlignedLinear
        replace_layer(model, name, kind(layer, self._bottleneck(layer, width, data)))
        return model

    @property
    def _reads_head(self) -> bool:
        return self.config.layer is not None and self.config.layer == self.head

    def _name(self, model: nn.Module) -> str:
        """Return what the layer is called that is given both codes."""
        if self._reads_head:
            return f"{self.head}.after"
        return layer_after(model, self.config.layer)

    def _bottleneck(self, layer: nn.Linear, width: int, data: DataInfo) -> Bottleneck | None:
        if self.config.complement != "bottleneck":
            return None
        if data.task != "classes":
            raise ConfigError(
                "A bottleneck is learnt from classes, and these data have numbers as targets; "
                "take another shared code: --set complement=oblique"
            )
        return Bottleneck(width, data.outputs).to(layer.weight)

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
        layer = self._layer(model)
        if layer.bottleneck is None:
            return {}
        seen = replace(data, x=hidden_vectors(model, layer, data.x))
        learn_bottleneck(layer.bottleneck, seen, self.config, self.config.bottleneck_weight, info)
        start = f"{self._name(model)}.bottleneck."
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
        """Align every few rounds and at the end; ask again for steps on mini-batches."""
        if info.round % self.config.align_every and info.round < info.rounds:
            return 0
        return 2 if self._steps_on_batches else 1

    @property
    def _steps_on_batches(self) -> bool:
        return self.config.variant == "paper" and self.config.rule_per == "batch"

    def asks(self, members: Sequence[str], trained: Sequence[str]) -> Sequence[str]:
        """Ask all members; as published, those who trained in the round."""
        default = "sampled" if self.config.variant == "paper" else "members"
        return trained if (self.config.aligning or default) == "sampled" else members

    def collect(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientUpdate:
        """Return number, mean and covariance of the client's hidden vectors; or steps."""
        config = self.config
        model = self.load(self.personal(server, client), info.data)
        hidden = hidden_vectors(model, self._layer(model), data.x).cpu()
        if info.asking == 2:
            order = info.generator("client", data.client, "steps")
            given = (config.batch_size, config.rate, config.rule_steps)
            steps = (
                batch_steps(server.extra, hidden, *given, order) if "psi" in server.extra else {}
            )
            return ClientUpdate(data.client, {}, len(data), steps)
        if config.epsilon is None:
            found = moments(hidden)
        else:
            # The same noise on two layers could be subtracted away.
            layer = self._name(model)
            noise = info.generator("client", data.client, "statistics", layer)
            found = private_moments(hidden, config.clip, self._budget(info), noise)
        return ClientUpdate(data.client, {}, len(data), found.as_extra())

    def collected_form(self, server: ServerState, info: RoundInfo) -> dict[str, Form]:
        """Declare the mean and the covariance of a client's hidden vectors, or Ψ and Φ."""
        if info.asking == 2:
            return steps_form(server.extra)
        width = self._layer(self.module(info.data)).in_features
        return Moments.form(width, is_exact=self.config.epsilon is None)

    def _budget(self, info: RoundInfo) -> float:
        """Return the share of one alignment in a run's privacy budget."""
        assert self.config.epsilon is not None
        return budget_of(self.config.epsilon) / math.ceil(info.rounds / self.config.align_every)

    def pool(
        self, server: ServerState, collected: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Find P from members' statistics, or from the steps they took."""
        if len(collected) < 2:
            return server
        if info.asking == 2:
            extra = {**server.extra, **mean_of_steps(collected)}
            return self._with_printed_basis(ServerState(server.shared, extra), info)
        told = [Moments.of_update(update) for update in collected]
        scatter = pooled(told)
        if self.config.epsilon is not None:
            scale = noise_scale(self.config.clip, self._budget(info))
            scatter = above_noise(scatter, told, scale)
        rank, chance = self._rank(scatter, told, info)
        extra = {**server.extra, "chance": torch.tensor(chance)}
        if self.config.variant == "duotone":
            old = server.shared[f"{self._name(self.module(info.data))}.basis"].double()
            new = self._exact(scatter, old, rank)
            return self._with_basis(ServerState(server.shared, extra), new, scatter.within, info)
        extra |= {"centre": scatter.mean, "within": scatter.within}
        extra |= continued(extra, len(scatter.mean), rank)
        if self._steps_on_batches:  # clients are asked for them next
            return ServerState(server.shared, extra)
        extra |= pooled_steps(extra, scatter, self.config.rate, self.config.rule_steps)
        return self._with_printed_basis(ServerState(server.shared, extra), info)

    def _with_printed_basis(self, server: ServerState, info: RoundInfo) -> ServerState:
        new = padded(basis_of(server.extra, is_orthonormal=self.config.orthonormal))
        return self._with_basis(server, new, server.extra["within"], info)

    def _with_basis(
        self, server: ServerState, new: Tensor, within: Tensor, info: RoundInfo
    ) -> ServerState:
        """Return the server's state with another P; `duotone` keeps the function."""
        used = new[:, new.any(dim=0)]
        rest = (
            oblique_complement(used, with_ridge(within))
            if self.config.complement == "oblique"
            else orthogonal_complement(used)
        )
        name, keeps = self._name(self.module(info.data)), self.config.variant == "duotone"
        aligned = with_basis(server.shared, name, new, rest, keeps_function=keeps)
        return ServerState({**server.shared, **aligned}, server.extra)

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
        layer = model.get_submodule(self._name(model))
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
        return min(rank_at_gap(values, most, chance_level(told), chance), most), chance

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
