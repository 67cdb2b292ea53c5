"""Re-style samples: client A's drawn as client B would have them, and what that gives away.

Judges say whether the label is kept and the new style is there. Two attackers say whether the
source can still be told: one learnt from real samples, the other knows the method.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

import numpy as np
from torch import Tensor, nn

from duotone.federation.method import Method
from duotone.federation.protocols import Decodes
from duotone.measures.attackers import (
    attacker_by_originals,
    attacker_by_restyled,
    guessed_source,
    named_source,
)
from duotone.measures.judges import Agreement, Judges, agreement, measured
from duotone.measures.metrics import Direction
from duotone.measures.stylists import Stylist, drawn_as, originals_of
from duotone.measures.summary import Score
from duotone.measures.swap import Agreements, Pair, by_content
from duotone.partition.partition import Population
from duotone.seeding import stream


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

    scores: dict[str, Score]
    pairs: list[RestyledPair]


def restyle_scores(
    method: Method,
    judges: Judges,
    stylists: Sequence[Stylist],
    population: Population,
    seed: int,
    *,
    for_newcomers: Judges | None = None,
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
        for_newcomers: What reads samples where a newcomer is concerned, if not the same judges.
    """
    attackers = {
        "attacker": attacker_by_originals(stylists, population, seed),
        "attacker_informed": attacker_by_restyled(
            method, stylists, stylists, population.info, seed
        ),
    }
    is_judged_by_swaps = isinstance(method, Decodes)
    newcomers = {stylist.client for stylist in stylists if stylist.role == "newcomer"}
    found: dict[Pair, Agreements] = {}
    for target in stylists:
        model = method.load(target.params, population.info).eval()
        for number, source in enumerate(stylists):
            pair = (source.client, target.client)
            if source is target:
                continue
            x = drawn_as(method, model, source, target, "test", seed)
            found[pair] = {name: _named(one, x, number) for name, one in attackers.items()}
            if not is_judged_by_swaps:
                is_new = bool(newcomers & set(pair))
                reader = for_newcomers if is_new and for_newcomers is not None else judges
                found[pair] |= read_restyled(reader, population, pair, x)
    originals = {
        source.client: _named(attackers["attacker"], originals_of(source, population, "test"), i)
        for i, source in enumerate(stylists)
    }
    by_label = _by_label(stylists, population)
    scores: dict[str, Score | None] = {}
    for suffix in ("", ".newcomers"):
        pairs = {p: a for p, a in found.items() if bool(newcomers & set(p)) == bool(suffix)}
        reader = for_newcomers if suffix and for_newcomers is not None else judges
        some = sorted({source for source, _ in pairs})
        rng = stream(seed, "restyle", "bootstrap", suffix)
        scores |= {
            f"restyle.{name}{suffix}": score
            for name, score in _scores(pairs, reader, population, originals, by_label, some, rng)
        }
    known = {name: score for name, score in sorted(scores.items()) if score is not None}
    return RestyleResult(known, [_row(pair, agreed) for pair, agreed in found.items()])


def _named(attacker: nn.Module, x: Tensor, number: int) -> Agreement:
    named = named_source(attacker, x).astype(np.float64)
    return agreement("categorical", np.full(len(x), float(number)), named)


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
) -> Iterator[tuple[str, Score | None]]:
    """Yield the scores of some pairs, with what stands beside them."""
    everybody = {client: client for pair in pairs for client in pair}
    clients = [client for client in everybody if client in judges.style_of]
    worth = judges.worth(population, clients) if pairs else {}
    for name, direction in _DIRECTIONS.items():
        some = {pair: agreed[name] for pair, agreed in pairs.items() if name in agreed}
        read = _JUDGED_BY.get(name)
        used = by_content(some, judges.style_of if read else everybody)
        if not used:
            continue
        yield name, measured(used, direction, rng)
        if read:
            yield f"{name}.judge", measured(worth[read], "reference", rng)
            classes = population.info.outputs if read == "label" else len(judges.styles)
            if classes > 1:
                yield f"{name}.chance", Score(1 / classes, 0.0, "reference", len(used), "share")
            continue
        if name == "attacker":
            yield f"{name}.judge", measured([originals[c] for c in sources], "reference", rng)
        told = measured([by_label[c] for c in sources if c in by_label], "reference", rng)
        least = Score(1 / len(originals), 0.0, "reference", len(used), "share")
        yield f"{name}.chance", least if told is None or told.value < least.value else told


def _row(pair: Pair, agreed: Agreements) -> RestyledPair:
    shares = {name: found.value for name, found in agreed.items() if found.value is not None}
    return cast(RestyledPair, {"source": pair[0], "target": pair[1], **shares})
