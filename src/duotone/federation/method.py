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
handed back, so a run can be stopped, resumed, and spread over processes with the same result.
What only some methods can do, such as drawing samples, is in :mod:`duotone.federation.protocols`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn

from duotone.federation.aggregate import ServerAdam, aggregated
from duotone.federation.local_training import train
from duotone.federation.params import Parts, divided
from duotone.federation.settings import MethodSettings
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
    """How many rounds a run has by default."""
    features_part: ClassVar[Part] = "shared"
    """Whether all clients compute features alike, or each with layers of its own."""
    table_model: ClassVar[str] = "mlp"
    """The default model for tables; images have cnn-bn."""
    own_model: ClassVar[str | None] = None
    """What the method's network is called, if it brings its own instead of taking any model."""
    uses_unlabelled: ClassVar[bool] = False
    """Whether the method also learns from samples without a label."""
    told: ClassVar[tuple[str, ...]] = ("train_loss",)
    """The numbers a client tells of its training; others it sends are dropped, and that is said."""
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
            owner: The module that holds it, so that BatchNorm is found in any model.
        """
        # The power-iteration vectors of spectral normalisation belong to one client's weights, and
        # their mean would fit no weights.
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
        return self.trained(model, data, train(model, data, self.config, info))

    def server_update(
        self, server: ServerState, updates: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Return the server's next state: the mean or a robust one, or an Adam step towards it."""
        mean = aggregated(updates, server.shared, self.config.aggregate, self.config.hostile)
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
        """Return a newcomer's state from inputs or labelled samples; by default as a member's."""
        return self.before_use(server, self.first_state(server, info), data, info)

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
        """Return both parts of a freshly initialised network, the same for every client.

        A method that needs several different networks names them.
        """
        key = (info.seed, info.data, *name)
        if self._initial is None or self._initial[0] != key:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(derive(info.seed, "initial", *name))
                self._initial = (key, self.split(self.build(info.data)))
        # Copies: what one client changes must not reach the next.
        shared, local = ({n: t.clone() for n, t in part.items()} for part in self._initial[1])
        return shared, local

    def trained(
        self,
        model: nn.Module,
        data: ClientData,
        loss: float,
        sent: Params | None = None,
        kept: Params | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> tuple[ClientUpdate, ClientState]:
        """Return what leaves a client after training, and what stays.

        The update carries ``sent`` in ``extra``, and the state ``kept``.
        """
        shared, local = self.split(model)
        told = {"train_loss": loss, **(metrics or {})}
        update = ClientUpdate(data.client, shared, len(data), sent or {}, told)
        return update, ClientState(local, kept or {})

    def parameters_of(self, model: nn.Module, part: Part) -> list[nn.Parameter]:
        """Return the parameters of one part, to train them alone."""
        return [
            tensor
            for name, tensor, owner in named_tensors(model)
            if isinstance(tensor, nn.Parameter)
            and self.is_shared(name, owner) == (part == "shared")
        ]

    def module(self, data: DataInfo) -> nn.Module:
        """Return this process's network, built once; it holds the parameters of its last user."""
        if self._module is None or self._module[0] != data:
            # Building draws random numbers; a client's own stream must not notice who built.
            with torch.random.fork_rng(devices=[]):
                module = self.build(data).to(self.device)
            if data.is_image:
                # What convolutions on a CPU are fastest with, unless the network names another.
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
        return divided(model, self.is_shared)

    def __getstate__(self) -> dict[str, Any]:
        # A worker process builds its own network.
        return {**self.__dict__, "_module": None, "_initial": None}
