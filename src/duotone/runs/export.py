"""A client's model in a folder of its own, to be used where there is no run and no data.

FOLDER/
  README.md           a card: what this is, what it was made from, how to use it
  client.json         the form of the samples, the classes, the method
  model.safetensors   the model as the client uses it (format torch)
  model.onnx          the same as a graph that needs no duotone (format onnx)
"""

from __future__ import annotations

import json
import logging
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from duotone.errors import ConfigError, MissingExtraError, RunError
from duotone.federation.method import Method
from duotone.federation.params import stored
from duotone.files import disk_errors, read_json_file, read_regular, write_atomically
from duotone.registry import check_file
from duotone.runs.client import Client, ClientFacts
from duotone.runs.draft import OBJECT
from duotone.runs.export_card import card
from duotone.runs.last_round import method_again
from duotone.runs.plan import Model

Format: TypeAlias = Literal["torch", "onnx"]
_VERSION = 1
_Facts = TypeAdapter(ClientFacts)


def export(client: Client, folder: str | Path, format: Format = "torch") -> Path:
    """Write a client's model into a folder that is complete in itself.

    Args:
        client: The client.
        folder: The folder to make.
        format: ``torch``, to be opened with :func:`load_client`; or ``onnx``.

    Raises:
        ConfigError: The folder is not empty, the format is unknown, or ONNX cannot express the
            network.
        MissingExtraError: ONNX is not installed.
    """
    place = Path(folder)
    if format not in ("torch", "onnx"):
        raise ConfigError(f"A model is exported as 'torch' or 'onnx'. Got {format!r}.")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ConfigError(f"{place} exists already and is not empty; choose another folder.")
    # First the content: what cannot be made leaves no folder behind.
    if format == "onnx":
        name, content = "model.onnx", onnx_graph(client)
    else:
        tensors = {name: stored(tensor) for name, tensor in client.params.items()}
        name, content = "model.safetensors", save_tensors(tensors)
    with disk_errors(place):
        place.mkdir(parents=True, exist_ok=True)
    write_atomically(place / name, content)
    write_atomically(place / "README.md", card(client.facts, client.method, format).encode())
    facts = {"format": _VERSION, "file": name, "crc": zlib.crc32(content), **asdict(client.facts)}
    told = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    write_atomically(place / "client.json", told.encode())
    return place


def load_client(
    folder: str | Path, *, method: type[Method] | None = None, model: Model | None = None
) -> Client:
    """Open a client that was exported in the format torch; neither run nor data is needed.

    Args:
        folder: What :meth:`Client.export` wrote.
        method: The method again, if it was made in Python.
        model: The model again, likewise.

    Raises:
        RunError: The folder holds no such client, or is damaged.
        ConfigError: It names code that was neither given nor allowed.
    """
    place = Path(folder)
    path = place / "client.json"
    if not path.is_file():
        raise RunError(f"{place} is not the folder of an exported client: it lacks client.json.")
    try:
        content = read_json_file(path)
        version, name, crc = (content.pop(key) for key in ("format", "file", "crc"))
        facts = _Facts.validate_python(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = "a value of the wrong form" if isinstance(error, ValidationError) else error
        raise RunError(f"{path} is damaged and cannot be read ({reason}).") from error
    if version != _VERSION:
        raise RunError(f"{path} was written by another version of duotone; open it with that one.")
    if name != "model.safetensors":
        raise RunError(
            f"{place} holds an ONNX graph, which needs no duotone; open {place / 'model.onnx'} "
            "with onnxruntime, or export again with format='torch'."
        )
    for what, given, was in (
        ("method", method, facts.method.get("name")),
        ("model", model, facts.model),
    ):
        if given is None and str(was).startswith(OBJECT):
            raise RunError(
                f"{place} used a {what} made in Python ({str(was).removeprefix(OBJECT)}); give it "
                f"again: duotone.load_client({str(place)!r}, {what}=…)"
            )
    check_file(
        {
            "method": None if method is not None else facts.method.get("name"),
            "model": None if model is not None else facts.model,
        }
    )
    used = method_again(facts.method, model or facts.model, facts.info, method=method)
    try:
        tensors = read_regular(place / name)
        if zlib.crc32(tensors) != crc:
            raise RunError(f"{place / name} is damaged (its checksum differs); export it again.")
        params = load_tensors(tensors)
        # A few bytes may announce a million classes, and a network for them fills the memory.
        if facts.info.outputs > sum(tensor.numel() for tensor in params.values()):
            raise RunError(f"{path} is damaged: its model has fewer numbers than outputs.")
        return Client(facts, used, params)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{place / name} cannot be read: {error}.") from error


class _Graph(nn.Module):
    """A client's model with what comes before and after it: samples in, scores out.

    Args:
        client: The client.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.network = client.model().cpu()
        self.method = client.method
        self.info = client.facts.info

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return scores and, for classes, probabilities."""
        if self.info.is_image:
            x = (x.float() / 255).permute(0, 3, 1, 2)
        scores = self.method.predict(self.network, x)
        return (scores, scores.softmax(dim=1)) if self.info.task == "classes" else (scores,)


@contextmanager
def _silence() -> Iterator[None]:
    """Keep torch from talking about its own changes and about packages nobody asked for."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def onnx_graph(client: Client) -> bytes:
    """Return a client's model as an ONNX graph.

    Its input ``x`` is uint8 ``(samples, height, width, channels)`` for images, float32
    ``(samples, features)`` for tables and int64 ``(samples, characters)`` for text. Its outputs
    are ``scores`` and, for classes, ``probabilities``.

    Raises:
        MissingExtraError: ONNX is not installed.
        ConfigError: ONNX cannot express the network.
    """
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"ONNX needs {' and '.join(missing)}; install: pip install 'duotone[export]'"
        )
    info = client.facts.info
    # Two samples: of one, torch takes it that there is never another number of them.
    x = info.blank(2)
    if info.is_image:
        x = x.permute(0, 2, 3, 1).to(torch.uint8).contiguous()
    outputs = ["scores", *(["probabilities"] if info.task == "classes" else [])]
    try:
        with _silence():
            program = torch.onnx.export(
                _Graph(client).eval(),
                (x,),
                dynamo=True,
                verbose=False,
                input_names=["x"],
                output_names=outputs,
                dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
            )
        assert program is not None
        content: bytes = program.model_proto.SerializeToString()
    except Exception as error:  # torch.export has its own family of errors
        raise ConfigError(
            f"The network of {client.method.name!r} cannot be expressed in ONNX "
            f"({type(error).__name__}); export it with format='torch'."
        ) from error
    return content
