"""Read the codes: what small networks find in each part, beside what they must be judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from duotone.data.dataset import Array
from duotone.federation.method import Part
from duotone.measures.codes import CodeTable, code_table, is_code
from duotone.measures.measure import Scene
from duotone.measures.probe_networks import Probe, train_linear, train_probes
from duotone.measures.questions import (
    Question,
    answer_blindly,
    answer_by_label,
    bootstrap_counts,
    plain_score,
    score_answers,
)
from duotone.measures.score import Key, Score
from duotone.seeding import derive, stream
from duotone.types import Role

MOST_WITHIN = 8
"""Most clients whose numbers are read one by one."""
REFERENCES = ("chance", "label", "control", "untrained")
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


def read_codes(table: CodeTable) -> Readings:
    """Ask all questions of all parts that have a code.

    ``docs/metrics.md`` says what each score means. What cannot be told is left out: questions with
    a single answer, parts without a code.
    """
    found = Readings({}, {})
    # The number of threads changes the order of sums, and so the last bits of scores.
    with threadpool_limits(1):
        if table.questions and len(table.members.test):
            for part, codes in table.parts.items():
                scores, found.answers[part] = _probe_scores(table, part, codes)
                found.scores.update(scores)
    return found


def readings(scene: Scene) -> Readings:
    """Return what probes find in the codes of a scene."""
    return read_codes(scene.once(code_table))


def _probe_scores(
    table: CodeTable, part: Part, codes: Array
) -> tuple[dict[Key, Score], dict[str, Array]]:
    """Return what can be read out of a part, and the answers to each question behind it."""
    rows, seed = table.members, derive(table.seed, "separation", "probes")
    known = [asking.at(rows.train) for asking in table.questions]
    asked = table.asked(table.questions)
    rng = stream(table.seed, "separation", "control")
    permuted = [training.permuted(rng) for training in known]
    probe = train_probes(codes[rows.train], [*known, *permuted], seed)
    said = probe(codes[rows.test])
    answers = {
        "": said[: len(known)],
        "control": said[len(known) :],
        "chance": [answer_blindly(*pair) for pair in zip(known, asked, strict=True)],
        "linear": train_linear(codes[rows.train], known)(codes[rows.test]),
    }
    other_codes = {
        "samples": _posterior_samples(table, part),
        "untrained": table.latents.get(f"untrained_{part}"),
    }
    for variant, other in other_codes.items():
        if other is not None and is_code(other):
            answers[variant] = train_probes(other[rows.train], known, seed)(other[rows.test])
    counts = bootstrap_counts(len(rows.test), stream(table.seed, "separation", "bootstrap"))
    scores: dict[Key, Score] = {}
    for variant, given in answers.items():
        scores |= _scored(table, part, variant, asked, given, counts)
    scores |= _label_scores(table, part, counts)
    scores |= _within_scores(table, part, codes) | _newcomer_scores(
        table, part, codes, known, probe
    )
    names = [asking.name for asking in table.questions]
    return scores, dict(zip(names, answers[""], strict=True))


def _label_scores(table: CodeTable, part: Part, counts: NDArray[np.float64]) -> dict[Key, Score]:
    """Return what the label alone tells about client and group."""
    rows = table.members
    by_name = {asking.name: asking for asking in table.questions if asking.is_categorical}
    label = by_name.get("label")
    if label is None:
        return {}
    owners = [by_name[name] for name in ("client", "group") if name in by_name]
    known, asked = label.answers[rows.train], label.answers[rows.test]
    answers = [answer_by_label(owner.at(rows.train), known, asked) for owner in owners]
    return _scored(table, part, "label", table.asked(owners), answers, counts)


def _within_scores(table: CodeTable, part: Part, codes: Array) -> dict[Key, Score]:
    """Read numbers client by client, where codes of different clients mean different things."""
    rows, client = table.members, table.latents["client"]
    scores: dict[Key, Score] = {}
    for asking in table.questions:
        if asking.is_categorical:
            continue
        own = [asking.where(client == name) for name in np.unique(client[rows.train])]
        own = [each for each in own if each.at(rows.train).can_be_learnt][:MOST_WITHIN]
        seed = derive(table.seed, "separation", "within")
        training = [each.at(rows.train) for each in own]
        answers = train_probes(codes[rows.train], training, seed)(codes[rows.test]) if own else []
        found = [
            plain_score(each.at(rows.test), said)
            for each, said in zip(own, answers, strict=True)
            if each.at(rows.test).can_be_learnt
        ]
        if found:
            key = Key("probe", asking.name, part=part, variant="within")
            direction = table.direction(asking.name, part)
            mean, spread = float(np.mean(found)), float(np.std(found))
            scores[key] = Score(mean, spread, direction, len(found), "R²")
    return scores


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
    table: CodeTable, part: Part, codes: Array, known: Sequence[Question], probe: Probe
) -> dict[Key, Score]:
    """Ask the members' probes about newcomers; who they are, newcomers' own samples must tell."""
    rows = table.newcomers
    if len(rows.test) == 0:
        return {}
    asked: list[Question] = []
    answers: list[Array] = []
    members_say = probe(codes[rows.test])
    for number, (asking, training) in enumerate(zip(table.questions, known, strict=True)):
        if asking.name != "client":
            asked.append(asking.at(rows.test).about_known(training))
            answers.append(members_say[number])
        elif (own := asking.at(rows.train)).can_be_learnt:
            asked.append(asking.at(rows.test).about_known(own))
            seed = derive(table.seed, "separation", "newcomers")
            answers += train_probes(codes[rows.train], [own], seed)(codes[rows.test])
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
