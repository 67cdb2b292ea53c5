"""What probes say, in words.

Something is called read only if a probe beats its bar, so that one run in twenty at most in which
nothing can be read says otherwise (:mod:`duotone.measures.controls`). Two readings differ here only
if their 95 % intervals do not overlap. A score without an interval counts as a point.
"""

from __future__ import annotations

from typing import Literal

from duotone.federation.method import Part
from duotone.measures.codes import comparable, is_alive
from duotone.measures.measure import Record
from duotone.measures.panels import Sentence, Tile
from duotone.measures.score import Key, Score, Scores

MOST_NAMED = 4
FEW_SAMPLES = 200
MEASURES = {"share": "accuracy", "R²": "R²", "cosine": "cosine"}
"""What a reading is measured by, for each unit."""
_CLIENT = Key("probe", "client", part="shared")


def leak_words(scores: Scores, key: Key) -> str:
    """Say what a probe's score means beside its references."""
    if not reads_something(scores, key):
        return "no more than guessing gives, as far as these probes can tell"
    best, untrained = _better_probe(scores, key), scores.get(key.beside("untrained"))
    from_label = scores.get(key.beside("label"))
    if from_label is not None and not best.is_above(from_label):
        return "more than guessing gives, but no more than the label of a sample alone tells"
    if untrained is None:
        return "more than guessing gives"
    if best.is_above(untrained):
        return "more than guessing gives, and more than an untrained network: training added to it"
    if untrained.is_above(best):
        return "more than guessing gives, but less than an untrained network: training hid some"
    return (
        "more than guessing gives, but no more than an untrained network shows: it comes with the "
        "data, and training did not take it out"
    )


def _better_probe(scores: Scores, key: Key) -> Score:
    """Return the probe that reads more: what a linear one misses is there all the same."""
    known = [scores[k] for k in (key, key.beside("linear")) if k in scores]
    return max(known, key=lambda score: score.value)


def reads_something(scores: Scores, key: Key) -> bool:
    """Say whether one of the probes reads more than guessing and dealt-out answers give."""
    probes = {key: "", key.beside("linear"): "linear."}
    return any(_beats(scores, own, base) for own, base in probes.items() if own in scores)


def _beats(scores: Scores, own: Key, base: str) -> bool:
    reading, chance = scores[own], scores.get(own.beside("chance"))
    bar, control = (scores.get(own.beside(f"{base}{word}")) for word in ("bar", "control"))
    if bar is None:  # a run of an earlier version, whose control was a single deal
        return all(reading.is_above(other) for other in (chance, control) if other is not None)
    return reading.value > max(bar.value, bar.value if chance is None else chance.value)


def shared_sentence(record: Record) -> Sentence:
    """Say what the shared part holds."""
    parameters = int(record.facts["parts"]["shared"]["parameters"])
    if record.latents is not None and comparable(record.latents, "shared").shape[1] == 0:
        if parameters == 0:
            return _about("shared", "Nothing is shared: what a client computes is its own")
        return _about(
            "shared",
            f"{parameters:,} parameters are shared, but each client computes its code with a model "
            "that is partly or wholly its own: no code means the same to all clients",
        )
    if _CLIENT not in record.scores:
        return _about(
            "shared",
            "How much the shared code gives away about the client was not measured in this run",
        )
    said = _reading(record.scores, _CLIENT)
    return _about("shared", f"From the shared code {said}: {leak_words(record.scores, _CLIENT)}")


def _reading(scores: Scores, key: Key) -> str:
    """Return what both probes read, and everything they must be judged by."""
    score, linear, drawn = (
        scores.get(k) for k in (key, key.beside("linear"), key.beside("samples"))
    )
    assert score is not None
    also = f", a linear one with {_share(linear)}" if linear else ""
    also += f", from codes as they are drawn with {_share(drawn)}" if drawn else ""
    beside = [
        f"{words} {_share(found)}"
        for variant, words in (
            ("chance", "chance"),
            ("label", "the label alone"),
            ("control", "answers dealt at random"),
            ("control95", "95 % of these below"),
            ("untrained", "an untrained network"),
        )
        if (found := scores.get(key.beside(variant))) is not None
    ]
    judged = f" ({', '.join(beside)})" if beside else ""
    ends = ""
    if score.low is not None and score.high is not None:
        ends = f" [{100 * score.low:.1f}, {100 * score.high:.1f}]"
    return f"an MLP probe names the client with {_share(score)}{ends}{also}{judged}"


def local_sentence(record: Record) -> Sentence:
    """Say what the local part holds."""
    parameters = int(record.facts["parts"]["local"]["parameters"])
    kept = (
        f"{parameters:,} parameters stay with each client"
        if parameters
        else "no parameter stays with a client either"
    )
    if record.latents is not None:
        code = comparable(record.latents, "local")
        if code.shape[1] == 0:
            return _about("local", f"This run has no local code; {kept}")
        if not is_alive(code):
            return _about(
                "local",
                "The local code is dead: it is the same for every sample, so whatever a swap of it "
                "shows, it shows nothing",
            )
    scores = record.scores
    asked = [
        key
        for key in record.of("probe")
        if key.part == "local" and not key.variant and key.role == "member"
    ]
    if not asked:
        return _about("local", "What the local code carries was not measured in this run")
    read = [key for key in asked if reads_something(scores, key)]
    if not read:
        return _about(
            "local",
            "From the local code no probe reads more than guessing gives, neither client, group "
            "nor label: it looks dead",
        )
    named = [_read_words(scores, key) for key in read[:MOST_NAMED]]
    if len(read) > MOST_NAMED:
        named.append(f"and {len(read) - MOST_NAMED} more")
    silent = [key.question for key in asked if key not in read and not _is_of_clients(scores, key)]
    rest = f"; nothing was found about {' or '.join(silent)}" if silent else ""
    named_only = [key.question for key in asked if key not in read and _is_of_clients(scores, key)]
    if named_only:
        rest += f"; {' and '.join(named_only)} only as far as any grouping of these clients"
    return _about("local", f"From the local code an MLP probe reads {', '.join(named)}{rest}")


def _is_of_clients(scores: Scores, key: Key) -> bool:
    """Say whether a code tells any other grouping of its clients, too."""
    control, chance = (scores.get(key.beside(word)) for word in ("control", "chance"))
    if control is None or chance is None:
        return False
    return control.value > (chance.value if chance.high is None else chance.high)


def _read_words(scores: Scores, key: Key) -> str:
    score = scores[key]
    if score.unit != "share":
        return f"{key.question} with {MEASURES.get(score.unit, 'a score of')} {score.value:.2f}"
    known = [
        f"{words} {_share(scores[key.beside(variant)])}"
        for variant, words in (("chance", "chance"), ("untrained", "untrained network"))
        if key.beside(variant) in scores
    ]
    beside = f" ({', '.join(known)})" if known else ""
    return f"{key.question} with {_share(score)}{beside}"


def _share(score: Score) -> str:
    return f"{100 * score.value:.1f} %"


def _about(part: Literal["shared", "local"], text: str) -> Sentence:
    return Sentence(f"{part.capitalize()} part", f"{text}.", part)


def caveats(scores: Scores) -> list[str]:
    """Return what keeps the probes from saying more."""
    score, linear = scores.get(_CLIENT), scores.get(_CLIENT.beside("linear"))
    if score is None:
        return []
    found = []
    if score.n < FEW_SAMPLES:
        found.append(f"the probes were scored on {score.n} samples only")
    if linear is not None and score.is_above(linear):
        found.append("a linear probe alone would have missed part of what the MLP reads")
    return [*found, "a probe shows what is there to be read, never that nothing is left"]


def tiles(scores: Scores) -> list[Tile]:
    """Return the numbers a reader wants first."""
    found = []
    asked: list[tuple[str, Part]] = [("client", "shared"), ("client", "local"), ("group", "local")]
    for question, part in asked:
        key = Key("probe", question, part=part)
        if key in scores:
            chance = scores.get(key.beside("chance"))
            note = f"chance {_share(chance)}" if chance else "MLP probe"
            found.append(
                Tile(f"{question} read from the {part} part", _share(scores[key]), note, part)
            )
    return found
