"""Judge generated samples: are they like the client's own, and does each draw decide its part?

Every client's model generates from the same draws of content and style. Judges that were trained on
real samples read label and style off the results, and a Fréchet distance in their features says how
far the samples of a client are from its real ones. Every score stands beside what real samples, or
samples that ignore the question, would get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias, TypedDict, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from duotone.federation.backends import Backend, ClientTask
from duotone.federation.backends.serial import one_thread
from duotone.federation.engine import ClientStates
from duotone.federation.method import Method
from duotone.federation.protocols import Generates
from duotone.federation.serving import Serving, by_client
from duotone.measures.decoding import choose_holders
from duotone.measures.judges import Agreement, FloatArray, Judges, agreement, measured
from duotone.measures.metrics import Direction
from duotone.measures.summary import Score
from duotone.networks.reading import BATCH
from duotone.partition.partition import Population
from duotone.seeding import derive, stream
from duotone.types import NO_LABEL, Draws, Role

Samples: TypeAlias = NDArray[np.float32]

_MEMBERS = 10
OWN, SWAPPED = 500, 300
"""Samples of each client: drawn as its own, and drawn to compare one change with another."""
ROW, GRID = 10, 8
"""Samples in a client's row of the sheet of all, and in each direction of its own sheet."""


# -- drawing


@dataclass(frozen=True, slots=True)
class GenerateJob:
    """Generate with one client's model; all clients get the same draws."""

    serving: Serving

    def __call__(
        self, method: Method, population: Population, task: ClientTask
    ) -> dict[str, Samples]:
        """Return samples by name.

        ``own`` are like the client's, with labels as it has them where labels can be asked for.
        ``base`` have labels of all classes alike; ``new_style`` are the same with other draws of
        style, ``new_content`` with other draws of content. ``row`` and ``grid`` are for sheets.
        """
        assert isinstance(method, Generates)
        info, seed = self.serving.info.data, self.serving.info.seed
        model = self.serving.model(method, population, task)
        first, other = (
            method.draw(model, count, torch.Generator().manual_seed(derive(seed, "generate", name)))
            for name, count in (("first", OWN), ("other", SWAPPED))
        )
        base = Draws(first.content[:SWAPPED], first.style[:SWAPPED])
        across = torch.arange(GRID).repeat(GRID)
        down = torch.arange(GRID).repeat_interleave(GRID)
        wanted: dict[str, tuple[Draws, Tensor | None]] = {
            "own": (first, None),
            "base": (base, None),
            "new_style": (Draws(base.content, other.style), None),
            "new_content": (Draws(other.content, base.style), None),
            "row": (Draws(base.content[:ROW], base.style[:ROW]), None),
            "grid": (Draws(base.content[down], base.style[across]), None),
        }
        if asks_labels(method, population):
            asked = {
                "own": own_labels(population, task.client, OWN, seed),
                "base": asked_labels(info.outputs, SWAPPED),
                "new_style": asked_labels(info.outputs, SWAPPED),
                "new_content": asked_labels(info.outputs, SWAPPED, first=1),
                "row": asked_labels(info.outputs, ROW),
                "grid": down % info.outputs,
            }
            wanted = {name: (draws, asked[name]) for name, (draws, _) in wanted.items()}
        return {
            name: generated(method, model, draws, label).numpy()
            for name, (draws, label) in wanted.items()
        }


@dataclass(frozen=True, slots=True)
class SampleJob:
    """Generate a few samples with one client's model; all clients get the same draws and labels."""

    serving: Serving

    def __call__(self, method: Method, population: Population, task: ClientTask) -> Samples:
        """Return one row of samples."""
        assert isinstance(method, Generates)
        model = self.serving.model(method, population, task)
        generator = torch.Generator().manual_seed(derive(self.serving.info.seed, "generate", "row"))
        label = None
        if asks_labels(method, population):
            label = asked_labels(population.info.outputs, ROW)
        return generated(method, model, method.draw(model, ROW, generator), label).numpy()


def asks_labels(method: Generates, population: Population) -> bool:
    """Say whether samples of a label can be asked for."""
    return method.draws_labels and population.info.task == "classes"


def known_labels(population: Population, client: str) -> NDArray[np.int64]:
    """Return the labels of a client's training samples, as far as they are known."""
    labels = population.data(client).labels.numpy()
    known: NDArray[np.int64] = labels[labels != NO_LABEL]
    return known


def own_labels(population: Population, client: str, count: int, seed: int) -> Tensor:
    """Draw labels as often as a client has them."""
    rng = stream(seed, "generate", "labels", client)
    return torch.from_numpy(rng.choice(known_labels(population, client), count))


def asked_labels(classes: int, count: int, first: int = 0) -> Tensor:
    """Return one label after the other, over and over."""
    return (first + torch.arange(count)) % classes


@torch.inference_mode()
def generated(
    method: Generates, model: nn.Module, draws: Draws, label: Tensor | None = None
) -> Tensor:
    """Return a sample for each draw."""
    count = len(draws.content)
    parts: list[Tensor] = []
    for start in range(0, count, BATCH):
        rows = slice(start, start + BATCH)
        some = Draws(draws.content[rows], draws.style[rows])
        asked = None if label is None else label[rows]
        parts.append(method.generate(model, some, asked).float().cpu())
    return torch.cat(parts)


# -- scoring


def frechet_distance(first: FloatArray, second: FloatArray) -> float:
    """Return the Fréchet distance of two sets of features as if both were Gaussian.

    ‖μ₁ − μ₂‖² + tr(Σ₁ + Σ₂ − 2 (Σ₁Σ₂)^½); 0 for equal means and covariances.

    Args:
        first: ``(samples, features)``, at least two samples.
        second: Likewise.
    """
    means = first.mean(axis=0) - second.mean(axis=0)
    one, two = (np.atleast_2d(np.cov(x, rowvar=False)) for x in (first, second))
    # Σ₁Σ₂ has the eigenvalues of Σ₁^½ Σ₂ Σ₁^½, which is symmetric.
    values, vectors = np.linalg.eigh(one)
    root = (vectors * np.sqrt(values.clip(min=0))) @ vectors.T
    mixed = np.linalg.eigvalsh(root @ two @ root).clip(min=0)
    return float(means @ means + np.trace(one) + np.trace(two) - 2 * np.sqrt(mixed).sum())


def effective_classes(verdicts: FloatArray) -> float:
    """Return the exponential of the entropy: the number of classes, rare ones counting less."""
    _, counts = np.unique(verdicts, return_counts=True)
    shares = counts / counts.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def chance_agreement(first: FloatArray, second: FloatArray) -> float:
    """Return how often independent draws from two sets of classes agree."""
    classes = np.union1d(first, second)
    shares = [(x[:, np.newaxis] == classes).mean(axis=0) for x in (first, second)]
    return float(shares[0] @ shares[1])


class ClientFindings(TypedDict, total=False):
    """What was found of one client; what could not be told is left out."""

    client: str
    kind: Role
    style: str
    fd: float
    floor: float
    own_style: float
    labels: float
    same_content: float
    same_style: float
    seen_label: float
    unseen_label: float
    unseen_style: float


class PairFindings(TypedDict):
    """How often the same draws show the same label at two members, beside chance."""

    first: str
    second: str
    same_label: float
    chance: float


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """What generated samples show.

    Attributes:
        scores: By name, see :func:`generation_scores`.
        clients: One entry per client.
        pairs: One entry per pair of members.
        samples: By client, what :class:`GenerateJob` gave.
    """

    scores: dict[str, Score]
    clients: list[ClientFindings]
    pairs: list[PairFindings]
    samples: dict[str, dict[str, Samples]]


def generation_scores(
    method: Generates,
    judges: Judges,
    serving: Serving,
    population: Population,
    states: ClientStates,
    backend: Backend,
    *,
    unseen: Population | None = None,
    for_newcomers: Judges | None = None,
) -> GenerationResult:
    """Generate with some members' and newcomers' models, and score what comes out.

    ``generate.fd`` is the mean of the clients' Fréchet distances from their real training samples,
    ``generate.fd.floor`` the same of as many real test samples. ``generate.own_style`` is the share
    of samples judged to be in the client's own style, ``generate.labels`` the effective number of
    labels. ``generate.same_content`` says how often a sample keeps its label when the style is
    drawn anew, ``generate.same_style`` when the content is, and ``generate.across_clients`` how
    often the same draws show the same label at two members. Where labels can be asked for,
    ``generate.seen_label`` and ``generate.unseen_label`` are the shares of samples judged to be of
    the label asked for, of labels the client has or never had, and ``generate.unseen_style`` the
    share of the latter that is in the client's style. Beside them stand ``.judge`` (the same judges
    on real test samples), ``.chance`` and ``.newcomers``.

    Args:
        method: What was trained.
        judges: What reads the samples.
        serving: How clients get their models.
        population: Every client's samples.
        states: The members' states.
        backend: Where to compute.
        unseen: Real samples of every label in every style, one client for each style, where there
            are any: what judges are worth where clients lack labels.
        for_newcomers: What reads newcomers' samples, if not the same judges.
    """
    seed = serving.info.seed
    readers = {"member": judges, "newcomer": for_newcomers or judges}
    chosen = choose_holders(population.partition, judges.style_of, seed, _MEMBERS)
    drawn = by_client(GenerateJob(serving), chosen, population, states, backend)
    samples: dict[str, dict[str, Samples]] = dict(drawn)
    with one_thread():
        looks = [
            _Look.at(
                client,
                samples[client],
                readers[population.partition[client].role],
                population,
                asks_labels(method, population),
            )
            for client in samples
        ]
    scores: dict[str, Score | None] = {}
    for role, suffix in (("member", ""), ("newcomer", ".newcomers")):
        some = [look for look in looks if look.role == role]
        found = _scores(some, readers[role], population, unseen, seed)
        scores |= {f"generate.{name}{suffix}": score for name, score in found.items()}
    pairs, across = _across([look for look in looks if look.role == "member"], seed)
    scores |= across
    known = {name: score for name, score in sorted(scores.items()) if score is not None}
    return GenerationResult(known, [look.findings() for look in looks], pairs, samples)


@dataclass(frozen=True, slots=True)
class _Look:
    """What the judges said about one client's samples.

    Attributes:
        distances: Fréchet distance of generated and of real test samples, from training samples.
        label: Verdicts on the labels of all samples; empty where labels are numbers.
        agreements: By score.
        real_labels: Effective number of labels among real test samples.
    """

    client: str
    role: Role
    style: str
    distances: tuple[float, float] | None
    label: Mapping[str, FloatArray]
    agreements: Mapping[str, Agreement]
    chances: Mapping[str, float]
    real_labels: float

    @classmethod
    def at(
        cls,
        client: str,
        samples: Mapping[str, Samples],
        judges: Judges,
        population: Population,
        conditional: bool,
    ) -> _Look:
        """Judge everything a client generated."""
        names = ("own", "base", "new_style", "new_content")
        verdicts = {name: judges.verdicts(torch.from_numpy(samples[name])) for name in names}
        traits = {trait.name: trait.scale for trait in judges.traits}
        found: dict[str, Agreement] = {}
        chances: dict[str, float] = {}
        style = np.nan
        if "style" in traits:
            own = judges.style_of[client]
            style = float(judges.styles.index(own)) if own in judges.styles else np.nan
            found["own_style"] = _share(style, verdicts["own"]["style"])
            chances["own_style"] = 1 / len(judges.styles)
        label: dict[str, FloatArray] = {}
        real_labels = np.nan
        if traits["label"] == "categorical":
            label = {name: verdicts[name]["label"] for name in names}
            for score, changed in (("same_content", "new_style"), ("same_style", "new_content")):
                found[score] = agreement("categorical", label["base"], label[changed])
                chances[score] = chance_agreement(label["base"], label[changed])
            real = judges.verdicts(population.data(client, "test").first(OWN).x)["label"]
            real_labels = effective_classes(real)
        if conditional:
            asked = asked_labels(population.info.outputs, SWAPPED).numpy().astype(np.float64)
            is_seen = np.isin(asked, known_labels(population, client))
            for score, rows in (("seen_label", is_seen), ("unseen_label", ~is_seen)):
                if not rows.any():
                    continue
                found[score] = agreement("categorical", asked[rows], label["base"][rows])
                chances[score] = chance_agreement(asked[rows], label["base"][rows])
            if "style" in traits:
                found["unseen_style"] = _share(style, verdicts["base"]["style"][~is_seen])
                chances["unseen_style"] = 1 / len(judges.styles)
        return cls(
            client,
            population.partition[client].role,
            judges.style_of[client],
            _distances(client, samples["own"], judges, population),
            label,
            {name: agreed for name, agreed in found.items() if agreed.value is not None},
            chances,
            real_labels,
        )

    def findings(self) -> ClientFindings:
        """Return them for the run folder."""
        found = ClientFindings(client=self.client, kind=self.role, style=self.style)
        if self.distances is not None:
            found["fd"], found["floor"] = self.distances
        if self.label:
            found["labels"] = effective_classes(self.label["own"])
        shares = {name: agreed.value for name, agreed in self.agreements.items()}
        return cast(ClientFindings, {**found, **shares})


def _share(expected: float, verdicts: FloatArray) -> Agreement:
    return agreement("categorical", np.full(len(verdicts), expected), verdicts)


def _distances(
    client: str, own: Samples, judges: Judges, population: Population
) -> tuple[float, float] | None:
    """Return how far generated and real test samples are from training samples, as many of each."""
    train, test = (population.data(client, split).first(OWN).x for split in ("train", "test"))
    if min(len(train), len(test)) < 2:
        return None
    real = judges.features(train)
    made = judges.features(torch.from_numpy(own[: len(test)]))
    return frechet_distance(made, real), frechet_distance(judges.features(test), real)


_DIRECTIONS: dict[str, Direction] = {
    "own_style": "higher",
    "same_content": "higher",
    "same_style": "lower",
    "seen_label": "higher",
    "unseen_label": "higher",
    "unseen_style": "higher",
}
_JUDGED_BY = {
    "own_style": "style",
    "seen_label": "label",
    "unseen_label": "label",
    "unseen_style": "style",
}


def _scores(
    looks: Sequence[_Look],
    judges: Judges,
    population: Population,
    unseen: Population | None,
    seed: int,
) -> dict[str, Score | None]:
    rng = stream(seed, "generate", "bootstrap")
    found: dict[str, Score | None] = {}
    if not looks:
        return found
    distances = [look.distances for look in looks if look.distances is not None]
    labelled = [look for look in looks if look.label]
    if distances:
        found["fd"] = Score.over([made for made, _ in distances], "lower", "distance")
        found["fd.floor"] = Score.over([floor for _, floor in distances], "reference", "distance")
    if labelled:
        counts = [effective_classes(look.label["own"]) for look in labelled]
        found["labels"] = Score.over(counts, "higher", "count")
        real = [look.real_labels for look in labelled]
        found["labels.judge"] = Score.over(real, "reference", "count")
    worth = judges.worth(population, [look.client for look in looks])
    worth_unseen = None if unseen is None else _worth_of_styles(looks, judges, unseen)
    for name, direction in _DIRECTIONS.items():
        some = [look for look in looks if name in look.agreements]
        if not some:
            continue
        found[name] = measured([look.agreements[name] for look in some], direction, rng)
        chances = [look.chances[name] for look in some]
        unit = some[0].agreements[name].unit
        found[f"{name}.chance"] = Score.over(chances, "reference", unit)
        known = worth_unseen if name.startswith("unseen") else worth
        if name in _JUDGED_BY and known is not None:
            found[f"{name}.judge"] = measured(known[_JUDGED_BY[name]], "reference", rng)
    return found


def _worth_of_styles(
    looks: Sequence[_Look], judges: Judges, unseen: Population
) -> dict[str, list[Agreement]]:
    """Judge real samples of every label in the styles of some clients."""
    styles = sorted({look.style for look in looks} & set(unseen.partition))
    return judges.asked_about({name: name for name in styles}).worth(unseen, styles)


def _across(
    looks: Sequence[_Look], seed: int
) -> tuple[list[PairFindings], dict[str, Score | None]]:
    """Compare what the same draws show at every pair of members."""
    pairs: list[PairFindings] = []
    agreements: list[Agreement] = []
    for first, second in combinations([look for look in looks if look.label], 2):
        one, two = first.label["base"], second.label["base"]
        agreements.append(agreement("categorical", one, two))
        same = agreements[-1].value
        assert same is not None
        chance = chance_agreement(one, two)
        pairs.append(
            PairFindings(first=first.client, second=second.client, same_label=same, chance=chance)
        )
    if not pairs:
        return [], {}
    # The same draws make all pairs; counted once each, they are independent.
    whole = Agreement(
        np.mean([agreed.gained for agreed in agreements], axis=0),
        agreements[0].possible,
        agreements[0].unit,
    )
    rng = stream(seed, "generate", "bootstrap", "across")
    chances = [pair["chance"] for pair in pairs]
    worst = min(pair["same_label"] for pair in pairs)
    return pairs, {
        "generate.across_clients": measured([whole], "higher", rng),
        "generate.across_clients.worst": Score(worst, 0.0, "higher", 1, "share"),
        "generate.across_clients.chance": Score.over(chances, "reference", "share"),
    }
