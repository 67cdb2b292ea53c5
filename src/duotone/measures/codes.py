"""Codes: the representations of all clients in one table of samples.

The table is a run's ``latents.npz``: codes of both parts with what is known of every sample. Codes
by different encoders cannot be compared, so where a client's encoder is its own the codes that one
member's encoder gives for all samples (``common_…``) are taken instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from duotone.data.dataset import Array
from duotone.errors import ClientError
from duotone.federation.backends import ClientTask
from duotone.federation.backends.codec import travels
from duotone.federation.backends.lent import Lent, only_labelled
from duotone.federation.backends.serial import one_thread
from duotone.federation.engine import MemoryStates, federate
from duotone.federation.levels import Level
from duotone.federation.method import Method, Part
from duotone.federation.protocols import HasCommonAxes
from duotone.federation.serving import Serving
from duotone.measures.folds import CodeRows
from duotone.measures.measure import Scene
from duotone.measures.questions import Question, part_of, question
from duotone.measures.score import Aim
from duotone.methods import METHODS
from duotone.networks.reading import BATCH
from duotone.partition.partition import Population
from duotone.types import ClientData, Params, RoundInfo, Split

PARTS: tuple[Part, Part] = ("shared", "local")
CONTROL_ROUNDS = 5
"""Rounds of the plain FedAvg whose features stand beside a method's local codes."""


def kept_codes(scene: Scene) -> dict[str, Array]:
    """Return the codes of some samples of every client, with those of the controls."""
    found = collect_latents(scene)
    clients = list(dict.fromkeys(found["client"].tolist()))  # those that could be encoded
    holdings = [scene.population.partition[client] for client in clients]
    groups = [holding.group for holding in holdings if holding.role == "member"]
    if found["local"].shape[1] and 1 < len(set(groups)) < len(groups):
        found["fedavg"] = _fedavg_features(scene, clients)
    return found


def _fedavg_features(scene: Scene, clients: Sequence[str]) -> Array:
    """Return what a short plain FedAvg computes for the same samples.

    Means of almost any features tell groups apart; only what goes beyond these says something about
    a method.
    """
    control = METHODS.load("fedavg")
    method = control(control.Config(), scene.method.network, scene.method.device)
    config, population, states = scene.config, scene.population, MemoryStates()
    # FedAvg cannot learn from samples without a label, which the run's own method may use.
    *_, last = federate(
        method,
        only_labelled(population),
        rounds=min(config.rounds_made, CONTROL_ROUNDS),
        sampled=config.sampled,
        seed=config.seed,
        backend=Lent(scene.backend, method, population, is_labelled=True),
        states=states,
    )
    there = replace(
        scene,
        method=method,
        serving=Serving(last.server, last.info, "zero-shot"),
        clients=clients,
        states=states,
        backend=Lent(scene.backend, method, population),
        _made={},
    )
    return np.asarray(collect_latents(there)["shared"])


def collect_latents(scene: Scene) -> dict[str, Array]:
    """Return the codes of some samples of every client: arrays with one row per sample.

    ``shared`` and ``local`` are codes (posterior means where there is a posterior, with
    ``shared_std`` and ``local_std`` beside them); ``label, client, group, role, split, index`` say
    whose sample it is and which row of the data set; ``factor_*`` are its true factors.

    ``untrained_shared`` and ``untrained_local`` are codes by the network before training: what they
    reveal needed no learning. Where clients encode with parameters of their own, their codes cannot
    be put beside each other, unless the method says that they can; ``common_shared`` and
    ``common_local`` are codes of the same samples by one client's encoder, that of the first
    member.

    Raises:
        ClientError: No client's samples can be encoded.
    """
    method, serving, population = scene.method, scene.serving, scene.population
    samples = scene.config.latents
    members = [client for client in scene.clients if population.partition[client].role == "member"]
    with one_thread():
        others = {"untrained_": _untrained(method, serving.info)}
        for first in members[:1]:
            task = ClientTask(first, scene.states.get(first))
            common = serving.personal(method, population, task)
            if not _equal(common, serving.server.shared):
                others["common_"] = common
    job = EncodeJob(serving, samples, others)
    codes = scene.ask(job)
    if not codes:
        raise ClientError("no client's samples could be encoded")
    columns: dict[str, list[Any]] = {}
    for client, arrays in codes.items():
        for split in job.splits:
            for name, values in _facts(population, client, split, arrays, samples).items():
                columns.setdefault(name, []).append(values)
    table = {name: np.concatenate(pieces) for name, pieces in columns.items()}
    parts: tuple[Part, ...] = ("shared", "local")
    pairs = [(f"common_{part}", part) for part in parts]
    if all(name in table and np.array_equal(table[name], table[part]) for name, part in pairs):
        for name, _ in pairs:  # the encoders hold nothing local
            del table[name]
    for part in parts:
        if isinstance(method, HasCommonAxes) and method.has_common_axes(part):
            table.pop(f"common_{part}", None)
    return table


def _facts(
    population: Population, client: str, split: Split, arrays: Mapping[str, Array], samples: int
) -> dict[str, Array]:
    """Return the codes of a client's samples of a split, with what is known of each."""
    holding, rows = population.partition[client], population.rows(client, split)[:samples]
    facts = {
        "label": population.dataset.y[rows],
        "client": np.full(len(rows), client),
        "group": np.full(len(rows), holding.group),
        "kind": np.full(len(rows), holding.role),
        "split": np.full(len(rows), split),
        "index": rows,
    }
    facts |= {f"factor_{name}": values for name, values in population.factors(rows).items()}
    own = {name: values for name, values in arrays.items() if name.endswith(f"/{split}")}
    return facts | {name.removesuffix(f"/{split}"): values for name, values in own.items()}


def _untrained(method: Method, info: RoundInfo) -> Params:
    """Return the model a client would use before the first round."""
    before = replace(info, round=0)
    server = method.start(before)
    return method.personal(server, method.first_state(server, before))


def _equal(first: Params, second: Params) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(tensor, second[name]) for name, tensor in first.items()
    )


@travels
@dataclass(frozen=True, slots=True)
class EncodeJob:
    """Compute a client's representations of its first samples of some splits.

    Attributes:
        serving: How the client gets its own model.
        samples: How many samples of each split.
        others: More models, the same for every client, whose codes are wanted too.
        splits: The splits.
    """

    level: ClassVar[Level] = "simulation"
    sends: ClassVar[str] = "codes"

    serving: Serving
    samples: int
    others: Mapping[str, Params] = field(default_factory=dict)
    splits: tuple[Split, ...] = ("train", "val", "test")

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> dict[str, NDArray[np.float32]]:
        """Return arrays ``part/split``: shared, local and, where there are any, their stds.

        Codes of another model have its name in front: ``untrained_shared/test``.
        """
        arrays: dict[str, NDArray[np.float32]] = {}
        data = {
            split: population.data(task.client, split).first(self.samples) for split in self.splits
        }
        for name, params in {
            "": self.serving.personal(method, population, task),
            **self.others,
        }.items():
            model = method.load(params, self.serving.info.data).eval()
            for split in self.splits:
                if len(data[split].x) == 0:  # without validation samples there are no codes of them
                    continue
                codes = _codes(method, model, data[split])
                for part, values in codes.items():
                    if not name or part in ("shared", "local"):  # of others the means suffice
                        arrays[f"{name}{part}/{split}"] = values
        return arrays


@torch.inference_mode()
def _codes(method: Method, model: nn.Module, data: ClientData) -> dict[str, NDArray[np.float32]]:
    latents = [method.encode(model, x.to(method.device)) for x in torch.split(data.x, BATCH)]
    arrays: dict[str, NDArray[np.float32]] = {}
    for part in ("shared", "local", "shared_std", "local_std"):
        pieces = [getattr(latent, part) for latent in latents]
        if pieces[0] is not None:
            codes = torch.cat(pieces).cpu()
            if not bool(torch.isfinite(codes).all()):
                raise ClientError(f"its {part} codes hold NaN or infinite values")
            arrays[part] = codes.numpy()
    return arrays


@dataclass(frozen=True, slots=True)
class CodeTable:
    """A run's codes and all that is asked about them.

    Attributes:
        latents: The arrays as they are.
        parts: Codes of each part that has any, comparable between clients.
        questions: What is asked about every sample.
        owners: Which part should know the answer to each question.
        members: The members' samples.
        newcomers: The newcomers' samples.
        seed: Of all that is drawn.
    """

    latents: Mapping[str, Array]
    parts: Mapping[Part, Array]
    questions: Sequence[Question]
    owners: Mapping[str, Part | None]
    members: CodeRows
    newcomers: CodeRows
    seed: int

    @classmethod
    def of(cls, latents: Mapping[str, Array], data_name: str | None, seed: int) -> CodeTable:
        """Ask all that is known about the samples of some codes.

        Args:
            latents: The arrays of ``latents.npz``.
            data_name: Name of the data set, which says whose its factors are.
            seed: The seed of the run.
        """
        parts: dict[Part, Array] = {}
        for part in PARTS:
            codes = latents.get(f"common_{part}", latents[part])
            if is_code(codes):
                parts[part] = codes
        columns = {name: latents[name] for name in ("client", "group", "label")}
        columns |= {
            name.removeprefix("factor_"): values
            for name, values in latents.items()
            if name.startswith("factor_")
        }
        members = CodeRows.of(latents, "member", seed)
        asked = [question(name, values) for name, values in columns.items()]
        learnable = [
            asking
            for asking in asked
            if all(asking.at(fold.train).can_be_learnt for fold in members.folds)
        ]
        return cls(
            latents,
            parts,
            learnable if members.folds else [],
            {name: part_of(name, data_name) for name in columns},
            members,
            CodeRows.of(latents, "newcomer", seed),
            seed,
        )

    def direction(self, name: str, part: Part) -> Aim:
        """Return which way a reading of a part is better: high if it should know the answer."""
        owner = self.owners[name]
        if owner is None:
            return "reference"
        return "higher" if owner == part else "lower"

    def factors(self) -> list[Question]:
        """Return the questions that are about factors of variation, each of them once.

        The group stands in where no factor that belongs to clients is recorded; beside one it would
        mostly say the same again.
        """
        names = {asking.name for asking in self.questions} - {"client", "group"}
        has_local = any(self.owners[name] == "local" for name in names)
        left_out = ("client", "group") if has_local else ("client",)
        asked = zip(self.questions, self.asked(self.questions), strict=True)
        return [
            asking
            for asking, testing in asked
            if asking.name not in left_out and testing.can_be_learnt
        ]

    def asked(self, questions: Sequence[Question]) -> list[Question]:
        """Return questions about the members' test samples, as far as training prepares them."""
        return [self.members.asked(asking) for asking in questions]


def is_code(codes: Array) -> bool:
    """Say whether there is anything to read: diverged networks and absent parts have no code."""
    return codes.shape[1] > 0 and bool(np.isfinite(codes).all())


def comparable(latents: Mapping[str, Array], part: str) -> NDArray[np.float64]:
    """Return the codes of a part that can be compared across clients."""
    code = latents.get(f"common_{part}", latents.get(part))
    found = np.zeros((len(latents["client"]), 0)) if code is None else code
    return np.asarray(found, np.float64).reshape(len(found), -1)


def is_alive(code: NDArray[np.float64]) -> bool:
    """Say whether a code exists, is finite, and differs between samples."""
    return code.size > 0 and bool(np.isfinite(code).all()) and float(np.ptp(code, axis=0).max()) > 0


def code_table(scene: Scene) -> CodeTable:
    """Return the codes of a scene, with all that is asked about them."""
    return CodeTable.of(scene.once(kept_codes), scene.config.data, scene.seed)
