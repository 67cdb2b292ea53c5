"""FedVC: explain every client as a mixture of concepts that all clients share.

Peng Yan: *Towards Explainable Personalisation for Federated Learning*, thesis, University of
Technology Sydney 2024, chapter 6 (client-supervised learning with virtual concepts).

**Shared:** the network and the concepts. **Local:** the client's weights v of the concepts.
**Explains:** which concepts a client is a mixture of, newcomers included, and what they look like.

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

*Members and newcomers* find their weights by EM on their training inputs, with fixed concepts and
without a label. The server learns the members' weights: they follow from the sums they send.

*Variants.* ``duotone`` trains as FedAvg does. When training is over, members tell number, mean and
covariance of their hidden vectors; in the directions along which clients differ most (as in FedCD,
in units of the spread inside a client) a mixture of Gaussians is fitted by EM over all samples:
first centres from those moments alone, ι by maximum likelihood, then five passes of which each
member tells sums. The network is bit for bit that of FedAvg. Where nothing tells clients apart
(:func:`duotone.methods.concepts.alignment.by_chance`) there are no concepts, and the run says so.

*Heads by concept.* Beside the finished network members learn what each concept adds to the last
layer. They are off, and :mod:`duotone.federation.personalise` turns them on if members vote for it:
then a client's weights, found without a label, change its answers.

``paper`` is the thesis: a linear projection head on the features gives ẑ; l_p pulls each sample's
p̂ to its client's p during training. ``learning = em`` is Algorithm 8 (moving averages),
``unified`` Algorithm 9 (gradients, Eq. (6.12)). In 20 rounds with the printed ι and κ concepts
collapsed or said little (the thesis prints no number of rounds): ι = 0.1 makes responsibilities
nearly uniform, κ = 0.05 leaves 5 % to all batches but the last, and l_p is smallest where every
sample has the same p̂. :class:`Monitors` find that and say so.

*Deviations.* Where the thesis is silent: concepts start as standard normal draws, v uniform, S, C
and N empty in each round; l_p has weight 1. Eq. (6.1) is computed in logarithms and v has a floor.
A concept that no sample is near keeps its place. In the end v is fitted anew by all samples, Eq.
(6.4), for members as well as newcomers. ``Latents.local`` are responsibilities under equal weights:
those with v, as in figure 6.7, contain the client they are to tell.
"""

from __future__ import annotations

from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from duotone.federation.local import task_loss, train
from duotone.federation.method import Method
from duotone.federation.params import stored
from duotone.federation.settings import MethodSettings
from duotone.methods.concepts.alignment import (
    LEVEL,
    Moments,
    Scatter,
    by_chance,
    moments,
    nothing_found,
    pooled,
)
from duotone.methods.concepts.concept_heads import learn_heads, mean_heads
from duotone.methods.concepts.concept_layer import (
    ConceptHeads,
    ConceptLinear,
    floored,
    nearness,
    responsibilities,
)
from duotone.methods.concepts.hidden import hidden_vectors, layer_after, replace_layer
from duotone.methods.concepts.mixture import (
    Monitors,
    Sums,
    best_sharpness,
    discriminant_space,
    first_centres,
    mean_places,
    monitors,
    sums_of,
    total,
)
from duotone.networks.reading import head_inputs, seen_by
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

MOST = 16
"""Dimensions of the space of concepts; those beyond the rank are zero."""
PASSES = 5
"""Of EM over all members' samples; more change nothing that can be seen."""
HEAD_PASSES = 5
"""Rounds in which all members train the concepts' heads."""


class FedVCConfig(MethodSettings):
    """Settings of FedVC."""

    variant: Literal["duotone", "paper"] = "duotone"
    """Concepts found in a trained network, or learnt with it as printed."""
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


# -- loss and moving averages


def preference_loss(estimated: Tensor, preference: Tensor) -> Tensor:
    """Return l_p: the squared distance of the samples' p̂ from the client's p, mean of a batch."""
    return (estimated - preference).square().sum(dim=1).mean()


class Moving:
    """The moving averages S, C and N: Eq. (6.6) to (6.8).

    Args:
        kappa: What is kept of the batches before.
    """

    def __init__(self, kappa: float) -> None:
        self.kappa = kappa
        self.mass: Tensor | float = 0.0
        self.places: Tensor | float = 0.0
        self.count = 0.0

    def add(self, shares: Tensor, places: Tensor) -> None:
        """Take in one batch: its responsibilities and its places."""
        keep, new = self.kappa, 1 - self.kappa
        self.mass = self.mass * keep + shares.sum(dim=0) * new
        self.places = self.places * keep + shares.T @ places * new
        self.count = self.count * keep + len(shares) * new

    @property
    def weights(self) -> Tensor:
        """Of the concepts, v = S / N: Eq. (6.9)."""
        return torch.as_tensor(self.mass) / self.count


# -- the method


class FedVC(Method):
    """Train one model; explain its clients as mixtures of concepts."""

    name = "fedvc"
    title = "one shared model whose clients are explained as mixtures of concepts"
    paper = "Yan, Towards Explainable Personalisation for Federated Learning, thesis 2024, ch. 6"
    Config = FedVCConfig
    config: FedVCConfig
    newcomer_rules = ("label-free", "zero-shot")
    monitor_units = {  # noqa: RUF012
        "concepts.spread": "distance",
        "concepts.information": "nats",
        "concepts.entropy": "share",
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
            for buffer in (new.projection, new.projection_bias, new.centres, new.shares):
                buffer.zero_()
            new.weights.zero_()
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
        """Train as in FedAvg; as printed, towards the client's preference as well."""
        if self.config.variant != "paper":
            return super().client_update(server, client, data, info)
        model = self.load(self.personal(server, client), info.data)
        layer = self._layer(model)
        layer.weights.copy_(self._moving_weights(model, data))
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
        sums = {} if is_unified else {"mass": seen.mass, "places": seen.places}
        sent = {name: stored(torch.as_tensor(tensor)) for name, tensor in sums.items()}
        return self.trained(model, data, trained, sent=sent)

    @torch.no_grad()
    def _moving_weights(self, model: nn.Module, data: ClientData) -> Tensor:
        """Return v after a pass over all samples: the first loop of Algorithms 8 and 9."""
        layer = self._layer(model)
        seen = Moving(self.config.kappa)
        places = layer.places(hidden_vectors(model, layer, data.x))
        weights = floored(layer.weights)
        for batch in torch.split(places, self.config.batch_size):
            seen.add(responsibilities(batch, layer.centres, layer.sharpness, weights), batch)
            weights = floored(seen.weights)
        return weights

    def server_update(
        self, server: ServerState, updates: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Average what is trained; move the concepts of Algorithm 8 to their samples."""
        new = super().server_update(server, updates, info)
        name = self._name(self.module(info.data))
        layer = self._layer(self.module(info.data))
        own = {f"{name}.{key}" for key, _ in layer.named_buffers() if key != "weights"}
        kept = {key: server.shared[key] for key in own}
        if self.config.variant == "paper" and self.config.learning == "em":  # Eq. (6.10)
            mass, places = (
                torch.stack([update.extra[key] for update in updates]).sum(dim=0)
                for key in ("mass", "places")
            )
            centres = f"{name}.centres"
            kept[centres] = mean_places(mass, places, server.shared[centres])
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

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Find a newcomer's weights of the concepts from its inputs, as a member's."""
        return self.before_use(server, self.first_state(server, info), data, info)

    # -- concepts of a trained network, and what they are worth

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
            found = moments(hidden_vectors(model, layer, data.x).cpu())
            extra = {"mean": found.mean, "covariance": found.covariance}
        elif self._learns_heads(info) and layer.shares.any():
            last = model.get_submodule(self.head)
            extra = learn_heads(model, layer, last, data, self.config, info)
        elif layer.shares.any():
            with torch.no_grad():
                places = layer.places(hidden_vectors(model, layer, data.x)).double()
                centres, sharpness = layer.centres.double(), layer.sharpness.double()
                sums = sums_of(places, centres, sharpness, layer.shares > 0)
            extra = {key: tensor.cpu() for key, tensor in sums.as_extra().items()}
        return ClientUpdate(data.client, {}, len(data), extra)

    def extra_form(self, server: ServerState, info: RoundInfo) -> dict[str, Form]:
        """Declare the sums that move the concepts of Algorithm 8."""
        if self.config.variant != "paper" or self.config.learning == "unified":
            return {}
        centres = self._layer(self.module(info.data)).centres
        return {
            "mass": Form((len(centres),), centres.dtype, "nonnegative"),
            "places": Form(tuple(centres.shape), centres.dtype),
        }

    def collected_form(self, server: ServerState, info: RoundInfo) -> dict[str, Form]:
        """Declare moments, then sums over concepts, then heads; nothing without a concept."""
        layer = self._layer(self.module(info.data))
        if self._finds_directions(info):
            width = layer.in_features
            return {
                "mean": Form((width,), torch.float64),
                "covariance": Form((width, width), torch.float64, "covariance"),
            }
        if not server.shared[f"{self._name(self.module(info.data))}.shares"].any():
            return {}
        concepts, dimensions = layer.centres.shape
        if self._learns_heads(info):
            assert layer.heads is not None
            return {
                "mass": Form((concepts,), layer.shares.dtype, "nonnegative"),
                "weight": Form.of(layer.heads.weight),
                "bias": Form.of(layer.heads.bias),
            }
        return {
            "mass": Form((concepts,), torch.float64, "nonnegative"),
            "places": Form((concepts, dimensions), torch.float64),
            "squares": Form((), torch.float64, "nonnegative"),
            "entropy": Form((), torch.float64),
        }

    def _finds_directions(self, info: RoundInfo) -> bool:
        return self.config.variant == "duotone" and info.asking == 1

    def _learns_heads(self, info: RoundInfo) -> bool:
        return info.asking > 1 + PASSES

    def pool(
        self, server: ServerState, collected: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Find the space of concepts, or move the concepts; keep what they are worth."""
        # One member has nobody to differ from, and where no concept was found nobody tells more.
        collected = [update for update in collected if update.extra]
        if len(collected) < 2:
            return server
        name = self._name(self.module(info.data))
        if self._finds_directions(info):
            told = [Moments(u.weight, u.extra["mean"], u.extra["covariance"]) for u in collected]
            scatter = pooled(told)
            chance = by_chance(scatter, told, stream(info.seed, "chance", info.round))
            server = ServerState(server.shared, {**server.extra, "chance": torch.tensor(chance)})
            is_asked = self.config.dimensions or self.config.concepts
            if chance > LEVEL and not is_asked:
                return server
            return _with(server, name, self._first_concepts(scatter, told, info))
        if self._learns_heads(info):
            return _with(
                server, f"{name}.heads", mean_heads([update.extra for update in collected])
            )
        told_sums = [Sums.of_extra(u.weight, u.extra) for u in collected]
        centres = server.shared[f"{name}.centres"].double()
        worth = monitors(told_sums, centres)
        together = total(told_sums)
        found = {"shares": together.mass / together.count}
        if self.config.variant == "duotone":
            found["centres"] = mean_places(together.mass, together.places, centres)
            rank = int(server.shared[f"{name}.projection"].any(dim=1).sum())
            found["sharpness"] = best_sharpness(together, found["centres"][:, :rank])
        extra = {
            "spread": torch.tensor(worth.spread),
            "information": torch.tensor(worth.information),
            "entropy": torch.tensor(worth.entropy),
        }
        new = _with(server, name, found)
        return ServerState(new.shared, {**new.extra, **extra})

    def _first_concepts(
        self, scatter: Scatter, told: list[Moments], info: RoundInfo
    ) -> dict[str, Tensor]:
        """Return the space of concepts, and concepts to start EM from."""
        inward, placed = discriminant_space(scatter, told, self.config.dimensions, MOST)
        concepts = self.config.concepts or len(inward) + 1
        centres = first_centres(placed, concepts, stream(info.seed, "concepts"))
        projection = _padded(inward, MOST, inward.shape[1])
        return {
            "projection": projection,
            "projection_bias": -(projection @ scatter.mean),
            "centres": _padded(centres, MOST + 1, MOST),
            "sharpness": torch.tensor(0.5, dtype=torch.float64),  # spread inside clients is one
            "shares": _padded(torch.full((concepts, 1), 1 / concepts).double(), MOST + 1, 1)[:, 0],
        }

    def monitors(self, server: ServerState) -> dict[str, float]:
        """Return how far concepts are apart, what they tell, and how undecided samples are."""
        names = ("spread", "information", "entropy")
        return {f"concepts.{n}": float(server.extra[n]) for n in names if n in server.extra}

    def warnings(self, server: ServerState) -> list[str]:
        """Say if nothing that tells clients apart was found, and what the monitors complain of."""
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


def _padded(values: Tensor, height: int, width: int) -> Tensor:
    """Return a matrix with rows and columns of zeros added, up to a fixed size."""
    more = (0, width - values.shape[1], 0, height - values.shape[0])
    return functional.pad(values, more)


def _with(server: ServerState, layer: str, found: dict[str, Tensor]) -> ServerState:
    """Return the server's state with some new tensors of a layer."""
    new = {
        f"{layer}.{key}": tensor.to(server.shared[f"{layer}.{key}"].dtype)
        for key, tensor in found.items()
    }
    return ServerState({**server.shared, **new}, server.extra)
