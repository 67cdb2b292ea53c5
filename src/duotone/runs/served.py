"""The models of a finished run as its clients use them, kept so that no data is needed again.

served/
  index.json                 form of the data, who the clients are, checksums
  last/7.safetensors         what in client 7's model is not as the server has it
  selected/7.safetensors     likewise for the round that validation data would choose
  joined/new.safetensors     a newcomer that joined the finished run and was kept

The shared tensors are those of the checkpoints. A client whose whole model is the server's has no
file. Nothing is pickled.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar, TypeAlias

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from duotone.config import MANY_CLIENTS
from duotone.errors import CheckpointError, DuotoneError
from duotone.federation.backends import Backend, ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.engine import size_in_bytes
from duotone.federation.journal import file_stem
from duotone.federation.levels import Level
from duotone.federation.manifest import Which
from duotone.federation.method import Method
from duotone.federation.params import stored, unpacked
from duotone.federation.serving import Serving, by_client
from duotone.federation.store import CommittedRound, FolderStore, Shelf
from duotone.files import (
    disk_errors,
    read_json_file,
    read_regular,
    refuse_links,
    write_atomically,
    write_durably,
)
from duotone.partition.partition import Partition, Population
from duotone.runs.folder import RunFolder
from duotone.runs.last_round import last_serving
from duotone.runs.plan import Plan
from duotone.types import DataInfo, NewcomerRule, Params, Role

FORMAT = 1
MOST_BYTES = 1_000_000_000
"""How much a run keeps of its clients' models; beyond it they are made from the data again."""
_AT_ONCE = 50  # clients whose models are in memory together


@dataclass(frozen=True, slots=True)
class Who:
    """One client of a finished run.

    Attributes:
        role: Member or newcomer.
        group: Its group.
        samples: Its training samples; of a joined client, the samples it showed.
    """

    role: Role
    group: str
    samples: int


@dataclass(frozen=True, slots=True)
class Kept:
    """What a client's model is made of.

    Attributes:
        base: Which of the server's models it starts from; the empty text where there is one.
        crc: The checksum of the file with the tensors that differ; ``None`` if none does.
    """

    base: str
    crc: int | None


@dataclass(frozen=True, slots=True)
class Index:
    """What ``index.json`` says.

    Attributes:
        data: The form of the samples.
        class_names: What the classes are called, if the data says.
        rule: What newcomers start from.
        clients: The clients of the run; where they are many, those whose models are kept.
        models: The models that are kept of the last round, and of the selected one if it is
            another.
        joined: Newcomers that joined the finished run.
        joined_models: Their models, after the last round.
        unlisted: How many clients of the run are not listed; its data says who they are.
    """

    data: DataInfo
    class_names: tuple[str, ...] | None
    rule: NewcomerRule
    clients: Mapping[str, Who]
    models: Mapping[Which, Mapping[str, Kept]]
    joined: Mapping[str, Who] = field(default_factory=dict)
    joined_models: Mapping[str, Kept] = field(default_factory=dict)
    unlisted: int = 0


_Index = TypeAdapter(Index)


def keep_served(
    folder: RunFolder,
    plan: Plan,
    store: FolderStore,
    backend: Backend,
    shelf: Shelf,
    evaluated: Sequence[str],
) -> None:
    """Write the models of clients as they use them, for the last and the selected round.

    All clients, or where they are many, those that are evaluated.

    Args:
        folder: The run.
        plan: What was run.
        store: Its committed rounds.
        backend: Where clients are computed.
        shelf: States of the last round that were adapted already.
        evaluated: The clients that are evaluated.
    """
    partition, last, selected = plan.population.partition, store.last, store.selected
    servings: dict[Which, tuple[CommittedRound, Serving]] = {
        "last": (last, replace(last_serving(plan, last), shelf=shelf))
    }
    if selected is not None and selected.round != last.round:
        servings["selected"] = (selected, last_serving(plan, selected))
    is_few = len(partition) <= MANY_CLIENTS
    every = partition.clients if is_few else evaluated
    if not is_few:
        folder.log(f"the models of {len(every)} evaluated clients of {len(partition)} are kept")
    models: dict[Which, dict[str, Kept]] = {}
    left = MOST_BYTES
    for which, (committed, serving) in servings.items():
        place = _made(folder.path, which)
        models[which] = {}
        for client, base, tensors in _differences(serving, committed, plan, backend, every):
            left -= size_in_bytes(tensors)
            if left < 0:
                break
            models[which][client] = Kept(base, _write(place, client, tensors))
        if left < 0:
            backend.say(
                f"The models of {len(models[which])} of {len(every)} clients after round "
                f"{committed.round} are kept in the run; with more they would take over "
                f"{MOST_BYTES / 1e9:g} GB. The others can be used where the run's data is at hand."
            )
            break
    index = Index(
        data=plan.population.info,
        class_names=plan.population.dataset.class_names,
        rule=plan.rule,
        clients={client: who_is(partition, client) for client in every},
        models=models,
        unlisted=len(partition) - len(every),
    )
    write_index(folder.path, index)


def who_is(partition: Partition, client: str) -> Who:
    """Return what a run says of one of its clients."""
    position = partition.position(client)
    return Who(partition.roles[position], partition.groups[position], partition.size(client))


Differing: TypeAlias = tuple[str, dict[str, torch.Tensor]]
"""Which of the server's models a client's starts from, and the tensors that are its own."""


@travels
@dataclass(frozen=True, slots=True)
class OwnTensorsJob:
    """Find out what in a client's model is not as the server has it."""

    level: ClassVar[Level] = "simulation"
    sends: ClassVar[str] = "model"

    serving: Serving

    def __call__(self, method: Method, population: Population, task: ClientTask) -> Differing:
        """Return the base and the tensors."""
        params = self.serving.personal(method, population, task)
        return own_tensors(params, self.serving.server.shared)


def own_tensors(params: Params, shared: Params) -> Differing:
    """Return which of the server's models some parameters are nearest to, and what differs.

    A server has one model, or several under names of their own, as in IFCA.
    """
    found: list[Differing] = []
    for base in dict.fromkeys(["", *(name.rpartition("/")[0] for name in shared)]):
        of_server = server_model(shared, base)
        own = {
            name: stored(tensor)
            for name, tensor in params.items()
            if name not in of_server or not _equal(tensor, of_server[name])
        }
        found.append((base, own))
    return min(found, key=lambda pair: size_in_bytes(pair[1]))


def server_model(shared: Params, base: str) -> Params:
    """Return one of the server's models."""
    return unpacked(shared, base) if base else shared


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.dtype == second.dtype and torch.equal(first.cpu(), second.cpu())


def _differences(
    serving: Serving,
    committed: CommittedRound,
    plan: Plan,
    backend: Backend,
    every: Sequence[str],
) -> Iterator[tuple[str, str, dict[str, torch.Tensor]]]:
    """Yield clients with what is their own; those that fail are left out, and the user told."""
    job = OwnTensorsJob(serving)
    for start in range(0, len(every), _AT_ONCE):
        clients = every[start : start + _AT_ONCE]
        try:
            found = by_client(job, clients, plan.population, committed, backend)
        except DuotoneError as error:  # all of these, and for one reason
            backend.say(f"No model is kept of {', '.join(clients)}: {error}")
            continue
        for client, (base, tensors) in found.items():
            yield client, base, tensors


def _made(run: Path, name: str) -> Path:
    place = run / "served" / name
    refuse_links(run, "served")
    refuse_links(run / "served", name)
    with disk_errors(place):
        place.mkdir(parents=True, exist_ok=True)
    return place


def _write(place: Path, client: str, tensors: Params) -> int | None:
    if not tensors:
        return None
    content: bytes = save_tensors(dict(tensors))
    write_durably(place / f"{file_stem(client)}.safetensors", content)
    return zlib.crc32(content)


def write_index(run: Path, index: Index) -> None:
    """Replace ``index.json``."""
    _made(run, ".")
    content = {"format": FORMAT, **asdict(index)}
    write_atomically(run / "served" / "index.json", json.dumps(content).encode())


def read_index(run: Path) -> Index | None:
    """Return what a run says of its clients; ``None`` if it was made before runs said so.

    Raises:
        CheckpointError: The file is damaged.
    """
    path = run / "served" / "index.json"
    refuse_links(run, "served")
    if not path.exists():
        return None
    try:
        content = read_json_file(path)
        if content.pop("format") != FORMAT:
            raise CheckpointError(
                f"{path} was written by another version of duotone; open it with that version."
            )
        return _Index.validate_python(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = "a value of the wrong form" if isinstance(error, ValidationError) else error
        raise CheckpointError(
            f"{path} is damaged and cannot be read ({reason}); restore it from a copy."
        ) from error


def keep_own(run: Path, client: str, params: Params, shared: Params) -> Kept:
    """Write the model of the one client whose run it is; return what the index says of it."""
    base, tensors = own_tensors(params, shared)
    return Kept(base, _write(_made(run, "last"), client, tensors))


def keep_joined(
    run: Path, index: Index, client: str, who: Who, params: Params, shared: Params
) -> None:
    """Write the model of a client that joined a finished run."""
    base, tensors = own_tensors(params, shared)
    kept = Kept(base, _write(_made(run, "joined"), client, tensors))
    joined_models = {**index.joined_models, client: kept}
    write_index(
        run, replace(index, joined={**index.joined, client: who}, joined_models=joined_models)
    )


def read_model(run: Path, place: str, client: str, kept: Kept, shared: Params) -> Params:
    """Return the parameters of a client's model.

    Args:
        run: The run's folder.
        place: ``last``, ``selected`` or ``joined``.
        client: Whose model.
        kept: What the index says of it.
        shared: The shared tensors of that round.

    Raises:
        CheckpointError: Its file is missing or damaged.
    """
    base = server_model(shared, kept.base)
    if kept.crc is None:
        return base
    path = run / "served" / place / f"{file_stem(client)}.safetensors"
    refuse_links(run / "served", place)
    try:
        content = read_regular(path)
        if zlib.crc32(content) != kept.crc:
            raise CheckpointError(
                f"{path} is damaged (its checksum differs); restore it from a copy."
            )
        return {**base, **load_tensors(content)}
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from error
