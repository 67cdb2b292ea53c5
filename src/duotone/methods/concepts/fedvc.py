"""FedVC: explain every client as a mixture of concepts that all clients share.

Peng Yan: *Towards Explainable Personalisation for Federated Learning*, thesis, UTS 2024, chapter 6.

**Shared:** the network and the concepts. **Local:** the client's weights v of the concepts.
**Explains:** which concepts a client is a mixture of, and what they are.

===============  ============================================================
thesis           code
===============  ============================================================
ẑ                ``ConceptLinear.places`` of a hidden vector
C = {c_m}        ``ConceptLinear.centres``
ι                ``ConceptLinear.sharpness``, ``iota``
v^(k)            ``ConceptLinear.weights``, the local buffer
s_i              :func:`duotone.methods.concepts.concept_layer.responsibilities`
p̂_i, p^(k)       ``ConceptLinear.preference``, ``weights @ centres``
l_p              :func:`preference_loss`
S, C, N of 6.6   :class:`Moving`
===============  ============================================================

*Members and newcomers* find their weights by EM on their inputs. The server learns the members'.

*Variants.* ``duotone`` trains exactly as FedAvg does. After the last round members send number,
mean and covariance of their hidden vectors. In the directions along which clients differ most (as
in FedCD) a mixture of Gaussians is fitted by EM over all samples: centres from those moments, ι by
maximum likelihood, then five passes in each of which members send sums. If clients differ by no
more than chance (:mod:`~duotone.methods.concepts.chance`) there are no concepts, and the run says
so. Members also learn what each concept adds to the last layer; members vote whether these heads
are used (:mod:`duotone.federation.personalise`).

``paper`` is the thesis: a linear projection head on the features gives ẑ; l_p pulls each sample's
p̂ to its client's p during training. ``learning = em`` is Algorithm 8 (moving averages),
``unified`` Algorithm 9 (gradients, Eq. (6.12)). In 20 rounds with the published ι and κ, concepts
collapsed or said little (the thesis states no number of rounds): ι = 0.1 makes responsibilities
nearly uniform, κ = 0.05 leaves 5 % to all batches but the last, and l_p is smallest where every
sample has the same p̂. Monitors warn of that.

*Deviations.* Where the thesis is silent: concepts start as standard normal draws, v uniform, S, C
and N empty in each round; l_p has weight 1; v has a floor; a concept without samples stays. In the
end v is fitted anew to all samples, Eq. (6.4). ``Latents.local`` are responsibilities under equal
weights: those with v, as in figure 6.7, would reveal the client that probes are to find.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator
from torch import Tensor, nn

from duotone.federation.local_training import task_loss, train
from duotone.federation.method import Method
from duotone.federation.settings import MethodSettings
from duotone.methods.concepts.chance import LEVEL, nothing_found
from duotone.methods.concepts.concept_heads import heads_form, learn_heads, mean_heads
from duotone.methods.concepts.concept_layer import ConceptHeads, ConceptLinear, nearness
from duotone.methods.concepts.concept_search import (
    MOST,
    sums_over_concepts,
    with_first_concepts,
    with_new_sums,
    with_tensors,
)
from duotone.methods.concepts.hidden import hidden_vectors, layer_after, replace_layer
from duotone.methods.concepts.mixture import Monitors, Moving, Sums, moved_centres, moving_weights
from duotone.methods.concepts.moments import Moments, moments
from duotone.networks.reading import head_inputs, seen_by
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

PASSES = 5
"""Of EM over all members' samples; more change nothing visible."""
HEAD_PASSES = 5
"""Rounds in which all members train the concepts' heads."""


class FedVCConfig(MethodSettings):
    """Settings of FedVC."""

    variant: Literal["duotone", "paper"] = "duotone"
    """Concepts found in a trained network, or learnt with it as published."""
    learning: Literal["em", "unified"] = "em"
    """How the paper's concepts are learnt: Algorithm 8 or Algorithm 9."""
    layer: str | None = None
    """The hidden layer that is read; by default the first linear one, for `paper` the last."""
    concepts: int | None = Field(None, ge=2, le=MOST + 1)
    """M; by default one more than the directions clients differ in, for `paper` 10."""
    dimensions: int | None = Field(None, ge=1, le=MOST)
    """Of the space of concepts; by default where discriminants fall clearly, for `paper` 10."""
    iota: float = Field(0.1, gt=0)
    """ι of `paper`: how fast a sample stops belonging to a concept with distance."""
    kappa: float = Field(0.05, ge=0, lt=1)
    """κ of `paper`: what a moving average keeps of the batches before."""
    gamma: float = Field(0.1, ge=0)
    """γ of `unified`: how fast concepts follow their clients."""
    feed: bool = False
    """Whether the classifier of `paper` is given p̂ beside the features."""

    @model_validator(mode="after")
    def _feeds_what_is_there(self) -> Self:
        if self.feed and self.variant != "paper":
            raise ValueError(
                "feed needs concepts during training, and variant 'duotone' finds them afterwards; "
                "drop feed, or add --set variant=paper"
            )
        return self


def preference_loss(estimated: Tensor, preference: Tensor) -> Tensor:
    """Return l_p: the squared distance of the samples' p̂ from the client's p, mean of a batch."""
    return (estimated - preference).square().sum(dim=1).mean()


class FedVC(Method):
    """Train one model; explain its clients as mixtures of concepts."""

    name = "fedvc"
    title = "one shared model whose clients are explained as mixtures of concepts"
    paper = "Yan, Towards Explainable Personalisation for Federated Learning, thesis 2024, ch. 6"
    Config = FedVCConfig
    config: FedVCConfig
    newcomer_rules = ("label-free", "zero-shot")
    monitor_units = {  # noqa: RUF012
        "spread": "distance",
        "information": "nats",
        "entropy": "share",
    }

    def build(self, data: DataInfo) -> nn.Module:
        """Build the network, with concepts at the layer after the one that is read."""
        model = super().build(data)
        config, is_paper = self.config, self.config.variant == "paper"
        name = self._name(model)
        layer = model.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        new = ConceptLinear(
            layer,
            (config.dimensions or 10) if is_paper else MOST,
            (config.concepts or 10) if is_paper else MOST + 1,
            learns_projection=is_paper,
            learns_centres=is_paper and config.learning == "unified",
            feeds=config.feed,
        )
        if is_paper:
            new.sharpness.fill_(config.iota)
        else:  # nothing is there before training is over
            new.clear()
        last = model.get_submodule(self.head)
        if not is_paper and data.task == "classes" and isinstance(last, nn.Linear):
            new.heads = ConceptHeads(last, MOST + 1)
        replace_layer(model, name, new)
        return model

    def _name(self, model: nn.Module) -> str:
        """Return what the layer is called that is given what is read."""
        if self.config.variant == "paper" and self.config.layer is None:
            layer_after(model, None)  # there must be something to read
            return self.head
        return layer_after(model, self.config.layer)

    def _layer(self, model: nn.Module) -> ConceptLinear:
        layer = model.get_submodule(self._name(model))
        assert isinstance(layer, ConceptLinear)
        return layer

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Keep the client's weights of the concepts."""
        is_weights = isinstance(owner, ConceptLinear) and name.rpartition(".")[2] == "weights"
        return super().is_shared(name, owner) and not is_weights

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train as in FedAvg; as published, towards the client's preference as well."""
        if self.config.variant != "paper":
            return super().client_update(server, client, data, info)
        model = self.load(self.personal(server, client), info.data)
        layer = self._layer(model)
        hidden = hidden_vectors(model, layer, data.x)
        weights = moving_weights(layer, hidden, self.config.kappa, self.config.batch_size)
        layer.weights.copy_(weights)
        is_unified = self.config.learning == "unified"
        seen = Moving(self.config.kappa)

        def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            scores, (given,) = seen_by(model, (layer,), x)
            value = task_loss(lambda _: scores, x, y)
            shares = layer.shares_of(given)
            estimated, preference = layer.preference(shares), layer.weights @ layer.centres
            value = value + preference_loss(estimated, preference.detach())
            if is_unified:  # Eq. (6.12)
                return value + self.config.gamma * preference_loss(estimated.detach(), preference)
            seen.add(shares.detach(), layer.places(given).detach())
            return value

        trained = train(model, data, self.config, info, loss=loss)
        return self.trained(model, data, trained, sent={} if is_unified else seen.as_extra())

    def server_update(
        self, server: ServerState, updates: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Average what is trained; move the concepts of Algorithm 8 to their samples."""
        new = super().server_update(server, updates, info)
        module = self.module(info.data)
        name, layer = self._name(module), self._layer(module)
        own = {f"{name}.{key}" for key, _ in layer.named_buffers() if key != "weights"}
        kept = {key: server.shared[key] for key in own}
        if self.config.variant == "paper" and self.config.learning == "em":  # Eq. (6.10)
            centres = f"{name}.centres"
            kept[centres] = moved_centres(updates, server.shared[centres])
        return ServerState({**new.shared, **kept}, new.extra)

    def before_use(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Find the client's weights of the concepts from its inputs, once there are concepts."""
        model = self.load(self.personal(server, client), info.data)
        layer = self._layer(model)
        if not layer.shares.any():
            return client
        layer.fit(hidden_vectors(model, layer, data.x))
        return ClientState(self.split(model)[1], client.extra)

    # -- concepts of a trained network, and their monitors

    def collects(self, info: RoundInfo) -> int:
        """Ask members when training is over: for moments, sums and heads, or for sums alone."""
        if info.round < info.rounds:
            return 0
        if self.config.variant == "paper":
            return 1
        has_heads = self._layer(self.module(info.data)).heads is not None
        return 1 + PASSES + (HEAD_PASSES if has_heads else 0)

    def collect(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientUpdate:
        """Return moments of the client's hidden vectors, then sums over concepts, then heads."""
        model = self.load(self.personal(server, client), info.data)
        layer = self._layer(model)
        extra: dict[str, Tensor] = {}
        if self._finds_directions(info):
            extra = moments(hidden_vectors(model, layer, data.x).cpu()).as_extra()
        elif self._learns_heads(info) and layer.shares.any():
            last = model.get_submodule(self.head)
            extra = learn_heads(model, layer, last, data, self.config, info)
        elif layer.shares.any():
            sums = sums_over_concepts(layer, hidden_vectors(model, layer, data.x))
            extra = {key: tensor.cpu() for key, tensor in sums.as_extra().items()}
        return ClientUpdate(data.client, {}, len(data), extra)

    def extra_form(self, server: ServerState, info: RoundInfo) -> dict[str, Form]:
        """Declare the sums that move the concepts of Algorithm 8."""
        if self.config.variant != "paper" or self.config.learning == "unified":
            return {}
        return Moving.form(self._layer(self.module(info.data)).centres)

    def collected_form(self, server: ServerState, info: RoundInfo) -> dict[str, Form]:
        """Declare moments, then sums over concepts, then heads; nothing without a concept."""
        layer = self._layer(self.module(info.data))
        if self._finds_directions(info):
            return Moments.form(layer.in_features)
        if not server.shared[f"{self._name(self.module(info.data))}.shares"].any():
            return {}
        return heads_form(layer) if self._learns_heads(info) else Sums.form(*layer.centres.shape)

    def _finds_directions(self, info: RoundInfo) -> bool:
        return self.config.variant == "duotone" and info.asking == 1

    def _learns_heads(self, info: RoundInfo) -> bool:
        return info.asking > 1 + PASSES

    def pool(
        self, server: ServerState, collected: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Find the space of concepts, or move the concepts and keep the monitors' values."""
        # A single member differs from no one, and without concepts members send nothing.
        collected = [update for update in collected if update.extra]
        if len(collected) < 2:
            return server
        name, config = self._name(self.module(info.data)), self.config
        if self._finds_directions(info):
            asked = (config.dimensions, config.concepts)
            return with_first_concepts(server, name, collected, info, *asked)
        if self._learns_heads(info):
            heads = mean_heads([update.extra for update in collected])
            return with_tensors(server, f"{name}.heads", heads)
        return with_new_sums(server, name, collected, moves=config.variant == "duotone")

    def monitors(self, server: ServerState) -> dict[str, float]:
        """Return how far concepts are apart, their information, and how undecided samples are."""
        names = ("spread", "information", "entropy")
        return {n: float(server.extra[n]) for n in names if n in server.extra}

    def warnings(self, server: ServerState) -> list[str]:
        """Warn if clients do not differ, and of what the monitors found."""
        found = self.monitors(server).values()
        lines = Monitors(*found).complaints() if found else []
        chance = float(server.extra.get("chance", 0.0))
        if chance <= LEVEL:
            return lines
        asked_for = "There are concepts because they were asked for."
        return [nothing_found(chance, asked_for if found else "So there are no concepts."), *lines]

    # -- what is read

    def predict(self, model: nn.Module, x: Tensor) -> Tensor:
        """Return the network's scores, with what concepts add to them if that is turned on."""
        layer, last = self._layer(model), model.get_submodule(self.head)
        if layer.heads is None or not layer.heads.on or not layer.shares.any():
            return super().predict(model, x)
        scores, (hidden, features) = seen_by(model, (layer, last), x)
        more: Tensor = layer.heads(features.flatten(1), layer.shares_of(hidden.flatten(1)))
        return scores + more

    def predict_with(self, model: nn.Module, x: Tensor, local: Tensor) -> Tensor:
        """Return the scores with other memberships of concepts, weighed as this client does."""
        with self._layer(model).belonging(local):
            return self.predict(model, x)

    def facts(self, model: nn.Module) -> dict[str, float]:
        """Return the client's weights of the concepts that are there."""
        layer = self._layer(model)
        weights = layer.weights[layer.shares > 0]
        return {f"concept.{number}": float(weight) for number, weight in enumerate(weights)}

    def context_switch(self, model: nn.Module) -> str | None:
        """Return what turns on the heads of concepts."""
        name = self._name(model)
        return f"{name}.heads.on" if self._layer(model).heads is not None else None

    def nearness(self, model: nn.Module, x: Tensor) -> Tensor:
        """Return −ι‖ẑ − c‖² for the concepts that are there."""
        layer = self._layer(model)
        places = layer.places(head_inputs(model, layer, x).flatten(1))
        return nearness(places, layer.centres[layer.shares > 0], layer.sharpness)

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return the hidden vectors, and the concepts they belong to under equal weights."""
        layer = self._layer(model)
        hidden = head_inputs(model, layer, x).flatten(1)
        return Latents(hidden, layer.unprejudiced(hidden))
