"""Backbones that were trained elsewhere, from timm, with weights from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from duotone.errors import ConfigError, MissingExtraError
from duotone.networks.shapes import image_shape
from duotone.registry import did_you_mean
from duotone.types import DataInfo


@dataclass(frozen=True, slots=True)
class Pretrained:
    """Builds a backbone with a new last layer; see :func:`pretrained`."""

    name: str
    weights: str | None

    def __call__(self, data: DataInfo) -> nn.Module:
        """Return the network for some data: its channels in, its classes out."""
        timm = _timm()
        channels, _, _ = image_shape(data, f"timm's {self.name}", smallest=8)
        given = {} if self.weights is None else {"pretrained_cfg_overlay": {"file": self.weights}}
        try:
            network = timm.create_model(
                self.name,
                pretrained=self.weights is not None,
                num_classes=data.outputs,
                in_chans=channels,
                **given,
            )
        except RuntimeError as error:
            first = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"The backbone {self.name!r} cannot be built ({first}); check its name with "
                "timm.list_models(), and that the weights are of this very network."
            ) from error
        return Backbone(network, channels)


class Backbone(nn.Module):
    """A network of timm that is given pixels in [0, 1], scaled as it was trained with.

    Args:
        network: The network; its ``pretrained_cfg`` says which mean and deviation it expects.
        channels: Of the images; grey ones are scaled by the mean of the three colours.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: Any, channels: int) -> None:
        super().__init__()
        self.network = network
        for name in ("mean", "std"):
            values = torch.tensor(network.pretrained_cfg[name]).view(1, -1, 1, 1)
            values = values if channels == 3 else values.mean(dim=1, keepdim=True)
            self.register_buffer(name, values, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        scores: Tensor = self.network((x - self.mean) / self.std)
        return scores


def pretrained(name: str, weights: str | Path | None = None) -> Pretrained:
    """Return a backbone of timm as a model for ``duotone.run``.

    Its last layer is new, with as many outputs as the data has classes; for grey images the first
    one is summed over its colours. What of it is shared says the method: with ``fedper`` or
    ``fedrep`` the backbone is, and the last layer is each client's own.

    Args:
        name: As timm calls it, such as "resnet18"; see ``timm.list_models()``.
        weights: A safetensors file with its weights; nothing is downloaded, nothing unpickled.
            Without it the network starts from random weights.

    Raises:
        MissingExtraError: timm is not installed.
        ConfigError: There is no such backbone, or no such file.
    """
    timm = _timm()
    if not timm.is_model(name):
        near = did_you_mean(name, timm.list_models())
        raise ConfigError(f"timm has no network {name!r}.{near} List them: timm.list_models()")
    if weights is not None and Path(weights).suffix != ".safetensors":
        raise ConfigError(
            f"{str(weights)!r} is no safetensors file, and others can carry code; write one with "
            "safetensors.torch.save_file(state, path)."
        )
    if weights is not None and not Path(weights).is_file():
        raise ConfigError(f"There is no file {str(weights)!r} with the weights of {name!r}.")
    return Pretrained(name, None if weights is None else str(Path(weights).resolve()))


def _timm() -> Any:
    try:
        import timm
    except ImportError as error:
        raise MissingExtraError(
            "Pretrained backbones need timm; install it: pip install 'duotone[backbones]'"
        ) from error
    return timm
