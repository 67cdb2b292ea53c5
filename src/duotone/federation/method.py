"""The contract: the questions a federated method answers.

A method says which network it trains, which of its tensors are shared, what a client does in a
round, what the server makes of the updates, and how a client gets the model it uses. The answers
in this base class are those of FedAvg, so a subclass answers only the questions it changes::

    class FedBN(Method):
        name = "fedbn"

        def is_shared(self, name, owner):
            is_norm = isinstance(owner, nn.modules.batchnorm._BatchNorm)
            return super().is_shared(name, owner) and not is_norm

A method holds settings, and what ``build`` finds out about the network. All state is passed in and
handed back, so that a run can be stopped, resumed, and spread over processes without changing its
result. What only some methods can do, such as drawing samples, is in
:mod:`duotone.federation.protocols`.
"""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from pydantic import Field
from torch import Tensor, nn

from duotone.config import Settings
from duotone.federation.aggregate import ServerAdam, weighted_mean
from duotone.federation.local import train, turns_so_far
from duotone.networks.reading import Network, find_head, head_inputs, head_name, named_tensors
from duotone.seeding import derive
from duotone.types import (
    ClientData,
    ClientState,
    ClientUpdate,
    DataInfo,
    Form,
    Latents,
    NewcomerRule,
    Params,
    RoundInfo,
    ServerState,
)

Part: TypeAlias = Literal["shared", "local"]
Parts: TypeAlias = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Shared and local tensors of a model."""


class MethodSettings(Settings):
    """Settings every method has; a method's own come on top."""

    optimizer: Literal["sgd", "adam"] = "sgd"
    """Local optimiser; it starts afresh in every round."""
    lr: float = Field(0.1, gt=0)
    """Local learning rate in the first round."""
    lr_decay: float = Field(0.8, gt=0, le=1)
    """Factor on the learning rate every `lr_decay_every` rounds; 1 keeps it constant."""
    lr_decay_every: int = Field(10, ge=1)
    """Rounds between two decays of the learning rate."""
    momentum: float = Field(0.0, ge=0, lt=1)
    """Momentum of local SGD."""
    weight_decay: float = Field(0.0, ge=0)
    """L2 penalty of the local optimiser."""
    batch_size: int = Field(32, ge=1)
    """Samples per local step."""
    epochs: int = Field(2, ge=1)
    """Passes over a client's training samples in a round."""
    server_optimizer: Literal["average", "adam"] = "average"
    """What the server does with the mean of the updates: take it, or step towards it by Adam."""
    server_lr: float = Field(0.01, gt=0)
    """Learning rate of the server's Adam."""
    head: str | None = None
    """Name of the model's last layer, whose input counts as the features; found if not given."""

    def lr_at(self, round: int) -> float:
        """Return the local learning rate of a round (rounds count from 1)."""
        return self.lr * self.lr_decay ** (max(round - 1, 0) // self.lr_decay_every)


class Method(ABC):
    """A federated method.

    Args:
        config: The method's settings.
        network: Builds the network to train from the form of the data.
        device: Where tensors live while a client trains.
    """

    name: ClassVar[str]
    """What the user calls the method."""
    title: ClassVar[str]
    """The method in a few words."""
    paper: ClassVar[str]
    """Authors, title, venue, year."""
    Config: ClassVar[type[MethodSettings]] = MethodSettings
    rounds: ClassVar[int] = 30
    """How many rounds a run has if nobody says otherwise."""
    features_part: ClassVar[Part] = "shared"
    """Whether all clients compute features alike, or each with layers of its own."""
    table_model: ClassVar[str] = "mlp"
    """The model for tables if nobody names one; images have cnn-bn."""
    own_model: ClassVar[str | None] = None
    """What the method's network is called, if it brings its own instead of taking any model."""
    uses_unlabelled: ClassVar[bool] = False
    """Whether the method also learns from samples without a label."""
    newcomer_rules: ClassVar[tuple[NewcomerRule, ...]] = ("zero-shot",)
    """What the method can start a newcomer from (nothing, inputs, labelled samples), best first."""

    def __init__(self, config: MethodSettings, network: Network, device: str = "cpu") -> None:
        self.config = config
        self.network = network
        self.device = device
        self._module: tuple[DataInfo, nn.Module] | None = None
        self._initial: tuple[tuple[Any, ...], Parts] | None = None
        self.head = config.head or "head"

    # -- the questions

    def build(self, data: DataInfo) -> nn.Module:
        """Build the network, freshly initialised."""
        model = self.network(data)
        found = head_name(model, self.config.head)
        if found is not None:
            self.head = found
        return model

    def is_shared(self, name: str, owner: nn.Module) -> bool:
        """Say whether a parameter or buffer leaves the client.

        Args:
            name: Full name of the tensor, as in ``state_dict``.
            owner: The module that holds it, so that BatchNorm is found in anybody's model.
        """
        # The power-iteration vectors of spectral normalisation belong to one client's weights;
        # their mean belongs to nobody's.
        return not isinstance(owner, nn.utils.parametrizations._SpectralNorm)

    @classmethod
    def rules(cls, config: MethodSettings) -> tuple[NewcomerRule, ...]:
        """Return what the method can start a newcomer from with some settings, best first."""
        return cls.newcomer_rules

    def start(self, info: RoundInfo) -> ServerState:
        """Return the server's first state."""
        shared, _ = self.initial(info)
        return ServerState(shared)

    def client_update(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> tuple[ClientUpdate, ClientState]:
        """Train one client for one round; return what leaves it and what stays."""
        model = self.load(self.personal(server, client), info.data)
        loss = train(model, data, self.config, info)
        shared, local = self.split(model)
        update = ClientUpdate(data.client, shared, len(data), metrics={"train_loss": loss})
        return update, ClientState(local)

    def server_update(
        self, server: ServerState, updates: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Return the server's next state: the weighted mean, or an Adam step towards it."""
        mean = weighted_mean(updates)
        if self.config.server_optimizer == "adam":
            buffers = {name for name, _ in self.module(info.data).named_buffers()}
            return ServerAdam(lr=self.config.server_lr).step(server, mean, buffers)
        return ServerState(mean, server.extra)

    def sent(self, server: ServerState, update: ClientUpdate) -> Params:
        """Return the shared tensors an update started from; an honest update has their form."""
        return server.shared

    def extra_form(self, server: ServerState, info: RoundInfo) -> dict[str, Form]:
        """Declare what an update carries in ``extra``; anything else is refused."""
        return {}

    def first_state(self, server: ServerState, info: RoundInfo) -> ClientState:
        """Return the state of a client that never took part and has shown no samples."""
        _, local = self.initial(info)
        return ClientState(local)

    def before_use(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Return the state a member uses for predictions: its last local step, on its samples."""
        return client

    def join(self, server: ServerState, data: ClientData, info: RoundInfo) -> ClientState:
        """Return a newcomer's state, learnt from inputs (``data.y`` is ``None``) or with labels."""
        return self.first_state(server, info)

    def personal(self, server: ServerState, client: ClientState) -> Params:
        """Return the parameters of the model a client uses."""
        return {**server.shared, **client.local}

    def predict(self, model: nn.Module, x: Tensor) -> Tensor:
        """Return one score per class, or one number per regression target."""
        scores: Tensor = model(x)
        return scores

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return the two parts of the representation; here all features are of one part."""
        features, nothing = self.features(model, x), torch.empty(len(x), 0, device=x.device)
        if self.features_part == "shared":
            return Latents(shared=features, local=nothing)
        return Latents(shared=nothing, local=features)

    # -- what answers are made of

    def features(self, model: nn.Module, x: Tensor) -> Tensor:
        """Return what the model's last layer is given for a batch."""
        return head_inputs(model, find_head(model, self.config.head), x).flatten(1)

    def is_in_head(self, name: str) -> bool:
        """Say whether a parameter or buffer belongs to the model's last layer."""
        return not self.head or name.startswith(f"{self.head}.")

    def initial(self, info: RoundInfo, *name: str | int) -> Parts:
        """Return the shared and the local part of a freshly initialised network.

        The same for every client and at any time: initialisation is a stream of the run's seed.
        A method that needs several different networks names them.
        """
        key = (info.seed, info.data, *name)
        if self._initial is None or self._initial[0] != key:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(derive(info.seed, "initial", *name))
                self._initial = (key, self.split(self.build(info.data)))
        # Copies: what is done to one client's must not reach the next.
        shared, local = ({n: t.clone() for n, t in part.items()} for part in self._initial[1])
        return shared, local

    def parameters_of(self, model: nn.Module, part: Part) -> list[nn.Parameter]:
        """Return the parameters of one part, to train them alone."""
        return [
            tensor
            for name, tensor, owner in named_tensors(model)
            if isinstance(tensor, nn.Parameter)
            and self.is_shared(name, owner) == (part == "shared")
        ]

    def catch_up(
        self, server: ServerState, state: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientState:
        """Train a newcomer's local part beside the fixed shared one, as long as a member's."""
        model = self.load(self.personal(server, state), info.data)
        own = self.parameters_of(model, "local")
        for drawn in turns_so_far(info):
            train(model, data, self.config, drawn, parameters=own, phase="newcomer")
        return ClientState(self.split(model)[1])

    def module(self, data: DataInfo) -> nn.Module:
        """Return this process's network, built once; it holds the parameters of its last user."""
        if self._module is None or self._module[0] != data:
            # Building draws random numbers; a client's own stream must not notice who built.
            with torch.random.fork_rng(devices=[]):
                module = self.build(data).to(self.device)
            if data.is_image:
                # What convolutions on a CPU like best, unless the network knows better of itself.
                layout = getattr(module, "memory_format", torch.channels_last)
                module = module.to(memory_format=layout)  # type: ignore[call-overload]
            self._module = (data, module)
        return self._module[1]

    def load(self, params: Params, data: DataInfo) -> nn.Module:
        """Put parameters and buffers into this process's network and return it."""
        module = self.module(data)
        module.load_state_dict(dict(params))
        return module

    def split(self, model: nn.Module) -> Parts:
        """Copy a model's parameters and buffers into (shared, local)."""
        shared: dict[str, Tensor] = {}
        local: dict[str, Tensor] = {}
        for name, tensor, owner in named_tensors(model):
            part = shared if self.is_shared(name, owner) else local
            part[name] = stored(tensor)
        return shared, local

    def __getstate__(self) -> dict[str, Any]:
        # A worker process builds its own network.
        return {**self.__dict__, "_module": None, "_initial": None}


def stored(tensor: Tensor) -> Tensor:
    """Return a copy as states hold it: detached, on the CPU, in the usual memory format."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def packed(params: Params, under: str) -> dict[str, Tensor]:
    """Name some tensors ``under/name``, to keep a whole model beside other things."""
    return {f"{under}/{name}": tensor for name, tensor in params.items()}


def unpacked(params: Params, under: str) -> dict[str, Tensor]:
    """Return what :func:`packed` named."""
    start = f"{under}/"
    return {n.removeprefix(start): tensor for n, tensor in params.items() if n.startswith(start)}
