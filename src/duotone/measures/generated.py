"""Judge generated samples: are they like the client's own, and does each draw decide its part?

Every client's model generates from the same draws of content and style. Judges that were trained on
real samples read label and style off the results, and a Fréchet distance in their features says how
far the samples of a client are from its real ones. Every score stands beside what real samples, or
samples that ignore the question, would get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import cast

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from duotone.federation.backends.serial import one_thread
from duotone.federation.method import Method
from duotone.federation.protocols import Generates
from duotone.measures.agreement import (
    Agreement,
    FloatArray,
    agreement,
    chance_agreement,
    effective_classes,
    frechet_distance,
    measured,
)
from duotone.measures.decoding import choose_holders
from duotone.measures.drawing import (
    OWN,
    SWAPPED,
    ClientFindings,
    GenerateJob,
    PairFindings,
    Samples,
    asked_labels,
    asks_labels,
    known_labels,
)
from duotone.measures.judges import Judges
from duotone.measures.measure import Scene
from duotone.measures.metrics import Direction
from duotone.measures.score import Key, Score
from duotone.measures.side_by_side import side_by_side
from duotone.partition.partition import Population
from duotone.seeding import stream
from duotone.types import ROLES, Role

_MEMBERS = 10


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """What generated samples show.

    Attributes:
        scores: By name, see :func:`generation_scores`.
        clients: One entry per client.
        pairs: One entry per pair of members.
        samples: By client, what :class:`GenerateJob` gave.
    """

    scores: dict[Key, Score]
    clients: list[ClientFindings]
    pairs: list[PairFindings]
    samples: dict[str, dict[str, Samples]]


def generation_scores(
    scene: Scene,
    judges: Judges,
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
        scene: The trained federation; its method generates.
        judges: What reads the samples.
        unseen: Real samples of every label in every style, one client for each style, where there
            are any: what judges are worth where clients lack labels.
        for_newcomers: What reads newcomers' samples, if not the same judges.
    """
    method, population, seed = scene.method, scene.population, scene.seed
    assert isinstance(method, Generates)
    readers: dict[Role, Judges] = {"member": judges, "newcomer": for_newcomers or judges}
    chosen = choose_holders(population.partition, judges.style_of, seed, _MEMBERS)
    samples: dict[str, dict[str, Samples]] = scene.ask(GenerateJob(scene.serving), chosen)
    pieces = [
        partial(_judged_at, client, own, readers[population.partition[client].role])
        for client, own in samples.items()
    ]
    judged: list[_Judged] = side_by_side(scene.backend, method, population, pieces)
    scores: dict[Key, Score | None] = {}
    for role in ROLES:
        some = [found for found in judged if found.role == role]
        scores |= _scores(some, role, readers[role], population, unseen, seed)
    pairs, across = _across([found for found in judged if found.role == "member"], seed)
    scores |= across
    known = {key: score for key, score in sorted(scores.items()) if score is not None}
    return GenerationResult(known, [found.findings() for found in judged], pairs, samples)


def _judged_at(
    client: str,
    samples: Mapping[str, Samples],
    judges: Judges,
    method: Method,
    population: Population,
) -> _Judged:
    """Judge everything a client generated; a piece of work."""
    assert isinstance(method, Generates)
    # Covariances are products of matrices; more threads would change the order of their sums.
    with one_thread(), threadpool_limits(1):
        return _Judged.at(client, samples, judges, population, asks_labels(method, population))


@dataclass(frozen=True, slots=True)
class _Judged:
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
    ) -> _Judged:
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
_UNSEEN = ("unseen_label", "unseen_style")
_JUDGED_BY = {
    "own_style": "style",
    "seen_label": "label",
    "unseen_label": "label",
    "unseen_style": "style",
}


def _scores(
    judged: Sequence[_Judged],
    role: Role,
    judges: Judges,
    population: Population,
    unseen: Population | None,
    seed: int,
) -> dict[Key, Score | None]:
    rng = stream(seed, "generate", "bootstrap")
    found: dict[Key, Score | None] = {}
    if not judged:
        return found

    def key(question: str, variant: str = "") -> Key:
        return Key("generate", question, variant=variant, role=role)

    distances = [own.distances for own in judged if own.distances is not None]
    labelled = [own for own in judged if own.label]
    if distances:
        found[key("fd")] = Score.over([made for made, _ in distances], "lower", "distance")
        floors = [floor for _, floor in distances]
        found[key("fd", "floor")] = Score.over(floors, "reference", "distance")
    if labelled:
        counts = [effective_classes(own.label["own"]) for own in labelled]
        found[key("labels")] = Score.over(counts, "higher", "count")
        real = [own.real_labels for own in labelled]
        found[key("labels", "judge")] = Score.over(real, "reference", "count")
    worth = judges.worth(population, [own.client for own in judged])
    worth_unseen = None if unseen is None else _worth_of_styles(judged, judges, unseen)
    for name, direction in _DIRECTIONS.items():
        some = [own for own in judged if name in own.agreements]
        if not some:
            continue
        found[key(name)] = measured([own.agreements[name] for own in some], direction, rng)
        chances = [own.chances[name] for own in some]
        unit = some[0].agreements[name].unit
        found[key(name, "chance")] = Score.over(chances, "reference", unit)
        known = worth_unseen if name in _UNSEEN else worth
        if name in _JUDGED_BY and known is not None:
            found[key(name, "judge")] = measured(known[_JUDGED_BY[name]], "reference", rng)
    return found


def _worth_of_styles(
    judged: Sequence[_Judged], judges: Judges, unseen: Population
) -> dict[str, list[Agreement]]:
    """Judge real samples of every label in the styles of some clients."""
    styles = sorted({own.style for own in judged} & set(unseen.partition))
    return judges.asked_about({name: name for name in styles}).worth(unseen, styles)


def _across(
    judged: Sequence[_Judged], seed: int
) -> tuple[list[PairFindings], dict[Key, Score | None]]:
    """Compare what the same draws show at every pair of members."""
    pairs: list[PairFindings] = []
    agreements: list[Agreement] = []
    for first, second in combinations([own for own in judged if own.label], 2):
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
        Key("generate", "across_clients"): measured([whole], "higher", rng),
        Key("generate", "across_clients", variant="worst"): Score(worst, 0.0, "higher", 1, "share"),
        Key("generate", "across_clients", variant="chance"): Score.over(
            chances, "reference", "share"
        ),
    }
