"""Why do clients answer as they do? How much is sample, habit, reading; and what exchanging does.

Every member is asked about the same samples. Their answers are taken apart, see
:mod:`duotone.measures.decomposition`. Where a sample's own client is exchanged for another one, as
if it had the other's local part, decisions change or they do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from torch import Tensor

from duotone.federation.method import Part
from duotone.measures.answer_figures import map_figure, shares_figure
from duotone.measures.asked import AskJob, background, background_labels, witnesses_among
from duotone.measures.case import case_picture, find_case
from duotone.measures.decomposition import PARTS, FloatArray, variance_shares
from duotone.measures.exchanges import by_client, flip_scores, flip_table, ways_of
from duotone.measures.measure import Entry, Findings, Measure, Record, Scene
from duotone.measures.panels import (
    NOTHING,
    Block,
    Grid,
    Panel,
    Picture,
    PlainTable,
    Section,
    Sentence,
    Tile,
    View,
)
from duotone.measures.panels import score_text as text_of
from duotone.measures.score import Key, Score
from duotone.measures.sheet import Sheet, pixels
from duotone.seeding import stream

_RESAMPLES = 200
_WAYS = 8  # changes that a report lists
_WORDS = {
    "sample": "sample: what anybody would say of this input",
    "habit": "habit: what this client says of anything",
    "reading": "reading: what this client sees in this input that others do not",
}
_FLIPS = {
    "": "another member's local part",
    "same_group": "of the same group",
    "other_group": "of another group",
    "permuted": "the same difference with groups dealt at random",
}


class Answers(Measure):
    """What answers are made of, over all members."""

    name = "answers"
    file = "answers"

    def applies(self, scene: Scene) -> bool:
        """Say whether there are two members to compare."""
        return len(_members(scene)) > 1

    def measure(self, scene: Scene) -> Findings:
        """Ask members and newcomers about the background, and take the answers apart."""
        members = _members(scene)
        witnesses = witnesses_among(members, scene.seed)
        others = [client for client in scene.clients if client not in members]
        others = witnesses_among(others, scene.seed)
        job = AskJob(scene.serving, tuple(witnesses))
        told: dict[str, FloatArray] = scene.ask(job, [*witnesses, *others])
        witnesses = [client for client in witnesses if client in told]
        if len(witnesses) < 2:
            return Findings()
        x, owner = background(scene.population, job.members)
        answers = np.stack([told[client] for client in witnesses])
        scores = share_scores(answers, scene.seed)
        partition = scene.population.partition
        groups = {client: partition[client].group for client in told}
        table: dict[str, Any] = {
            "members": witnesses,
            "asked": list(job.members),
            "samples": answers.shape[1],
            "usual": {client: own.mean(axis=0).tolist() for client, own in told.items()},
            "groups": groups,
            "places": dict(zip(told, _places(list(told.values())), strict=True)),
        }
        if scene.population.info.task == "classes":
            decisions = np.stack([told[client].argmax(axis=1) for client in witnesses])
            flips = flip_table(decisions, witnesses, owner)
            table["flips"] = by_client(flips)
            table["ways"] = ways_of(decisions, witnesses, owner, answers.shape[2])
            scores |= flip_scores(flips, groups, scene.seed)
            labels = background_labels(scene.population, job.members)
            table["case"] = find_case(answers, witnesses, owner, labels)
        sheets = []
        if table.get("case") and scene.population.info.is_image:
            sheets = [_case_sheet(x[table["case"]["sample"]])]
        return Findings(scores, scene.rows(scores), table, sheets=sheets)

    def section(self, record: Record) -> Section | None:
        """Return the shares, a map of clients by how they answer, and exchanges."""
        found = record.of("answers")
        table = record.tables.get("answers")
        if not found or table is None:
            return None
        rows = tuple((_WORDS[part], text_of(found[Key("answers", part)])) for part in PARTS)
        shares = PlainTable(
            "What answers are made of",
            ("part", ">share of the variance"),
            rows,
            f"Every one of {len(table['members'])} members was asked about the same "
            f"{table['samples']} test samples. Intervals are over samples; the members are those "
            "of this run. Shares are of probabilities, so a part can be small and yet decide.",
        )
        blocks: list[Block] = [
            Grid("answer-shares", shares),
            _map(table),
            *_exchanges(found, table),
        ]
        largest = max(("habit", "reading"), key=lambda part: found[Key("answers", part)].value)
        own = sum(found[Key("answers", part)].value for part in ("habit", "reading"))
        part: Part = "local" if own >= 0.005 else "shared"
        sentence = Sentence(
            "Answers",
            f"{own:.0%} of what is said differs by who is asked"
            + (f", most of it {largest}." if own >= 0.005 else ": all clients answer alike."),
            part,
        )
        most = f"most of it {largest}" if part == "local" else "all clients answer alike"
        tile = Tile("of what is said depends on who is asked", f"{own:.0%}", most, part)
        return Section(
            "answers",
            "Why clients answer as they do",
            "How much of all answers is the sample, the client's habit, and its reading of the "
            "sample; and how often decisions change when the local part is exchanged.",
            blocks,
            [sentence],
            tiles=[tile],
        )

    def lead(self, record: Record) -> Picture | None:
        """Return the sample on which two members differ most, if they ever do."""
        case = record.tables.get("answers", {}).get("case")
        if case is None:
            return None
        numbers = {case["class"], case["label"], *(each["says"] for each in case["clients"])}
        names = {number: record.class_name(number) for number in numbers}
        stored = record.pictures_of("case")
        return case_picture(case, names, stored[0].uri if stored else None)

    def compared(self, entries: Sequence[Entry]) -> Section | None:
        """Return the shares of all entries, as means over seeds."""
        rows = []
        values: dict[str, dict[str, float]] = {}
        keys = [*(Key("answers", part) for part in PARTS), Key("answers", "flips")]
        for entry in entries:
            cells = []
            for key in keys:
                known = [r.scores[key].value for r in entry.records if key in r.scores]
                mean = sum(known) / len(known) if known else None
                cells.append(NOTHING if mean is None else f"{mean:.3f}")
                if mean is not None:
                    values.setdefault(entry.name, {})[key.question] = mean
            rows.append((entry.name, *cells))
        if not values:
            return None
        heads = (">sample", ">habit", ">reading", ">decisions changed by an exchange")
        table = PlainTable(
            "What answers are made of", ("entry", *heads), tuple(rows), "Means over seeds."
        )
        data = pl.DataFrame([{"entry": name, **found} for name, found in values.items()])
        panel = Panel(
            "answer-parts",
            "Sample, habit, reading",
            (View((), shares_figure({n: {p: v[p] for p in PARTS} for n, v in values.items()})),),
            "How much of what clients say depends on who is asked.",
            "A method that answers at random in its own way has much reading, too; see accuracy.",
            data,
        )
        return Section(
            "answers",
            "Why clients answer as they do",
            "Shares of the variance of all members' answers to the same samples.",
            [panel, Grid("answers", table)],
        )


def _case_sheet(sample: Tensor) -> Sheet:
    return Sheet(
        "case",
        "case",
        "One sample",
        "What two members answer differently.",
        "It is the sample on which two members differ most, not a typical one.",
        pixels(sample[None])[None],
    )


def _members(scene: Scene) -> list[str]:
    members = set(scene.population.partition.members)
    return [client for client in scene.clients if client in members]


def share_scores(answers: FloatArray, seed: int) -> dict[Key, Score]:
    """Return the variance shares with bootstrap intervals over samples.

    Args:
        answers: ``(clients, samples, outputs)``.
        seed: Of the resampling.
    """
    shares = variance_shares(answers)
    rng = stream(seed, "answers")
    count = answers.shape[1]
    drawn = [
        variance_shares(answers[:, rng.integers(count, size=count)]) for _ in range(_RESAMPLES)
    ]
    scores: dict[Key, Score] = {}
    for part in PARTS:
        values = np.array([found[part] for found in drawn])
        low, high = np.quantile(values, [0.025, 0.975])
        # The ends are of resamples; the value itself must not lie outside them.
        low, high = min(float(low), shares[part]), max(float(high), shares[part])
        spread = float(values.std())
        scores[Key("answers", part)] = Score(
            shares[part], spread, "reference", count, "share", low, high
        )
    return scores


def _places(answers: Sequence[FloatArray]) -> list[list[float]]:
    """Return where clients lie in the plane in which their answers differ most."""
    table = np.stack([found.ravel() for found in answers])
    table = (table - table.mean(axis=0)) / np.sqrt(max(1, answers[0].shape[0]))
    left, sizes, _ = np.linalg.svd(table, full_matrices=False)
    places = np.zeros((len(table), 2))
    kept = min(2, len(sizes))
    places[:, :kept] = left[:, :kept] * sizes[:kept]
    found: list[list[float]] = np.round(places, 5).tolist()
    return found


def _map(table: Mapping[str, Any]) -> Panel:
    names = list(table["places"])
    data = pl.DataFrame(
        {
            "client": names,
            "group": [table["groups"][name] for name in names],
            "role": ["member" if n in table["members"] else "newcomer" for n in names],
            "x": [table["places"][name][0] for name in names],
            "y": [table["places"][name][1] for name in names],
        }
    )
    return Panel(
        "answer-map",
        "Clients by how they answer",
        (View((), map_figure(data)),),
        "Clients that lie together say the same of the same samples.",
        "Two directions of many are shown, those in which answers differ most. The scale is that "
        "of probabilities; with all clients alike, the map shows rounding.",
        data,
    )


def _exchanges(found: Mapping[Key, Score], details: Mapping[str, Any]) -> list[Block]:
    key = Key("answers", "flips")
    rows = tuple(
        (words, text_of(found.get(key.beside(variant) if variant else key)))
        for variant, words in _FLIPS.items()
        if (key.beside(variant) if variant else key) in found
    )
    if not rows:
        return []
    table = PlainTable(
        "Decisions that change when the local part is exchanged",
        ("a client's own samples, decided with", ">share changed"),
        rows,
        "The last row is a difference, another group's less the same group's, with groups dealt "
        "at random among clients: what chance makes of it.",
    )
    return [Grid("answer-exchanges", table), *_most_frequent_ways(details["ways"])]


def _most_frequent_ways(ways: Sequence[Sequence[int]]) -> list[Block]:
    """Show which decisions become which when the local part is exchanged."""
    counts = np.array(ways)
    every = int(counts.sum())
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:_WAYS]
    pairs = [np.unravel_index(place, counts.shape) for place in order]
    rows = tuple(
        (str(here), str(there), f"{counts[here, there] / every:.1%}")
        for here, there in pairs
        if counts[here, there]
    )
    if not rows:
        return []
    table = PlainTable(
        "Which way decisions change",
        ("own decision", "becomes", ">of all exchanges"),
        rows,
        f"The {len(rows)} most frequent changes. Nothing here says which of the two is right.",
    )
    return [Grid("answer-ways", table, is_folded=True)]
