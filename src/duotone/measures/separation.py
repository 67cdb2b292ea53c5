"""Does each part of a code hold what it should, and nothing else? All scores of a table of codes.

The table is a run's ``latents.npz``: codes of both parts with what is known of every sample. Codes
by different encoders cannot be compared, so where a client's encoder is its own the codes that one
member's encoder gives for all samples (``common_…``) are taken instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from duotone.data.dataset import Array
from duotone.federation.method import Part
from duotone.measures.disentanglement import hsic, total_correlation
from duotone.measures.factor_tables import measure_dimensions, measure_parts, part_scores
from duotone.measures.factors import part_of
from duotone.measures.groups import client_means, group_scores, newcomers_beside_own_group
from duotone.measures.metrics import Direction
from duotone.measures.probes import (
    Probe,
    answer_blindly,
    answer_by_label,
    bootstrap_counts,
    plain_score,
    score_answers,
    train_linear,
    train_probes,
)
from duotone.measures.questions import Question, draw_rows, question
from duotone.measures.summary import Score
from duotone.seeding import derive, stream
from duotone.types import Unit

PARTS: tuple[Part, Part] = ("shared", "local")

MOST_WITHIN = 8
"""Most clients whose amounts are read one by one."""

_REFERENCES = (".chance", ".label", ".control", ".untrained")


def separation_scores(
    latents: Mapping[str, Array], *, data_name: str | None, seed: int
) -> dict[str, Score]:
    """Return all scores of separation that a table of codes allows, by name.

    ``docs/metrics.md`` says what each of them means. What cannot be told is left out: questions
    with a single answer, parts without a code, groups of one client.

    Args:
        latents: The arrays of ``latents.npz``.
        data_name: Name of the data set, which says whose its factors are.
        seed: The seed of the run.
    """
    # The number of threads changes the order of sums, and so the last bits of scores.
    with threadpool_limits(1):
        table = _Table.of(latents, data_name, seed)
        scores: dict[str, Score] = {}
        if table.parts and table.questions and len(table.members.test):
            answers: dict[Part, dict[str, Array]] = {}
            for part, codes in table.parts.items():
                found, answers[part] = _probe_scores(table, part, codes)
                scores |= found
            scores |= _factor_scores(table, scores, answers) | _dependence_scores(table)
        return dict(sorted((scores | _group_scores(table)).items()))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The samples a probe learns from and those it is scored on."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]

    @classmethod
    def of(cls, latents: Mapping[str, Array], role: str, seed: int) -> _Rows:
        drawn = {}
        for split in ("train", "test"):
            rows = np.flatnonzero((latents["kind"] == role) & (latents["split"] == split))
            drawn[split] = draw_rows(rows, stream(seed, "separation", "rows", role, split))
        return cls(**drawn)


@dataclass(frozen=True, slots=True)
class _Table:
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
    members: _Rows
    newcomers: _Rows
    seed: int

    @classmethod
    def of(cls, latents: Mapping[str, Array], data_name: str | None, seed: int) -> _Table:
        parts: dict[Part, Array] = {}
        for part in PARTS:
            codes = latents.get(f"common_{part}", latents[part])
            if _is_code(codes):
                parts[part] = codes
        columns = {name: latents[name] for name in ("client", "group", "label")}
        columns |= {
            name.removeprefix("factor_"): values
            for name, values in latents.items()
            if name.startswith("factor_")
        }
        members = _Rows.of(latents, "member", seed)
        asked = [question(name, values) for name, values in columns.items()]
        return cls(
            latents,
            parts,
            [asking for asking in asked if asking.at(members.train).can_be_learnt],
            {name: part_of(name, data_name) for name in columns},
            members,
            _Rows.of(latents, "newcomer", seed),
            seed,
        )

    def direction(self, name: str, part: Part) -> Direction | Literal["reference"]:
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
        rows = self.members
        return [asking.at(rows.test).about_known(asking.at(rows.train)) for asking in questions]


def _is_code(codes: Array) -> bool:
    """Say whether there is anything to read: diverged networks and absent parts have no code."""
    return codes.shape[1] > 0 and bool(np.isfinite(codes).all())


def _probe_scores(
    table: _Table, part: Part, codes: Array
) -> tuple[dict[str, Score], dict[str, Array]]:
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
        ".control": said[len(known) :],
        ".chance": [answer_blindly(*pair) for pair in zip(known, asked, strict=True)],
        ".linear": train_linear(codes[rows.train], known)(codes[rows.test]),
    }
    other_codes = {
        ".samples": _posterior_samples(table, part),
        ".untrained": table.latents.get(f"untrained_{part}"),
    }
    for suffix, other in other_codes.items():
        if other is not None and _is_code(other):
            answers[suffix] = train_probes(other[rows.train], known, seed)(other[rows.test])
    counts = bootstrap_counts(len(rows.test), stream(table.seed, "separation", "bootstrap"))
    scores: dict[str, Score] = {}
    for suffix, given in answers.items():
        scores |= _scored(table, part, suffix, asked, given, counts)
    scores |= _label_scores(table, part, counts)
    scores |= _within_scores(table, part, codes) | _newcomer_scores(
        table, part, codes, known, probe
    )
    names = [asking.name for asking in table.questions]
    return scores, dict(zip(names, answers[""], strict=True))


def _label_scores(table: _Table, part: Part, counts: NDArray[np.float64]) -> dict[str, Score]:
    """Return what the label alone tells about client and group."""
    rows = table.members
    by_name = {asking.name: asking for asking in table.questions if asking.is_categorical}
    label = by_name.get("label")
    if label is None:
        return {}
    owners = [by_name[name] for name in ("client", "group") if name in by_name]
    known, asked = label.answers[rows.train], label.answers[rows.test]
    answers = [answer_by_label(owner.at(rows.train), known, asked) for owner in owners]
    return _scored(table, part, ".label", table.asked(owners), answers, counts)


def _within_scores(table: _Table, part: Part, codes: Array) -> dict[str, Score]:
    """Read amounts client by client, where codes of different clients mean different things."""
    rows, client = table.members, table.latents["client"]
    scores: dict[str, Score] = {}
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
            name = f"probe.{asking.name}_from_{part}.within"
            direction = table.direction(asking.name, part)
            mean, spread = float(np.mean(found)), float(np.std(found))
            scores[name] = Score(mean, spread, direction, len(found), "R²")
    return scores


def _scored(
    table: _Table,
    part: Part,
    suffix: str,
    asked: Sequence[Question],
    answers: Sequence[Array],
    counts: NDArray[np.float64],
) -> dict[str, Score]:
    scores: dict[str, Score] = {}
    for truth, given in zip(asked, answers, strict=True):
        direction = "reference" if suffix in _REFERENCES else table.direction(truth.name, part)
        score = score_answers(truth, given, direction, counts)
        if score is not None:
            scores[f"probe.{truth.name}_from_{part}{suffix}"] = score
    return scores


def _newcomer_scores(
    table: _Table, part: Part, codes: Array, known: Sequence[Question], probe: Probe
) -> dict[str, Score]:
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
    return _scored(table, part, ".newcomers", asked, answers, counts)


def _posterior_samples(table: _Table, part: Part) -> Array | None:
    """Draw one code from every sample's posterior; ``None`` where the codes read have none."""
    std = table.latents.get(f"{part}_std")
    if std is None or f"common_{part}" in table.latents:
        return None
    rng = stream(table.seed, "separation", "samples", part)
    return np.asarray(table.parts[part] + std * rng.standard_normal(std.shape))


def _factor_scores(
    table: _Table, scores: Mapping[str, Score], answers: Mapping[Part, Mapping[str, Array]]
) -> dict[str, Score]:
    """Score single dimensions of all codes, and the parts as wholes, against the factors."""
    rows, factors = table.members, table.factors()
    if not factors:
        return {}
    known = [asking.at(rows.train) for asking in factors]
    asked = table.asked(factors)
    codes = np.concatenate(list(table.parts.values()), axis=1)
    seed = derive(table.seed, "separation", "factors")
    dimensions = measure_dimensions(codes[rows.train], known, codes[rows.test], asked, seed)
    found = {f"dims.{name}": value for name, value in dimensions.scores().items()}
    if len(table.parts) == len(PARTS):
        names = [asking.name for asking in factors]
        parts = measure_parts(
            [[scores[f"probe.{name}_from_{part}"] for name in names] for part in PARTS],
            [scores[f"probe.{name}_from_shared.chance"].value for name in names],
            [[answers[part][name] for name in names] for part in PARTS],
            asked,
        )
        wholes = part_scores(parts, [table.owners[name] for name in names])
        found |= {f"parts.{name}": value for name, value in wholes.items()}
    return {
        name: Score(value, 0.0, "higher", len(rows.test), "index") for name, value in found.items()
    }


def _dependence_scores(table: _Table) -> dict[str, Score]:
    """Score how much one part tells about the other; beside it the same for shuffled samples."""
    if len(table.parts) < len(PARTS):
        return {}
    rows = table.members.test
    shared, local = table.parts["shared"][rows], table.parts["local"][rows]
    rng = stream(table.seed, "separation", "dependence")
    shuffled = local[rng.permutation(len(rows))]
    values: dict[str, tuple[float, Direction | Literal["reference"], Unit]] = {
        "hsic": (hsic(shared, local, rng), "lower", "index"),
        "hsic.control": (hsic(shared, shuffled, rng), "reference", "index"),
        "total_correlation": (total_correlation(shared, local), "lower", "nats"),
        "total_correlation.control": (total_correlation(shared, shuffled), "reference", "nats"),
    }
    return {
        f"parts.{name}": Score(value, 0.0, direction, len(rows), unit)
        for name, (value, direction, unit) in values.items()
    }


def _group_scores(table: _Table) -> dict[str, Score]:
    """Compare clients' mean codes with the true groups."""
    latents = table.latents
    members = latents["kind"] == "member"
    compared = {
        "": table.parts.get("local"),
        ".shared": table.parts.get("shared"),
        ".untrained": latents.get("untrained_local"),
        ".fedavg": latents.get("fedavg"),
    }
    scores: dict[str, Score] = {}
    for suffix, codes in compared.items():
        if codes is None or not _is_code(codes[members]):
            continue
        means, group = _client_table(codes, latents, members)
        direction: Direction | Literal["reference"] = "reference" if suffix else "higher"
        for name, value in group_scores(means, group, table.seed).items():
            scores[f"groups.{name}{suffix}"] = Score(value, 0.0, direction, len(group), "index")
    local = table.parts.get("local")
    if local is not None and not members.all():
        right = newcomers_beside_own_group(
            *_client_table(local, latents, members), *_client_table(local, latents, ~members)
        )
        if len(right):
            share, spread = float(right.mean()), float(right.std())
            scores["groups.newcomers"] = Score(share, spread, "higher", len(right), "share")
    return scores


def _client_table(
    codes: Array, latents: Mapping[str, Array], rows: Array
) -> tuple[NDArray[np.float64], Array]:
    """Return the mean code and the group of each client among some rows."""
    client = latents["client"][rows]
    means = client_means(codes[rows], client)
    _, first = np.unique(client, return_index=True)
    return means, latents["group"][rows][first]
