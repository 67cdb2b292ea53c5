"""Re-style samples: client A's drawn as client B would have them, and what that gives away.

Judges say whether the label is kept and the new style is there. Two attackers say whether the
source can still be told: one learnt from real samples, the other knows the method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, cast

import numpy as np
from torch import Tensor

from duotone.federation.backends import Backend
from duotone.federation.backends.serial import Serial, one_thread
from duotone.federation.method import Method
from duotone.federation.protocols import Decodes
from duotone.measures.agreement import (
    Agreement,
    Agreements,
    Pair,
    agreement,
    by_content,
    measured,
)
from duotone.measures.attackers import (
    SHOWN,
    Numbers,
    RestyledTo,
    attackers_by_name,
    attackers_pieces,
    drawn_and_named,
    guessed_source,
    named_source,
)
from duotone.measures.decoding import choose_holders
from duotone.measures.judges import Judges
from duotone.measures.judging import judges_of_made, judges_of_newcomers, untrained_of_made
from duotone.measures.lessons import with_learnt
from duotone.measures.measure import Course, Findings, InPieces, Measure, Record, Scene
from duotone.measures.metrics import Direction
from duotone.measures.panels import (
    Block,
    Grid,
    PlainTable,
    Section,
    gathered,
    judged_rows,
    listed,
)
from duotone.measures.score import Key, Score
from duotone.measures.sheets import restyle_sheet
from duotone.measures.side_by_side import side_by_side
from duotone.measures.stylists import Stylist, find_stylists, originals_of, restyles
from duotone.partition.partition import Population
from duotone.seeding import stream
from duotone.types import ROLES, Params

_WORDS = {
    "label_kept": "label kept",
    "target_style": "style of the target",
    "attacker": "source named, by an attacker who knows real samples",
    "attacker_informed": "source named, by one who knows re-styled samples",
}


class RestyledPair(TypedDict, total=False):
    """What was found of one client's samples in another's style; what was not asked is left out."""

    source: str
    target: str
    label_kept: float
    target_style: float
    attacker: float
    attacker_informed: float


@dataclass(frozen=True, slots=True)
class RestyleResult:
    """What re-styled samples show.

    Attributes:
        scores: By name, see :func:`restyle_scores`.
        pairs: One entry per pair of different clients.
    """

    scores: dict[Key, Score]
    pairs: list[RestyledPair]


def restyle_scores(
    method: Method,
    judges: Judges,
    stylists: Sequence[Stylist],
    population: Population,
    seed: int,
    *,
    learnt: Mapping[str, Params],
    for_newcomers: Judges | None = None,
    backend: Backend | None = None,
) -> RestyleResult:
    """Re-style test samples of every client as every other would have them, and score them.

    ``restyle.label_kept`` is the share judged to show the label of the original, and
    ``restyle.target_style`` the share judged to be in the style of the target, both over pairs of
    members whose styles differ; methods that decode have them as ``swap.label`` and ``swap.style``.
    ``restyle.attacker`` is the share of samples whose source is named by an attacker who learnt
    from real training samples, ``restyle.attacker_informed`` by one who learnt from re-styled
    training samples of all clients, the target's own among them. Beside them stand ``.judge`` (the
    same judges or attacker on the originals), ``.chance`` (of attackers: what the labels alone
    tell) and ``.newcomers`` (with a newcomer on at least one side).

    Args:
        method: What was trained.
        judges: What reads members' samples.
        stylists: At least two clients.
        population: Every client's samples.
        seed: Of every random draw.
        learnt: What the attackers have learnt, by name.
        for_newcomers: What reads samples where a newcomer is concerned, if not the same judges.
        backend: Whose workers draw; by default nobody's.
    """
    where = Serial(method, population) if backend is None else backend
    names = [stylist.client for stylist in stylists]
    newcomers = {stylist.client for stylist in stylists if stylist.role == "newcomer"}

    def reader(is_new: bool) -> Judges:
        return for_newcomers if is_new and for_newcomers is not None else judges

    drawn = side_by_side(
        where,
        method,
        population,
        [partial(drawn_and_named, stylists, number, learnt, seed) for number in range(len(names))],
    )
    found = _judged(stylists, population, drawn, reader)
    attacker = with_learnt(population.info.shape, len(names), learnt["attacker"])
    originals = {
        source.client: _agreed(named_source(attacker, originals_of(source, population, "test")), i)
        for i, source in enumerate(stylists)
    }
    by_label = _by_label(stylists, population)
    scores: dict[Key, Score | None] = {}
    for role in ROLES:
        is_new = role == "newcomer"
        pairs = {p: a for p, a in found.items() if bool(newcomers & set(p)) == is_new}
        some = sorted({source for source, _ in pairs})
        rng = stream(seed, "restyle", "bootstrap", ".newcomers" if is_new else "")
        told = _scores(pairs, reader(is_new), population, originals, by_label, some, rng)
        scores |= {Key("restyle", q, variant=v, role=role): score for q, v, score in told}
    known = {key: score for key, score in sorted(scores.items()) if score is not None}
    return RestyleResult(known, [_row(pair, agreed) for pair, agreed in found.items()])


def _judged(
    stylists: Sequence[Stylist],
    population: Population,
    drawn: Sequence[Sequence[RestyledTo]],
    reader: Callable[[bool], Judges],
) -> dict[Pair, Agreements]:
    """Return what judges and attackers say of every client's samples in every other's style."""
    number = {stylist.client: place for place, stylist in enumerate(stylists)}
    found: dict[Pair, Agreements] = {}
    for target, others in zip(stylists, drawn, strict=True):
        for source, named, x in others:
            pair = (source, target.client)
            agreed = {name: _agreed(own, number[source]) for name, own in named.items()}
            if x is not None:
                is_new = "newcomer" in (stylists[number[source]].role, target.role)
                agreed |= read_restyled(reader(is_new), population, pair, x)
            found[pair] = agreed
    return found


def _agreed(named: Numbers, number: int) -> Agreement:
    truth = np.full(len(named), float(number))
    return agreement("categorical", truth, named.astype(np.float64))


def read_restyled(judges: Judges, population: Population, pair: Pair, x: Tensor) -> Agreements:
    """Judge whether samples show their source's labels in their target's style."""
    source, target = pair
    rows = population.partition[source].test[: len(x)]
    truth = judges.truth(population, source, rows)
    found: Agreements = {}
    verdicts = judges.verdicts(x)
    for trait in judges.traits:
        if trait.name == "label":
            found["label_kept"] = agreement(trait.scale, truth["label"], verdicts["label"])
        elif trait.name == "style" and judges.style_of[target] in judges.styles:
            wanted = np.full(len(x), float(judges.styles.index(judges.style_of[target])))
            found["target_style"] = agreement(trait.scale, wanted, verdicts["style"])
    return found


def _by_label(stylists: Sequence[Stylist], population: Population) -> dict[str, Agreement]:
    """Return for each client how often its labels alone tell that samples are its own."""
    if population.info.task != "classes":
        return {}
    y, partition = population.dataset.y, population.partition
    labels = [y[partition[stylist.client].train] for stylist in stylists]
    found: dict[str, Agreement] = {}
    for number, stylist in enumerate(stylists):
        asked = y[partition[stylist.client].test[: len(stylist.content["test"])]]
        guess = guessed_source(labels, asked).astype(np.float64)
        found[stylist.client] = agreement("categorical", np.full(len(asked), float(number)), guess)
    return found


_DIRECTIONS: dict[str, Direction] = {
    "label_kept": "higher",
    "target_style": "higher",
    "attacker": "lower",
    "attacker_informed": "lower",
}
_JUDGED_BY = {"label_kept": "label", "target_style": "style"}


def _scores(
    pairs: Mapping[Pair, Agreements],
    judges: Judges,
    population: Population,
    originals: Mapping[str, Agreement],
    by_label: Mapping[str, Agreement],
    sources: Sequence[str],
    rng: np.random.Generator,
) -> Iterator[tuple[str, str, Score | None]]:
    """Yield question, variant and score of some pairs, with what stands beside them."""
    everybody = {client: client for pair in pairs for client in pair}
    clients = [client for client in everybody if client in judges.style_of]
    worth = judges.worth(population, clients) if pairs else {}
    for name, direction in _DIRECTIONS.items():
        some = {pair: agreed[name] for pair, agreed in pairs.items() if name in agreed}
        read = _JUDGED_BY.get(name)
        used = by_content(some, judges.style_of if read else everybody)
        if not used:
            continue
        yield name, "", measured(used, direction, rng)
        if read:
            yield name, "judge", measured(worth[read], "reference", rng)
            classes = population.info.outputs if read == "label" else len(judges.styles)
            if classes > 1:
                least = Score(1 / classes, 0.0, "reference", len(used), "share")
                yield name, "chance", least
            continue
        if name == "attacker":
            yield name, "judge", measured([originals[c] for c in sources], "reference", rng)
        told = measured([by_label[c] for c in sources if c in by_label], "reference", rng)
        least = Score(1 / len(originals), 0.0, "reference", len(used), "share")
        yield name, "chance", least if told is None or told.value < least.value else told


def _row(pair: Pair, agreed: Agreements) -> RestyledPair:
    shares = {name: found.value for name, found in agreed.items() if found.value is not None}
    return cast(RestyledPair, {"source": pair[0], "target": pair[1], **shares})


@InPieces
def attackers(scene: Scene) -> Course[tuple[list[Stylist], dict[str, Params]]]:
    """Return clients that re-style, and what attackers learnt of them."""
    chosen = scene.once(_chosen)
    shown = max(1, SHOWN // len(chosen) ** 2)
    stylists = find_stylists(scene, chosen, shown=shown)
    pieces = attackers_pieces(stylists, scene.seed)
    return Course(pieces, lambda learnt: (stylists, attackers_by_name(learnt)))


def _chosen(scene: Scene) -> list[str]:
    style_of = scene.once(untrained_of_made).style_of
    return choose_holders(scene.population.partition, style_of, scene.seed)


class Restyling(Measure):
    """Members' samples in each other's style, read by judges and attackers."""

    name = "restyling"
    file = "restyle"
    ahead = (attackers, judges_of_made, judges_of_newcomers)

    def applies(self, scene: Scene) -> bool:
        """Say whether the method re-styles, there are two clients, and codes are kept."""
        if not restyles(scene.method) or not (scene.config.latents and scene.clients):
            return False
        return len(scene.once(_chosen)) > 1

    def measure(self, scene: Scene) -> Findings:
        """Re-style test samples of some clients as the others would have them."""
        method, population, seed = scene.method, scene.population, scene.seed
        stylists, learnt = scene.once(attackers)
        found = restyle_scores(
            method,
            scene.once(judges_of_made),
            stylists,
            population,
            seed,
            learnt=learnt,
            for_newcomers=scene.once(judges_of_newcomers),
            backend=scene.backend,
        )
        sheets = []
        if population.info.is_image and not isinstance(method, Decodes):  # swaps are drawn there
            with one_thread():
                sheets = [restyle_sheet(method, stylists, population, seed)]
        table = {"pairs": found.pairs}
        return Findings(found.scores, scene.rows(found.scores), table, sheets=sheets)

    def section(self, record: Record) -> Section | None:
        """Return what judges and attackers read from re-styled samples."""
        rows = judged_rows(record.scores, "restyle", _WORDS)
        if not rows:
            return None
        note = "An attacker says whose a sample is; chance is what labels alone tell. Samples that "
        note += "fool the first attacker and not the second look like another client's and are not "
        note += "anonymous."
        if Key("restyle", "label_kept") not in record.scores:
            note += " Label and style are those of the swaps."
        heads = ("read", ">re-styled", ">originals", ">chance", ">with newcomers")
        blocks: list[Block] = [*gathered(record.pictures_of("restyled"))]
        blocks.append(Grid("restyle", PlainTable("Re-styled samples", heads, rows, note)))
        pairs = record.tables["restyle"]["pairs"]
        by_pair = listed(
            "Re-styled samples, pair by pair",
            [f"{own['source']} as {own['target']}" for own in pairs],
            pairs,
            _WORDS,
            "Where all are of one style, the style of the target says nothing.",
        )
        if by_pair is not None:
            blocks.append(Grid("restyled", by_pair, is_folded=True))
        intro = "Members' test samples drawn as other members would have them."
        return Section("restyling", "Re-styled samples", intro, blocks)
