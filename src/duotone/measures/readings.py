"""Read the codes: what small networks find in each part, beside what they must be judged by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from duotone.data.dataset import Array
from duotone.federation.method import Method, Part
from duotone.measures.codes import CodeTable, code_table, is_code
from duotone.measures.controls import STOPPED, Deals, control_scores, dealt_scores
from duotone.measures.folds import Fold
from duotone.measures.linear_heads import train_linear
from duotone.measures.measure import Course, InPieces, Scene
from duotone.measures.probe_networks import Probes, train_probes
from duotone.measures.questions import (
    Question,
    answer_blindly,
    answer_by_label,
    bootstrap_counts,
    plain_score,
    score_answers,
)
from duotone.measures.score import Key, Score
from duotone.partition.partition import Population
from duotone.seeding import derive, stream
from duotone.types import Role

MOST_WITHIN = 8
"""Most clients whose numbers are read one by one."""
REFERENCES = ("chance", "label", "untrained")
"""Variants that a reading is judged by."""


@dataclass(frozen=True, slots=True)
class Readings:
    """What probes found.

    Attributes:
        scores: Of all probes.
        answers: For each part and question, the answers of the probe about members' test samples.
    """

    scores: dict[Key, Score]
    answers: dict[Part, dict[str, Array]]


@dataclass(frozen=True, slots=True)
class _PartReadings:
    """What probes found in one part, and for each reading what its deals scored."""

    scores: dict[Key, Score]
    answers: dict[str, Array]
    dealt: dict[Key, NDArray[np.float64]]


def read_codes(table: CodeTable) -> Readings:
    """Ask all questions of all parts that have a code.

    ``docs/metrics.md`` says what each score means. What cannot be told is left out: questions with
    a single answer, parts without a code.
    """
    return _together(table, [_read_part(table, part) for part in _read(table)])


@InPieces
def readings(scene: Scene) -> Course[Readings]:
    """Return what probes find in the codes of a scene."""
    table = scene.once(code_table)
    pieces = [partial(_part_piece, table, part) for part in _read(table)]
    return Course(pieces, partial(_together, table))


def _read(table: CodeTable) -> list[Part]:
    """Return the parts that can be read."""
    return [*table.parts] if table.questions and len(table.members.test) else []


def _part_piece(
    table: CodeTable, part: Part, method: Method, population: Population
) -> _PartReadings:
    """Read a part; a piece of work."""
    return _read_part(table, part)


def _read_part(table: CodeTable, part: Part) -> _PartReadings:
    # The number of threads changes the order of sums, and so the last bits of scores.
    with threadpool_limits(1):
        rng = stream(table.seed, "separation", "control")  # the same deals for all parts
        deals = Deals(table.members.folds, table.latents["client"], rng)
        reader = _Reader(table, part, table.parts[part])
        return _PartReadings(reader.scores(), reader.answers, reader.dealt(deals))


def _together(table: CodeTable, found: Sequence[_PartReadings]) -> Readings:
    """Put what was found in all parts together; all readings have a bar in common."""
    scores = {key: score for own in found for key, score in own.scores.items()}
    drawn = {key: dealt for own in found for key, dealt in own.dealt.items()}
    scores.update(control_scores(drawn, {key: scores[key].unit for key in drawn}))
    for key, score in scores.items():
        # Newcomers' names alone are learnt from newcomers.
        is_own = key.role == "newcomer" and key.question == "client"
        rows = table.newcomers if is_own else table.members
        scores[key] = replace(score, learnt_on=rows.learnt_on)
    answers = {part: own.answers for part, own in zip(_read(table), found, strict=True)}
    return Readings(scores, answers)


class _Reader:
    """What can be read out of one part, by one network per question and fold."""

    def __init__(self, table: CodeTable, part: Part, codes: Array) -> None:
        self._table, self._part, self._codes = table, part, codes
        self._folds = table.members.folds
        self._names = [asking.name for asking in table.questions]
        self._networks = self._trained(codes)

    @property
    def answers(self) -> dict[str, Array]:
        """The networks' answers to each question, about all samples scored."""
        return dict(zip(self._names, self._said(self._networks, self._codes), strict=True))

    def scores(self) -> dict[Key, Score]:
        """Return what networks and linear probes read, and what they are judged by."""
        table, part, codes = self._table, self._part, self._codes
        asked = table.asked(table.questions)
        answers = {
            "": self._said(self._networks, codes),
            "chance": [self._blind(asking) for asking in table.questions],
            "linear": _joined(
                train_linear(codes[fold.train], self._known(fold), codes[fold.test])
                for fold in self._folds
            ),
        }
        other_codes = {
            "samples": _posterior_samples(table, part),
            "untrained": table.latents.get(f"untrained_{part}"),
        }
        for variant, other in other_codes.items():
            if other is not None and is_code(other):
                answers[variant] = self._said(self._trained(other), other)
        rng = stream(table.seed, "separation", "bootstrap")
        counts = bootstrap_counts(len(table.members.test), rng)
        scores: dict[Key, Score] = {}
        for variant, given in answers.items():
            scores |= _scored(table, part, variant, asked, given, counts)
        scores |= _label_scores(table, part, counts)
        scores |= _within_scores(table, part, codes)
        return scores | _newcomer_scores(table, part, codes, self._networks)

    def dealt(self, deals: Deals) -> dict[Key, NDArray[np.float64]]:
        """Return what both kinds of probes score where answers are dealt out anew."""
        hidden = [network.hidden(self._codes) for network in self._networks]
        found: dict[Key, NDArray[np.float64]] = {}
        for place, asking in enumerate(self._table.questions):
            # A network that learnt the true groups would be the worse at others.
            reader = self._names.index("client") if deals.is_of_clients(asking) else place
            own = [layers[reader] for layers in hidden]
            key = Key("probe", asking.name, part=self._part)
            found[key] = dealt_scores(asking, self._folds, own, deals, STOPPED)
            plain = [self._codes] * len(self._folds)
            found[key.beside("linear")] = dealt_scores(asking, self._folds, plain, deals)
        return found

    def _known(self, fold: Fold) -> list[Question]:
        return [asking.at(fold.train) for asking in self._table.questions]

    def _trained(self, codes: Array) -> list[Probes]:
        seed = derive(self._table.seed, "separation", "probes")
        return [train_probes(codes[fold.train], self._known(fold), seed) for fold in self._folds]

    def _said(self, networks: Sequence[Probes], codes: Array) -> list[Array]:
        pairs = zip(networks, self._folds, strict=True)
        return _joined(network(codes[fold.test]) for network, fold in pairs)

    def _blind(self, asking: Question) -> Array:
        if not asking.is_categorical:  # the mean of all samples asked
            rows = self._table.members.test
            return answer_blindly(asking.at(rows), asking.at(rows))
        return np.concatenate(
            [answer_blindly(asking.at(f.train), asking.at(f.test)) for f in self._folds]
        )


def _joined(of_folds: Iterable[Sequence[Array]]) -> list[Array]:
    """Put the answers of all folds behind each other, question by question."""
    return [np.concatenate(own) for own in zip(*of_folds, strict=True)]


def _label_scores(table: CodeTable, part: Part, counts: NDArray[np.float64]) -> dict[Key, Score]:
    """Return what the label alone tells about client and group."""
    by_name = {asking.name: asking for asking in table.questions if asking.is_categorical}
    label = by_name.get("label")
    if label is None:
        return {}
    owners = [by_name[name] for name in ("client", "group") if name in by_name]
    answers = _joined(
        [
            answer_by_label(
                owner.at(fold.train), label.answers[fold.train], label.answers[fold.test]
            )
            for owner in owners
        ]
        for fold in table.members.folds
    )
    return _scored(table, part, "label", table.asked(owners), answers, counts)


def _within_scores(table: CodeTable, part: Part, codes: Array) -> dict[Key, Score]:
    """Read numbers client by client, where codes of different clients mean different things."""
    rows, names = table.members, np.unique(table.latents["client"][table.members.test])
    own: list[Question] = []
    for asking in table.questions:
        if not asking.is_categorical:
            inside = [asking.where(table.latents["client"] == name) for name in names]
            own += [
                each
                for each in inside
                if all(each.at(r).can_be_learnt for f in rows.folds for r in (f.train, f.test))
            ][:MOST_WITHIN]
    if not own:
        return {}
    seed = derive(table.seed, "separation", "within")
    answers = _joined(
        train_probes(codes[f.train], [each.at(f.train) for each in own], seed)(codes[f.test])
        for f in rows.folds
    )
    found: dict[str, list[float]] = {}
    for each, said in zip(own, answers, strict=True):
        found.setdefault(each.name, []).append(plain_score(each.at(rows.test), said))
    return {
        Key("probe", name, part=part, variant="within"): Score(
            float(np.mean(values)),
            float(np.std(values)),
            table.direction(name, part),
            len(values),
            "R²",
        )
        for name, values in found.items()
    }


def _scored(
    table: CodeTable,
    part: Part,
    variant: str,
    asked: Sequence[Question],
    answers: Sequence[Array],
    counts: NDArray[np.float64],
    role: Role = "member",
) -> dict[Key, Score]:
    scores: dict[Key, Score] = {}
    for truth, given in zip(asked, answers, strict=True):
        is_reference = variant in REFERENCES
        direction = "reference" if is_reference else table.direction(truth.name, part)
        score = score_answers(truth, given, direction, counts)
        if score is not None:
            scores[Key("probe", truth.name, part=part, variant=variant, role=role)] = score
    return scores


def _newcomer_scores(
    table: CodeTable, part: Part, codes: Array, networks: Sequence[Probes]
) -> dict[Key, Score]:
    """Ask the members' probes about newcomers; who they are, newcomers' own samples must tell."""
    rows, members = table.newcomers, table.members
    if len(rows.test) == 0:
        return {}
    # Where members' probes are two, each answers about one half of the newcomers' samples.
    pairs = list(zip(rows.folds, cycle(networks), cycle(members.folds)))
    members_say = _joined(network(codes[fold.test]) for fold, network, _ in pairs)
    asked: list[Question] = []
    answers: list[Array] = []
    for number, asking in enumerate(table.questions):
        if asking.name != "client":
            of_folds = [
                asking.at(fold.test).about_known(asking.at(known.train)).answers
                for fold, _, known in pairs
            ]
            asked.append(replace(asking, answers=np.concatenate(of_folds)))
            answers.append(members_say[number])
        elif all(asking.at(fold.train).can_be_learnt for fold in rows.folds):
            seed = derive(table.seed, "separation", "newcomers")
            asked.append(rows.asked(asking))
            answers += _joined(
                train_probes(codes[fold.train], [asking.at(fold.train)], seed)(codes[fold.test])
                for fold in rows.folds
            )
    counts = bootstrap_counts(
        len(rows.test), stream(table.seed, "separation", "bootstrap", "newcomers")
    )
    return _scored(table, part, "", asked, answers, counts, "newcomer")


def _posterior_samples(table: CodeTable, part: Part) -> Array | None:
    """Draw one code from every sample's posterior; ``None`` where the codes read have none."""
    std = table.latents.get(f"{part}_std")
    if std is None or f"common_{part}" in table.latents:
        return None
    rng = stream(table.seed, "separation", "samples", part)
    return np.asarray(table.parts[part] + std * rng.standard_normal(std.shape))
