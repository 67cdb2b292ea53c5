"""Swap one part of the representation: do the shared and the local code do what they are named for?

The shared code of a sample of client A and the local code of a sample of client B are decoded by
B's model. Judges read the label, which should be that of A's sample, and the style, which should be
B's. A local code that does nothing at all passes that test where the decoder itself draws the
style, so every score stands beside those that would tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from duotone.federation.backends.serial import one_thread
from duotone.federation.method import Part
from duotone.federation.protocols import Decodes
from duotone.measures.agreement import (
    Agreements,
    FloatArray,
    Pair,
    agreement,
    by_content,
    measured,
)
from duotone.measures.decoding import Codes, Holder, decode_codes
from duotone.measures.judges import Judges
from duotone.measures.questions import part_of
from duotone.measures.score import Key, Score
from duotone.partition.partition import Population, Rows
from duotone.seeding import stream
from duotone.types import Role, RoundInfo

_GRID = 12


class MatrixRow(TypedDict):
    """How well a pair of clients swaps; ``None`` where the judges know no true answer."""

    content_client: str
    style_client: str
    label: float | None
    style: float | None


@dataclass(frozen=True, slots=True)
class SwapResult:
    """What swapping shows.

    Attributes:
        scores: By name, see :func:`swap_scores`.
        matrix: One row per pair of clients. On the diagonal the local code is that of another
            sample of the same client.
        local_effect: For each client what ``swap.local_effect`` is the mean of.
    """

    scores: dict[Key, Score]
    matrix: list[MatrixRow]
    local_effect: dict[str, float]


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
    holders: Sequence[Holder],
    population: Population,
    info: RoundInfo,
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
        holders: Members and newcomers with their models and codes.
        population: Every client's samples.
        info: The round; the source of random pairs.
    """
    owners = {trait.name: part_of(trait.name, population.dataset.name) for trait in judges.traits}
    with one_thread():
        findings = _swap(method, judges, holders, owners, info)
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
    return SwapResult(scores, matrix, findings.effects)


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


def _swap(
    method: Decodes,
    judges: Judges,
    holders: Sequence[Holder],
    owners: Mapping[str, Part | None],
    info: RoundInfo,
) -> _Findings:
    """Decode everything with every holder's model, and compare what is read with the truth."""
    mean = np.concatenate([h.local for h in holders if h.role == "member"]).mean(axis=0)
    findings = _Findings()

    def judged(content: Holder, giver: Holder, local: Codes, donors: Rows) -> Agreements:
        verdicts = judges.verdicts(decode_codes(method, model, content.shared, local))
        found: Agreements = {}
        for trait in judges.traits:
            name = trait.name
            given = giver.truth[name][donors]
            truth = content.truth[name] if owners[name] == "shared" else given
            found[name] = agreement(trait.scale, truth, verdicts[name])
        return found

    for giver in holders:  # they share one network: each is loaded once and decodes everything
        model = method.load(giver.params, info.data).eval()
        for content in holders:
            pair = (content.client, giver.client)
            donors = _donors(content, giver, stream(info.seed, "swap", "donors", *pair))
            findings.swapped[pair] = judged(content, giver, giver.local[donors], donors)
            if content.role == giver.role == "member" and content.style != giver.style:
                same = np.tile(mean, (len(donors), 1))
                findings.without_local[pair] = judged(content, giver, same, donors)
        if giver.role == "member":
            own = np.arange(len(giver.local))
            findings.unswapped[giver.client] = judged(giver, giver, giver.local, own)
            size = min(_GRID, len(own))
            shared = np.repeat(giver.shared[:size], size, axis=0)
            local = np.tile(giver.local[:size], (size, 1))
            grid = decode_codes(method, model, shared, local).double().numpy()
            findings.effects[giver.client] = local_effect(grid.reshape(size, size, -1))
    return findings


def _donors(content: Holder, giver: Holder, rng: np.random.Generator) -> Rows:
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
    holders: Sequence[Holder],
    owners: Mapping[str, Part | None],
    population: Population,
    seed: int,
) -> dict[Key, Score]:
    rng = stream(seed, "swap", "bootstrap")
    found: dict[Key, Score | None] = {}
    newcomers = {holder.client for holder in holders if holder.role == "newcomer"}
    members = {holder.client for holder in holders} - newcomers
    sides: list[tuple[set[str], Role]] = [(members, "member"), (newcomers, "newcomer")]
    for clients, role in sides:
        worth = judges.worth(population, sorted(clients))
        for name, part in owners.items():
            pairs = {
                (a, b): agreements[name]
                for (a, b), agreements in findings.swapped.items()
                if bool(newcomers & {a, b}) == (clients is newcomers)
            }
            if name in ("label", "style"):
                used = by_content(pairs, judges.style_of)
            else:
                used = [inside for (a, b), inside in pairs.items() if a == b]
            key = Key("swap", name, role=role)
            found[key] = measured(used, "higher" if part else "reference", rng)
            found[key.beside("judge")] = measured(worth[name], "reference", rng)
    for name in owners:
        plain = [agreements[name] for agreements in findings.unswapped.values()]
        found[Key("swap", name, variant="unswapped")] = measured(plain, "reference", rng)
    if "style" in owners:
        pairs = {pair: agreements["style"] for pair, agreements in findings.without_local.items()}
        dead = by_content(pairs, judges.style_of)
        found[Key("swap", "style", variant="without_local")] = measured(dead, "reference", rng)
    effects = list(findings.effects.values())
    mean, spread = float(np.mean(effects)), float(np.std(effects))
    found[Key("swap", "local_effect")] = Score(mean, spread, "reference", len(effects), "share")
    return {name: score for name, score in sorted(found.items()) if score is not None}
