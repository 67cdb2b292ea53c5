"""What only some methods can do.

A method can do it if it has everything that the protocol lists; it need not name the protocol.
Callers ask with ``isinstance(method, Collects)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from duotone.errors import ConfigError
from duotone.federation.method import Part
from duotone.types import (
    ClientData,
    ClientState,
    ClientUpdate,
    DataInfo,
    Draws,
    Form,
    Latents,
    Params,
    RoundInfo,
    ServerState,
    Unit,
)


@runtime_checkable
class Collects(Protocol):
    """A method that asks all members for statistics when a round is over."""

    def collects(self, info: RoundInfo) -> int:
        """Return how many times members are asked after this round; 0 for not at all."""
        ...

    def collect(
        self, server: ServerState, client: ClientState, data: ClientData, info: RoundInfo
    ) -> ClientUpdate:
        """Return a member's statistics in ``extra``, with nothing in ``shared``; train nothing."""
        ...

    def collected_form(self, server: ServerState, info: RoundInfo) -> dict[str, Form]:
        """Declare the statistics of a member by name; anything else is refused."""
        ...

    def pool(
        self, server: ServerState, collected: list[ClientUpdate], info: RoundInfo
    ) -> ServerState:
        """Return the server's next state, made from the statistics of all members."""
        ...


def check_collects(method: object) -> None:
    """Make sure that a method which collects statistics answers all that this asks.

    Raises:
        ConfigError: It answers some, so that it would silently collect nothing.
    """
    asked = ("collects", "collect", "collected_form", "pool")
    missing = [name for name in asked if not hasattr(method, name)]
    if missing and len(missing) < len(asked):
        raise ConfigError(
            f"The method {getattr(method, 'name', method)!r} collects statistics and must answer "
            f"{' and '.join(missing)} as well."
        )


@runtime_checkable
class AsksSome(Protocol):
    """A method that need not ask all members for statistics."""

    def asks(self, members: Sequence[str], trained: Sequence[str]) -> Sequence[str]:
        """Return whom to ask: some of all members, or of those who trained in the round."""
        ...


@runtime_checkable
class Warns(Protocol):
    """A method that can detect when a trained model is not to be trusted."""

    def warnings(self, server: ServerState) -> list[str]:
        """Return what the user must know about the trained model, one sentence each."""
        ...


@runtime_checkable
class Monitors(Protocol):
    """A method that has scores of its own about a trained model."""

    @property
    def monitor_units(self) -> Mapping[str, Unit]:
        """The unit of each of these scores."""
        ...

    def monitors(self, server: ServerState) -> dict[str, float]:
        """Return the scores by name."""
        ...


@runtime_checkable
class HasCommonAxes(Protocol):
    """A method whose clients have local parameters in an encoder, but comparable codes."""

    def has_common_axes(self, part: Part) -> bool:
        """True if local parameters only preprocess the input of the encoder of this part."""
        ...


@runtime_checkable
class Decodes(Protocol):
    """A method that can turn a representation back into samples."""

    device: str

    def load(self, params: Params, data: DataInfo) -> nn.Module:
        """Put parameters into this process's network and return it."""
        ...

    def encode(self, model: nn.Module, x: Tensor) -> Latents:
        """Return the two parts of the representation."""
        ...

    def decode(self, model: nn.Module, latents: Latents) -> Tensor:
        """Return samples of the form the model is given, images in [0, 1]."""
        ...


@runtime_checkable
class FindsConcepts(Protocol):
    """A method that describes clients as mixtures of concepts."""

    def facts(self, model: nn.Module) -> dict[str, float]:
        """Return a client's weights of the concepts, by name."""
        ...

    def nearness(self, model: nn.Module, x: Tensor) -> Tensor:
        """Return how near samples lie to each concept: logarithms of densities, but a constant."""
        ...


@runtime_checkable
class ExchangesCodes(Protocol):
    """A method whose answers can be asked for with another local code than a sample's own."""

    device: str

    def predict_with(self, model: nn.Module, x: Tensor, local: Tensor) -> Tensor:
        """Return the scores of samples as if these were their local codes.

        With the codes that :meth:`Method.encode` gives for the samples it is what ``predict``
        gives.
        """
        ...


@runtime_checkable
class SwitchesContext(Protocol):
    """A method whose models can take a client's context into account, if a buffer says so."""

    def context_switch(self, model: nn.Module) -> str | None:
        """Return the name of the buffer that turns it on; ``None`` if the model has none."""
        ...


@runtime_checkable
class Generates(Protocol):
    """A method that can draw samples."""

    device: str

    @property
    def draws_labels(self) -> bool:
        """True if samples of a given class can be asked for."""
        ...

    def load(self, params: Params, data: DataInfo) -> nn.Module:
        """Put parameters into this process's network and return it."""
        ...

    def draw(self, model: nn.Module, count: int, generator: torch.Generator) -> Draws:
        """Draw the latents of some samples."""
        ...

    def generate(self, model: nn.Module, draws: Draws, label: Tensor | None = None) -> Tensor:
        """Return the samples of some latents, images in [0, 1].

        The same latents and labels give the same samples, and nothing in the model changes.

        Args:
            model: A client's model.
            draws: The latents.
            label: One class per sample, if :attr:`draws_labels`.
        """
        ...


@runtime_checkable
class Restyles(Protocol):
    """A method that draws one client's samples as another would have them, in a way of its own.

    A method that encodes and decodes need not say how: a shared code and another's local code do.
    """

    device: str

    def load(self, params: Params, data: DataInfo) -> nn.Module:
        """Put parameters into this process's network and return it."""
        ...

    def take_off(
        self, model: nn.Module, x: Tensor, generator: torch.Generator, *, redrawn: bool
    ) -> Tensor:
        """Return what is left of a client's samples without its style, one row for each.

        Args:
            model: The model of the client whose samples they are.
            x: All samples; what is learnt for the purpose is learnt once for them.
            generator: Of every random draw.
            redrawn: Whether no stroke of the samples may be left, only what can be drawn anew.
        """
        ...

    def put_on(self, model: nn.Module, content: Tensor, generator: torch.Generator) -> Tensor:
        """Return samples with some content in a client's style, images in [0, 1].

        Args:
            model: The model of the client whose style they get.
            content: What :meth:`take_off` returned, for any client.
            generator: Draws one of the client's styles for each.
        """
        ...
