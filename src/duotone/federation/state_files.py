"""States as files: two mappings of tensors in one safetensors file, known by its checksum."""

from __future__ import annotations

import zlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from duotone.errors import CheckpointError
from duotone.files import read_regular
from duotone.types import Params


def read_state(
    folder: Path, name: str, crc: int
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return the two mappings of tensors that a file holds.

    Raises:
        CheckpointError: It is missing, damaged, or no regular file.
    """
    path = folder / name
    try:
        content = read_regular(path)
        if zlib.crc32(content) != crc:
            raise CheckpointError(
                f"The checkpoint {path} is damaged (its checksum differs); restore it from a "
                "copy, or start the run anew."
            )
        return unpacked_state(content)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"The checkpoint {path} cannot be read: {error}.") from error


def packed_state(first: Params, extra: Params) -> bytes:
    """Return two mappings of tensors as the content of a file."""
    # Safetensors wants contiguous tensors that own their memory, and two names may share one.
    parts = {"main": first, "extra": extra}
    tensors = {
        f"{part}/{key}": tensor.clone(memory_format=torch.contiguous_format)
        for part, params in parts.items()
        for key, tensor in params.items()
    }
    content: bytes = save_tensors(tensors)
    return content


def unpacked_state(content: bytes) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Return the two mappings that :func:`packed_state` made a file of."""
    tensors = load_tensors(content)
    main, extra = (
        {key.removeprefix(part): tensor for key, tensor in tensors.items() if key.startswith(part)}
        for part in ("main/", "extra/")
    )
    return main, extra
