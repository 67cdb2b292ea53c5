"""Swap one part of the representation: do the shared and the local code do what they are named for?

The shared code of a sample of client A and the local code of a sample of client B are decoded by
B's model. Judges read the label, which should be that of A's sample, and the style, which should be
B's. A local code that does nothing at all passes that test where the decoder itself draws the
style, so every score stands beside those that would tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypedDict, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from duotone.evaluation.clients import BATCH, EncodeJob, Serving
from duotone.evaluation.factors import part_of
from duotone.evaluation.judges import Agreement, FloatArray, Judges, agreement, measured
from duotone.evaluation.summary import Score
from duotone.federation.backends import Backend, ClientTask
from duotone.federation.backends.serial import one_thread
from duotone.federation.engine import ClientStates, largest_first
from duotone.federation.method import Method, Part, stored
from duotone.partition.partition import Partition, Population, Rows
from duotone.seeding import stream
from duotone.types import DataInfo, Kind, Latents, Params, RoundInfo

Codes: TypeAlias = NDArray[np.float32]
Images: TypeAlias = NDArray[np.uint8]

_MEMBERS, _NEWCOMERS = 8, 4
_SAMPLES = 64
_GRID = 12
_SHEET = 5


@runtime_checkable
class Decodes(Protocol):
    """A method that can turn a representation back into samples."""

    device: str

    def load(self, params: Params, data: DataInfo) -> nn.Module:
        """Put parameters into this process's network and return it."""
        ...

    def decode(self, model: nn.Module, latents: Latents) -> Tensor:
        """Return samples of the form the model is given, images in [0, 1]."""
        ...


class MatrixRow(TypedDict):
    """How well a pair of clients swaps; ``None`` where the judges know no true answer."""

    content_client: str
    style_client: str
    label: float | None
    style: float | None


@dataclass(frozen=True, slots=True)
class Sheet:
    """Examples to look at: one sample per client, and all of them in everybody's style.

    Attributes:
        clients: Whose samples these are.
        originals: One real image per client ``(clients, height, width, channels)``.
        swapped: ``swapped[a, b]`` has the shared code of a's image and the local code of b's, and
            is drawn by b's decoder; the diagonal holds plain reconstructions.
    """

    clients: list[str]
    originals: Images
    swapped: Images


@dataclass(frozen=True, slots=True)
class SwapResult:
    """What swapping shows.

    Attributes:
        scores: By name, see :func:`swap_scores`.
        matrix: One row per pair of clients. On the diagonal the local code is that of another
            sample of the same client.
        local_effect: For each client what ``swap.local_effect`` is the mean of.
        sheet: Examples, of images only.
    """

    scores: dict[str, Score]
    matrix: list[MatrixRow]
    local_effect: dict[str, float]
    sheet: Sheet | None


@dataclass(frozen=True, slots=True)
class ServeJob:
    """Encode a client's first test samples, and hand over the model that did it.

    The model is needed again to decode codes of others, and to get a newcomer's may take training.
    """

    serving: Serving
    samples: int

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> tuple[Params, Codes, Codes]:
        """Return parameters, shared codes and local codes."""
        encode = EncodeJob(self.serving, self.samples, splits=("test",))
        codes = encode(method, population, task)
        used = method.module(self.serving.info.data).state_dict()
        params = {name: stored(tensor) for name, tensor in used.items()}
        return params, codes["shared/test"], codes["local/test"]


Pair: TypeAlias = tuple[str, str]
"""Who gives the shared code, and who gives the local code and decodes."""
Agreements: TypeAlias = dict[str, Agreement]
"""By question."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """A client with its model, its codes, and what is true of the samples behind them."""

    client: str
    kind: Kind
    style: str
    params: Params
    shared: Codes
    local: Codes
    truth: dict[str, FloatArray]


@dataclass(frozen=True, slots=True)
class _Findings:
    """What the judges said of everything that was decoded; the last three of members only."""

    swapped: dict[Pair, Agreements] = field(default_factory=dict)
    without_local: dict[Pair, Agreements] = field(default_factory=dict)
    unswapped: dict[str, Agreements] = field(default_factory=dict)
    effects: dict[str, float] = field(default_factory=dict)


def swap_scores(
    method: Decodes,
    judges: Judges,
    serving: Serving,
    population: Population,
    states: ClientStates,
    backend: Backend,
) -> SwapResult:
    """Swap codes between some members and newcomers, and score what comes out.

    ``swap.label`` and ``swap.style`` are over pairs of members whose styles differ: accuracy, or R²
    where labels are numbers. ``swap.<factor>`` is over swaps inside a member: mean cosine for an
    angle, else R² within clients. A local factor must follow the giver of the local code, a shared
    one the giver of the shared code; what is of neither known part is compared with the former, as
    a reference. Beside each of these stand

    * ``.judge``: the same judges on real test samples; nothing better can be expected;
    * ``.unswapped``: the same on plain reconstructions: what is lost there, swapping did not lose;
    * ``.newcomers`` and ``.judge.newcomers``: the same with a newcomer on at least one side.

    ``swap.style.without_local`` has the members' mean local code in place of the giver's: as high
    as ``swap.style`` where the decoder and not the code draws the style. ``swap.local_effect`` is
    the mean over members of :func:`local_effect`.

    Args:
        method: What was trained.
        judges: What reads the decoded samples.
        serving: How clients get their models.
        population: Every client's samples.
        states: Where client states are kept.
        backend: Where clients are encoded.
    """
    info = serving.info
    chosen = _choose(population.partition, judges.style_of, info.seed)
    holders = _encode(chosen, judges, serving, population, states, backend)
    owners = {q.name: part_of(q.name, population.dataset.name) for q in judges.questions}
    with one_thread():
        findings = _swap(method, judges, holders, owners, info)
        sheet = _sheet(method, holders, population) if population.info.is_image else None
    scores = _scores(findings, judges, holders, owners, population, info.seed)
    matrix: list[MatrixRow] = [
        {
            "content_client": content,
            "style_client": giver,
            "label": found["label"].value,
            "style": found["style"].value if "style" in found else None,
        }
        for (content, giver), found in findings.swapped.items()
    ]
    return SwapResult(scores, matrix, findings.effects, sheet)


def local_effect(samples: FloatArray) -> float:
    """Return the share of the variance that is due to the local code: main effect and interaction.

    A two-way analysis of variance, summed over all values of a sample: what the shared code does on
    average over local codes is taken off the whole. Range 0 to 1: 0 if the local code is dead, 1 if
    the shared one is.

    Args:
        samples: Decoded from every pair of some codes ``(shared codes, local codes, …)``.
    """
    centred = samples - samples.mean(axis=(0, 1))
    total = np.square(centred).sum()
    if total <= 1e-12 * np.square(samples).sum():  # nothing but rounding
        return 0.0
    by_shared = samples.shape[1] * np.square(centred.mean(axis=1)).sum()
    return float(np.clip(1 - by_shared / total, 0, 1))


def _choose(partition: Partition, style_of: Mapping[str, str], seed: int) -> list[str]:
    """Return some members and newcomers that have test samples, of as many styles as possible."""
    chosen: list[str] = []
    most: dict[Kind, int] = {"member": _MEMBERS, "newcomer": _NEWCOMERS}
    for kind, limit in most.items():
        clients = [client for client in partition.of_kind(kind) if partition.size(client, "test")]
        order = stream(seed, "swap", "clients", kind).permutation(len(clients)).tolist()
        # A second client of a style only after the first of every style.
        turns: Counter[str] = Counter()
        turn_of: dict[int, int] = {}
        for position in order:
            style = style_of[clients[position]]
            turn_of[position] = turns[style]
            turns[style] += 1
        taken = sorted(order, key=turn_of.__getitem__)[:limit]
        chosen += [clients[position] for position in sorted(taken)]
    return chosen


def _encode(
    chosen: Sequence[str],
    judges: Judges,
    serving: Serving,
    population: Population,
    states: ClientStates,
    backend: Backend,
) -> list[_Holder]:
    order = largest_first(chosen, population)
    tasks = (ClientTask(client, states.get(client)) for client in order)
    served = {
        result.client: result.value
        for result in backend.map_clients(ServeJob(serving, _SAMPLES), tasks)
    }
    holders: list[_Holder] = []
    for client in chosen:
        params, shared, local = served[client]
        holding = population.partition[client]
        truth = judges.truth(population, client, holding.test[:_SAMPLES])
        style = judges.style_of[client]
        holders.append(_Holder(client, holding.kind, style, params, shared, local, truth))
    return holders


def _swap(
    method: Decodes,
    judges: Judges,
    holders: Sequence[_Holder],
    owners: Mapping[str, Part | None],
    info: RoundInfo,
) -> _Findings:
    """Decode everything with every holder's model, and compare what is read with the truth."""
    mean = np.concatenate([h.local for h in holders if h.kind == "member"]).mean(axis=0)
    findings = _Findings()

    def judged(content: _Holder, giver: _Holder, local: Codes, donors: Rows) -> Agreements:
        verdicts = judges.verdicts(_decode(method, model, content.shared, local))
        found: Agreements = {}
        for q in judges.questions:
            given = giver.truth[q.name][donors]
            truth = content.truth[q.name] if owners[q.name] == "shared" else given
            found[q.name] = agreement(q.scale, truth, verdicts[q.name])
        return found

    for giver in holders:  # they share one network: each is loaded once and decodes everything
        model = method.load(giver.params, info.data).eval()
        for content in holders:
            pair = (content.client, giver.client)
            donors = _donors(content, giver, stream(info.seed, "swap", "donors", *pair))
            findings.swapped[pair] = judged(content, giver, giver.local[donors], donors)
            if content.kind == giver.kind == "member" and content.style != giver.style:
                same = np.tile(mean, (len(donors), 1))
                findings.without_local[pair] = judged(content, giver, same, donors)
        if giver.kind == "member":
            own = np.arange(len(giver.local))
            findings.unswapped[giver.client] = judged(giver, giver, giver.local, own)
            size = min(_GRID, len(own))
            shared = np.repeat(giver.shared[:size], size, axis=0)
            local = np.tile(giver.local[:size], (size, 1))
            grid = _decode(method, model, shared, local).double().numpy()
            findings.effects[giver.client] = local_effect(grid.reshape(size, size, -1))
    return findings


@torch.inference_mode()
def _decode(method: Decodes, model: nn.Module, shared: Codes, local: Codes) -> Tensor:
    parts = [torch.from_numpy(codes).to(method.device) for codes in (shared, local)]
    batches = zip(*(torch.split(codes, BATCH) for codes in parts), strict=True)
    return torch.cat([method.decode(model, Latents(*batch)).cpu() for batch in batches])


def _donors(content: _Holder, giver: _Holder, rng: np.random.Generator) -> Rows:
    """Draw for each content a sample that gives its local code: another one, of another label.

    Where a local code carries the label, a donor of the same label would hide it.
    """
    count = len(giver.local)
    donors = np.empty(len(content.shared), np.int64)
    for place, label in enumerate(content.truth["label"]):
        others = np.ones(count, bool)
        if content.client == giver.client and count > 1:
            others[place] = False
        unlike = others & (giver.truth["label"] != label)
        donors[place] = rng.choice(np.flatnonzero(unlike if unlike.any() else others))
    return donors


def _scores(
    findings: _Findings,
    judges: Judges,
    holders: Sequence[_Holder],
    owners: Mapping[str, Part | None],
    population: Population,
    seed: int,
) -> dict[str, Score]:
    rng = stream(seed, "swap", "bootstrap")
    found: dict[str, Score | None] = {}
    newcomers = {holder.client for holder in holders if holder.kind == "newcomer"}
    members = {holder.client for holder in holders} - newcomers
    for clients, suffix in ((members, ""), (newcomers, ".newcomers")):
        worth = judges.worth(population, sorted(clients))
        for name, part in owners.items():
            pairs = {
                (a, b): agreements[name]
                for (a, b), agreements in findings.swapped.items()
                if bool(newcomers & {a, b}) == (clients is newcomers)
            }
            if name in ("label", "style"):
                used = _by_content(pairs, judges.style_of)
            else:
                used = [inside for (a, b), inside in pairs.items() if a == b]
            found[f"swap.{name}{suffix}"] = measured(used, "higher" if part else "reference", rng)
            found[f"swap.{name}.judge{suffix}"] = measured(worth[name], "reference", rng)
    for name in owners:
        plain = [agreements[name] for agreements in findings.unswapped.values()]
        found[f"swap.{name}.unswapped"] = measured(plain, "reference", rng)
    if "style" in owners:
        pairs = {pair: agreements["style"] for pair, agreements in findings.without_local.items()}
        dead = _by_content(pairs, judges.style_of)
        found["swap.style.without_local"] = measured(dead, "reference", rng)
    effects = list(findings.effects.values())
    mean, spread = float(np.mean(effects)), float(np.std(effects))
    found["swap.local_effect"] = Score(mean, spread, "reference", len(effects))
    return {name: score for name, score in sorted(found.items()) if score is not None}


def _by_content(pairs: Mapping[Pair, Agreement], style_of: Mapping[str, str]) -> list[Agreement]:
    """Return one agreement per giver of shared codes: of each sample the mean over other styles.

    The same samples are swapped with many clients; counted once each, they are independent.
    """
    found: dict[str, list[Agreement]] = {}
    for (content, giver), pair in pairs.items():
        if style_of[content] != style_of[giver]:
            found.setdefault(content, []).append(pair)
    return [
        Agreement(
            np.mean([pair.gained for pair in several], axis=0),
            np.mean([pair.possible for pair in several], axis=0),
        )
        for several in found.values()
    ]


def _sheet(method: Decodes, holders: Sequence[_Holder], population: Population) -> Sheet:
    """Draw a few members, the last place being a newcomer's where there is one."""
    newcomers = [holder for holder in holders if holder.kind == "newcomer"][:1]
    members = [holder for holder in holders if holder.kind == "member"]
    shown = [*members[: _SHEET - len(newcomers)], *newcomers]
    places: list[int] = []
    labels: set[float] = set()
    for holder in shown:  # each with a label not shown yet, where it has one
        fresh = [i for i, label in enumerate(holder.truth["label"]) if label not in labels]
        places.append(fresh[0] if fresh else 0)
        labels.add(holder.truth["label"][places[-1]])
    shared = np.stack([holder.shared[place] for holder, place in zip(shown, places, strict=True)])
    originals: list[Images] = []
    columns: list[Images] = []
    for holder, place in zip(shown, places, strict=True):
        x = population.data(holder.client, "test").x
        originals.append(_pixels(x[place : place + 1])[0])
        model = method.load(holder.params, population.info).eval()
        local = np.tile(holder.local[place], (len(shown), 1))
        columns.append(_pixels(_decode(method, model, shared, local)))
    names = [holder.client for holder in shown]
    return Sheet(names, np.stack(originals), np.stack(columns, axis=1))


def _pixels(images: Tensor) -> Images:
    """Return images as they are looked at: bytes, channels last."""
    values: Images = images.clamp(0, 1).mul(255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return values
