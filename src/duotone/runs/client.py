"""A client of a finished run: its model, to be used."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from duotone.data.preparing import Preparation
from duotone.errors import ClientError, ConfigError, RunError
from duotone.federation.backends.serial import one_thread
from duotone.federation.method import Method
from duotone.networks.reading import BATCH, in_batches
from duotone.registry import import_object
from duotone.runs.explanation import Explanation, Reference
from duotone.runs.inputs import Samples, as_inputs
from duotone.types import DataInfo, Latents, NewcomerRule, Params, Role

if TYPE_CHECKING:
    from duotone.runs.export import Format
    from duotone.runs.opened import OpenedRun


Used = TypeVar("Used")


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """What is known of a client beside its model.

    Attributes:
        name: What it is called.
        role: Whether it took part in training or came afterwards.
        group: Its group; empty for a client that joined the finished run.
        samples: Training samples it has or showed.
        gave: What a newcomer showed to get its model; ``None`` for a member.
        round: The round its model is of.
        info: The form of the samples.
        class_names: What the classes are called, if the data says.
        method: The settings of the method, with its name.
        model: The name of the network.
        data: The name of the data.
        preparation: How features are made of the columns of a table, if the run had one.
    """

    name: str
    role: Role
    group: str
    samples: int
    gave: NewcomerRule | None
    round: int
    info: DataInfo
    class_names: tuple[str, ...] | None
    method: dict[str, Any]
    model: str
    data: str
    preparation: Preparation | None = None


class Client:
    """One client of a finished run, with the model it uses.

    Get one with ``run.client(name)``, ``run.join(…)`` or ``duotone.load_client(folder)``. Every
    client has a network of its own, so several can be used side by side.

    Samples are given as an array or tensor in the form of the data set (images as uint8 or floats
    from 0 to 1, ``(samples, height, width[, channels])``; tables ``(samples, features)``), or as
    one or several images of Pillow, paths of images, or folders of them.

    Args:
        facts: What is known of it.
        method: The method; it says how a network predicts.
        params: The parameters and buffers of the client's model.
        opened: The run it is of; an exported client has none.
    """

    def __init__(
        self,
        facts: ClientFacts,
        method: Method,
        params: Params,
        opened: OpenedRun | None = None,
    ) -> None:
        self.facts = facts
        self.method = method
        self.params = params
        self.opened = opened

    def __repr__(self) -> str:
        facts = self.facts
        return f"<Client {facts.name!r}: {facts.role}, {self.method.name}, round {facts.round}>"

    def _repr_html_(self) -> str:
        """Show in a notebook who it is and what can be asked of it."""
        facts = self.facts
        rows = {
            "role": facts.role if facts.gave is None else f"{facts.role}, {facts.gave}",
            "group": facts.group or "–",
            "training samples": f"{facts.samples:,}",
            "model": f"{self.method.name}, {facts.model}, round {facts.round}",
            "ask it": "predict(x), predict_proba(x), encode(x), explain(x), export(folder)",
        }
        cells = "".join(f"<tr><th>{k}</th><td>{escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table><caption>client {escape(facts.name)}</caption>{cells}</table>"

    @property
    def name(self) -> str:
        """What the client is called."""
        return self.facts.name

    @property
    def role(self) -> Role:
        """Whether it took part in training or came afterwards."""
        return self.facts.role

    @property
    def class_names(self) -> tuple[str, ...]:
        """What the classes are called: names where the data has them, else their numbers."""
        if self.facts.info.task != "classes":
            return ()
        return self.facts.class_names or tuple(map(str, range(self.facts.info.outputs)))

    def predict(self, x: Samples) -> NDArray[Any]:
        """Return the class of each sample as a number, or its value for regression.

        What a class is called is in :attr:`class_names`.

        Raises:
            DataError: The samples have another form than the run's data.
        """
        output = self.scores(x)
        if self.facts.info.task == "regression":
            return output.squeeze(1).numpy()
        return output.argmax(dim=1).numpy()

    def predict_proba(self, x: Samples) -> NDArray[np.float64]:
        """Return the probability of each class for each sample, ``(samples, classes)``.

        Raises:
            ConfigError: The run predicts numbers, not classes.
            DataError: The samples have another form than the run's data.
        """
        if self.facts.info.task == "regression":
            raise ConfigError(
                f"Client {self.name!r} predicts numbers, which have no probabilities; use predict."
            )
        return self.scores(x).softmax(dim=1).numpy()

    def scores(self, x: Samples) -> Tensor:
        """Return one score per class before the softmax, or the value for regression.

        Raises:
            DataError: The samples have another form than the run's data.
            ClientError: The model answers with something that is not a number.
        """
        return self.scores_from(self.inputs(x))

    def scores_from(self, inputs: Tensor) -> Tensor:
        """Return scores of samples that are as :meth:`inputs` returns them.

        Raises:
            ClientError: The model answers with something that is not a number.
        """
        method, network = self.method, self._network
        # As evaluation does it, so that predictions are those that were scored, to the last bit.
        with torch.inference_mode(), one_thread():
            output = in_batches(
                lambda part: method.predict(network, part.to(method.device)), inputs
            )
        output = output.cpu().double()
        if not bool(torch.isfinite(output).all()):
            raise ClientError(f"The model of client {self.name!r} answers NaN or infinite values.")
        return output

    def encode(self, x: Samples) -> Latents:
        """Return the two parts of the representation of samples: shared and local.

        Raises:
            DataError: The samples have another form than the run's data.
        """
        return self.encode_from(self.inputs(x))

    def encode_from(self, inputs: Tensor) -> Latents:
        """Return both parts for samples that are as :meth:`inputs` returns them."""
        method, network = self.method, self._network
        with torch.inference_mode(), one_thread():
            batches = torch.split(inputs, BATCH)
            found = [method.encode(network, batch.to(method.device)) for batch in batches]
        parts: dict[str, Tensor | None] = {}
        for part in ("shared", "local", "shared_std", "local_std"):
            pieces = [getattr(latents, part) for latents in found]
            parts[part] = None if pieces[0] is None else torch.cat(pieces).cpu()
        return Latents(**parts)  # type: ignore[arg-type]

    def model(self) -> nn.Module:
        """Return the client's network, in evaluation mode: a copy, yours to change.

        It takes what :meth:`inputs` returns. ``client.method.predict(network, inputs)`` gives
        scores; for most methods that is what the network itself gives.
        """
        return copy.deepcopy(self._network)

    def used(self, function: Callable[[nn.Module], Used]) -> Used:
        """Return what a function computes with the client's own network, which it must not change.

        It saves the copy that :meth:`model` makes.
        """
        with torch.inference_mode(), one_thread():
            return function(self._network)

    def inputs(self, x: Samples) -> Tensor:
        """Return samples as the network sees them: pixels in [0, 1], channels first; or features.

        Raises:
            DataError: The samples have another form than the run's data.
        """
        return as_inputs(x, self.facts.info, self.facts.preparation)

    def explain(
        self,
        x: Samples | None = None,
        *,
        sample: int | None = None,
        against: str | None = None,
        reference: Reference | None = None,
    ) -> Explanation:
        """Say why the client answers one sample as it does; print the card, or look at it.

        Args:
            x: One sample, as for :meth:`predict`.
            sample: Instead of it, the number of one of the client's own test samples.
            against: Another client: why do the two differ?
            reference: Whom the answer is compared with: all "members", which needs their local
                parts, or the "shared" model alone. By default members, and the shared model where
                a client of a federation keeps the run on its own machine.

        Raises:
            ConfigError: Not one sample was given, or the method has no shared model.
            DataError: The sample has another form than the run's data.
            RunError: The client was exported, or what is needed is not at hand.
        """
        # Named, not imported: explanations stand above runs.
        card: Explanation = import_object("duotone.explain:explain")(
            self, x, sample=sample, against=against, reference=reference
        )
        return card

    def export(self, folder: str | Path, format: Format = "torch") -> Path:
        """Write the model into a folder that needs neither the run nor its data; return it.

        Args:
            folder: The folder to make.
            format: "torch", to be opened with ``duotone.load_client``; or "onnx", which needs no
                duotone at all.

        Raises:
            ConfigError: The folder is not empty, or ONNX cannot express the network.
            MissingExtraError: ONNX is not installed.
        """
        # Named, not imported: it makes clients itself.
        written: Path = import_object("duotone.runs.export:export")(self, folder, format)
        return written

    @cached_property
    def _network(self) -> nn.Module:
        try:
            # The method has one network, which the next client will be loaded into.
            return copy.deepcopy(self.method.load(self.params, self.facts.info)).eval()
        except (RuntimeError, MemoryError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise RunError(
                f"The parameters of client {self.name!r} do not fit its model ({reason}); its "
                "files are damaged, or the model was changed."
            ) from error
