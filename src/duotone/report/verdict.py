"""A run in a few plain sentences: numbers first, and what they do not allow to say.

Nothing is called more or less than something else inside its noise: two scores differ here only if
their 95 % intervals do not overlap. A score without an interval counts as a point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import polars as pl

from duotone.measures.inks import natural
from duotone.measures.metrics import DIRECTIONS, is_share
from duotone.measures.summary import unit_of
from duotone.runs.result_tables import number_text
from duotone.words import RULES

Score: TypeAlias = Mapping[str, Any]
FEW_CLIENTS = 5
MOST_NAMED = 4
FEW_SAMPLES = 200


@dataclass(frozen=True, slots=True)
class Sentence:
    """One thing the verdict says.

    Attributes:
        topic: What it is about, in a word or two.
        text: The sentence.
        part: Whose ink marks it, if it is about one part.
    """

    topic: str
    text: str
    part: Literal["shared", "local", ""] = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict rests on.

    Attributes:
        scores: The ``scores`` of the summary.
        metric: The metric the run is judged by.
        rule: What newcomers start from.
        last: ``client, group, role, value`` at the last round.
        curve: ``round, mean, std, clients`` of the members.
        widths: How many numbers each part of the code has; ``None`` if no codes were kept.
        is_dead: Whether the local code is the same for all samples.
        shared_parameters: Parameters that clients and server exchange.
        local_parameters: Parameters that never leave a client.
    """

    scores: Mapping[str, Score]
    metric: str
    rule: str
    last: pl.DataFrame
    curve: pl.DataFrame
    widths: Mapping[str, int] | None
    is_dead: bool
    shared_parameters: int
    local_parameters: int


def verdict(found: Evidence) -> list[Sentence]:
    """Return the verdict on one run, three to five sentences."""
    sentences = [_quality(found, "member")]
    if (found.last["kind"] == "newcomer").any():
        sentences.append(_quality(found, "newcomer"))
    sentences += [_shared(found), _local(found)]
    return [*sentences, Sentence("Caveats", _joined(caveats(found)))]


def value_text(value: float, metric: str) -> str:
    """Return a metric's value with its unit."""
    return number_text(value, metric) + (" %" if is_share(metric) else "")


def worst_client(last: pl.DataFrame, role: str, metric: str) -> tuple[str, str, float]:
    """Return name, group and value of the worst client of a role; the first of equals by name."""
    sign = 1 if DIRECTIONS[metric] == "higher" else -1
    rows = last.filter(pl.col("kind") == role).select("client", "group", "value").rows()
    client, group, value = min(rows, key=lambda row: (sign * row[2], natural(row[0])))
    return str(client), str(group), float(value)


def _quality(found: Evidence, role: str) -> Sentence:
    metric, score = found.metric, found.scores[f"{role}.{found.metric}"]
    name, group, worst = worst_client(found.last, role, metric)
    whose = f" of group {group}" if group not in ("", name) else ""
    count = score["n"]
    given = ""
    if role == "newcomer":
        given = f", giving {RULES[found.rule]},"
    if count == 1:
        text = (
            f"The only {role}, {name}{whose}{given} reaches {value_text(worst, metric)} {metric} "
            "on its own test samples."
        )
    else:
        unit = " points" if metric == "accuracy" else ""
        text = (
            f"The {count} {role}s{given} reach {value_text(score['value'], metric)} {metric} on "
            f"their own test samples (mean over clients, standard deviation "
            f"{number_text(score['std'], metric)}{unit}); the worst is client {name}{whose} with "
            f"{value_text(worst, metric)}."
        )
    return Sentence(f"{role.capitalize()}s", text)


def _shared(found: Evidence) -> Sentence:
    if found.widths is not None and found.widths["shared"] == 0:
        if found.shared_parameters == 0:
            return _about("shared", "Nothing is shared: what a client computes is its own")
        return _about(
            "shared",
            f"{found.shared_parameters:,} parameters are shared, but each client computes its code "
            "with a model that is partly or wholly its own: no code means the same to all clients",
        )
    name = "probe.client_from_shared"
    if name not in found.scores:
        return _about(
            "shared",
            "How much the shared code gives away about the client was not measured in this run",
        )
    return _about(
        "shared",
        f"From the shared code {_reading(found, name)}: {leak_words(found.scores, name)}",
    )


def _reading(found: Evidence, name: str) -> str:
    """Return what both probes read, and everything they must be judged by."""
    scores, score = found.scores, found.scores[name]
    linear = scores.get(f"{name}.linear")
    also = f", a linear one with {_share(linear)}" if linear else ""
    if f"{name}.samples" in scores:
        also += f", from codes as they are drawn with {_share(scores[f'{name}.samples'])}"
    beside = [
        f"{words} {_share(scores[f'{name}.{suffix}'])}"
        for suffix, words in (
            ("chance", "chance"),
            ("label", "the label alone"),
            ("control", "permuted labels"),
            ("untrained", "an untrained network"),
        )
        if f"{name}.{suffix}" in scores
    ]
    judged = f" ({', '.join(beside)})" if beside else ""
    return f"an MLP probe names the client with {_share(score)}{_interval(score)}{also}{judged}"


def _share(score: Score) -> str:
    return f"{100 * score['value']:.1f} %"


def _interval(score: Score) -> str:
    if score.get("low") is None:
        return ""
    return f" [{100 * score['low']:.1f}, {100 * score['high']:.1f}]"


def leak_words(scores: Mapping[str, Score], name: str) -> str:
    """Say what a probe's score means beside its references.

    Args:
        scores: All scores.
        name: The probe's.
    """
    if not reads_something(scores, name):
        return "no more than guessing gives, as far as these probes can tell"
    best, untrained = _better_probe(scores, name), scores.get(f"{name}.untrained")
    from_label = scores.get(f"{name}.label")
    if from_label is not None and not is_above(best, from_label):
        return "more than guessing gives, but no more than the label of a sample alone tells"
    if untrained is None:
        return "more than guessing gives"
    if is_above(best, untrained):
        return "more than guessing gives, and more than an untrained network: training added to it"
    if is_above(untrained, best):
        return "more than guessing gives, but less than an untrained network: training hid some"
    return (
        "more than guessing gives, but no more than an untrained network shows: it comes with the "
        "data, and training did not take it out"
    )


def _better_probe(scores: Mapping[str, Score], name: str) -> Score:
    """Return the probe that reads more: what a linear one misses is there all the same."""
    return max((scores[n] for n in (name, f"{name}.linear") if n in scores), key=_value)


def _value(score: Score) -> float:
    return float(score["value"])


def is_above(first: Score, second: Score) -> bool:
    """Say whether a score lies above another, beyond both their intervals."""
    low = first["value"] if first.get("low") is None else first["low"]
    high = second["value"] if second.get("high") is None else second["high"]
    return bool(low > high)


def reads_something(scores: Mapping[str, Score], name: str) -> bool:
    """Say whether a probe reads more than chance and permuted labels give."""
    references = [scores[f"{name}.{r}"] for r in ("chance", "control") if f"{name}.{r}" in scores]
    return all(is_above(_better_probe(scores, name), reference) for reference in references)


def _local(found: Evidence) -> Sentence:
    kept = (
        f"{found.local_parameters:,} parameters stay with each client"
        if found.local_parameters
        else "no parameter stays with a client either"
    )
    if found.widths is not None and found.widths["local"] == 0:
        return _about("local", f"This run has no local code; {kept}")
    if found.is_dead:
        return _about(
            "local",
            "The local code is dead: it is the same for every sample, so "
            "whatever a swap of it shows, it shows nothing",
        )
    asked = [n for n in found.scores if n.startswith("probe.") and n.endswith("_from_local")]
    if not asked:
        return _about("local", "What the local code carries was not measured in this run")
    read = [name for name in asked if reads_something(found.scores, name)]
    if not read:
        return _about(
            "local",
            "From the local code no probe reads more than guessing gives, "
            "neither client, group nor label: it looks dead",
        )
    named = [_read_words(found.scores, name) for name in read[:MOST_NAMED]]
    if len(read) > MOST_NAMED:
        named.append(f"and {len(read) - MOST_NAMED} more")
    names = ", ".join(named)
    silent = [_question(name) for name in asked if name not in read]
    rest = f"; nothing was found about {' or '.join(silent)}" if silent else ""
    return _about("local", f"From the local code an MLP probe reads {names}{rest}")


def _question(name: str) -> str:
    return name.removeprefix("probe.").rpartition("_from_")[0]


def _read_words(scores: Mapping[str, Score], name: str) -> str:
    unit = unit_of(name, scores)
    if unit != "share":
        score = "R²" if unit == "R²" else "a score of"
        return f"{_question(name)} with {score} {scores[name]['value']:.2f}"
    chance = scores.get(f"{name}.chance")
    untrained = scores.get(f"{name}.untrained")
    known = [
        f"{words} {_share(score)}"
        for words, score in (("chance", chance), ("untrained network", untrained))
        if score
    ]
    beside = f" ({', '.join(known)})" if known else ""
    return f"{_question(name)} with {_share(scores[name])}{beside}"


def _about(part: Literal["shared", "local"], text: str) -> Sentence:
    return Sentence(f"{part.capitalize()} part", f"{text}.", part)


def caveats(found: Evidence) -> list[str]:
    """Return what keeps the numbers from saying more."""
    result = ["one seed, so how much another would differ is unknown"]
    counts = {k: int((found.last["kind"] == k).sum()) for k in ("member", "newcomer")}
    few = [f"{n} {k}{'s'[: n != 1]}" for k, n in counts.items() if 0 < n < FEW_CLIENTS]
    if few:
        result.append(f"only {' and '.join(few)}, so a mean over clients says little")
    if _still_improving(found):
        result.append("members were still improving at the last round")
    name = "probe.client_from_shared"
    score, linear = found.scores.get(name), found.scores.get(f"{name}.linear")
    if score is not None:
        if score["n"] < FEW_SAMPLES:
            result.append(f"the probes were scored on {score['n']} samples only")
        if linear is not None and is_above(score, linear):
            result.append("a linear probe alone would have missed part of what the MLP reads")
        result.append("a probe shows what is there to be read, never that nothing is left")
    return result


def _still_improving(found: Evidence) -> bool:
    if found.curve.height < 2:
        return False
    before, last = found.curve["mean"].to_list()[-2:]
    gain = last - before if DIRECTIONS[found.metric] == "higher" else before - last
    return bool(gain > 0.01 * abs(last))


def _joined(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."
