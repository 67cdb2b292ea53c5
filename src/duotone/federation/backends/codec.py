"""Jobs and answers as messages: a JSON text and the tensors it refers to. Nothing is pickled.

Only types that say so can travel: jobs and answers are marked by :func:`travels`. A client's state
is not among them, so no message can hold one. What is read back is built of the same types, and of
nothing else, whatever a message says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from duotone.types import ClientUpdate, DataInfo, RoundInfo, ServerState

AnyType = TypeVar("AnyType", bound=type)
Arrays = dict[str, np.ndarray[Any, Any]]

_TRAVELLING: dict[str, type] = {
    kind.__name__: kind for kind in (ClientUpdate, DataInfo, RoundInfo, ServerState)
}
_STAYING: set[type] = set()
_ROOMS: list[str] = []


class Unsendable(TypeError):
    """A value that no message may hold."""


def travels(kind: AnyType) -> AnyType:
    """Let a data class travel between server and clients, under its name."""
    _TRAVELLING[kind.__name__] = kind
    return kind


def also_in(*modules: str) -> None:
    """Name modules that hold more types; one is imported when a message needs it."""
    _ROOMS.extend(modules)


def stays(kind: AnyType) -> AnyType:
    """Leave objects of a type out of messages: they are of use only where they are."""
    _STAYING.add(kind)
    return kind


def packed(value: Any) -> tuple[str, Arrays]:
    """Return a value as text and arrays.

    Raises:
        Unsendable: Something in it may not travel.
    """
    arrays: Arrays = {}
    return json.dumps(_plain(value, arrays)), arrays


def unpacked(text: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    """Return the value that :func:`packed` made a message of; its tensors are its own.

    Raises:
        ValueError: This is no such message.
    """
    try:
        return _value(json.loads(text), arrays)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no message of duotone ({type(error).__name__}: {error})") from None


def _plain(value: Any, arrays: Arrays) -> Any:
    if type(value) in _STAYING:
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Tensor):
        return _plain_tensor(value, arrays)
    if isinstance(value, np.ndarray):
        return {"array": _kept(value, arrays)}
    if isinstance(value, Mapping):
        pairs = [[_plain(k, arrays), _plain(v, arrays)] for k, v in value.items()]
        return {"map": pairs}
    if isinstance(value, (list, tuple)):
        sort = "list" if isinstance(value, list) else "tuple"
        return {sort: [_plain(each, arrays) for each in value]}
    kind = type(value)
    if _TRAVELLING.get(kind.__name__) is not kind:
        raise Unsendable(f"a {kind.__name__} may not travel between a client and the server")
    inner = {f.name: _plain(getattr(value, f.name), arrays) for f in fields(value)}
    return {"type": kind.__name__, "fields": inner}


def _plain_tensor(tensor: Tensor, arrays: Arrays) -> dict[str, Any]:
    clean = tensor.detach().cpu().contiguous()
    if clean.dtype is torch.bfloat16:  # NumPy has none
        return {"bfloat16": _kept(clean.view(torch.int16).numpy(), arrays)}
    return {"tensor": _kept(clean.numpy(), arrays)}


def _kept(array: np.ndarray[Any, Any], arrays: Arrays) -> str:
    if array.dtype.hasobject:
        raise Unsendable("an array of Python objects may not travel")
    name = str(len(arrays))
    arrays[name] = array
    return name


def _known(name: str) -> type:
    for module in _ROOMS:
        if name in _TRAVELLING:
            break
        import_module(module)
    return _TRAVELLING[name]


def _value(plain: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    if not isinstance(plain, dict):
        return plain
    if "type" in plain:
        kind = _known(plain["type"])
        return kind(**{name: _value(each, arrays) for name, each in plain["fields"].items()})
    (sort, inner), *more = plain.items()
    if more:
        raise KeyError(f"{sort} and {more[0][0]}")
    if sort == "map":
        return {_value(key, arrays): _value(each, arrays) for key, each in inner}
    if sort in ("list", "tuple"):
        found = [_value(each, arrays) for each in inner]
        return found if sort == "list" else tuple(found)
    own = np.array(arrays[inner])  # a copy: what a client changes is its own
    if sort == "array":
        return own
    if sort == "bfloat16":
        return torch.from_numpy(own).view(torch.bfloat16)
    if sort == "tensor":
        return torch.from_numpy(own)
    raise KeyError(sort)
