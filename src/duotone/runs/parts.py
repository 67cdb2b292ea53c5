"""What the two parts of a method's state amount to."""

from __future__ import annotations

from dataclasses import dataclass

from duotone.federation.engine import size_in_bytes
from duotone.federation.method import Method, Part
from duotone.types import DataInfo, Params, RoundInfo


@dataclass(frozen=True, slots=True)
class PartSize:
    """What one part of a method's state amounts to.

    Attributes:
        parameters: Numbers that are trained.
        buffers: Other numbers, such as BatchNorm's statistics.
        bytes: All of them in memory.
        layers: The layers they belong to, in the model's order.
    """

    parameters: int
    buffers: int
    bytes: int
    layers: tuple[str, ...]


def part_sizes(method: Method, data: DataInfo) -> dict[Part, PartSize]:
    """Count what the server sends each client, and what a client keeps, at the beginning."""
    info = RoundInfo(0, 1, 0, data)
    server = method.start(info)
    client = method.first_state(server, info)
    trained = {name for name, _ in method.module(data).named_parameters()}
    parts: dict[Part, Params] = {"shared": server.shared, "local": {**client.local, **client.extra}}
    sizes: dict[Part, PartSize] = {}
    for part, tensors in parts.items():
        counts = {name: tensor.numel() for name, tensor in tensors.items()}
        parameters = sum(n for name, n in counts.items() if name.rpartition("/")[2] in trained)
        buffers = sum(counts.values()) - parameters
        plain = (name.rpartition("/")[2] for name in tensors)  # several models have equal layers
        layers = dict.fromkeys(name.rpartition(".")[0] or name for name in plain)
        sizes[part] = PartSize(parameters, buffers, size_in_bytes(tensors), tuple(layers))
    return sizes
