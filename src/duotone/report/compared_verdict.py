"""Several runs in a few plain sentences; nothing is called better inside its noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duotone.report.verdict import Sentence, value_text
from duotone.runs.pooled import Entry
from duotone.runs.result_tables import number_text
from duotone.words import RULES


def compared_verdict(
    entries: Sequence[Entry], results: Mapping[str, Any], difference: str
) -> list[Sentence]:
    """Return the verdict on several entries, in a few sentences.

    Args:
        entries: Runs by entry.
        results: Their comparison.
        difference: In what data or partition differ; empty if they are the same.
    """
    metric = str(results["headline"])
    sentences: list[Sentence] = []
    for role in ("member", "newcomer"):
        found = [c for c in results["comparisons"] if c["score"].startswith(f"{role}.")]
        if found:
            sentences.append(Sentence(f"{role.capitalize()}s", _comparisons_text(found, metric)))
        else:
            text = _score_text(results, f"{role}.{metric}", metric)
            if text:
                sentences.append(Sentence(f"{role.capitalize()}s", text))
    text = _score_text(results, "probe.client_from_shared", "accuracy")
    if text:
        words = f"The client is read from the shared code (MLP probe, lower is better): {text}"
        sentences.append(Sentence("Shared part", words, "shared"))
    return [*sentences, Sentence("Caveats", _caveats(entries, difference))]


def _score_text(results: Mapping[str, Any], name: str, metric: str) -> str:
    parts = [
        f"{entry['name']} {value_text(entry['scores'][name]['mean'], metric)}"
        for entry in results["entries"]
        if name in entry["scores"]
    ]
    return f"{', '.join(parts)}." if parts else ""


def _comparisons_text(comparisons: Sequence[Mapping[str, Any]], metric: str) -> str:
    """Return a sentence for each of a few comparisons; of many, who is better, worse or neither."""
    if len(comparisons) <= 3:
        return " ".join(_comparison_text(found, metric) for found in comparisons)
    clauses = []
    for verdict in ("better", "worse", "no difference shown", "one seed"):
        names = [
            f"{found['entry']} ({_gap(found, metric)})"
            for found in comparisons
            if found["verdict"] == verdict
        ]
        words = "one seed, so nothing is called better" if verdict == "one seed" else verdict
        clauses += [f"{words}: {', '.join(names)}"] if names else []
    return f"Against {comparisons[0]['reference']}, {'; '.join(clauses)}."


def _gap(found: Mapping[str, Any], metric: str) -> str:
    unit = " points" if metric == "accuracy" else f" {metric}"
    return number_text(found["difference"]["mean"], metric, sign="+") + unit


def _comparison_text(found: Mapping[str, Any], metric: str) -> str:
    difference = found["difference"]
    gap = _gap(found, metric)
    name, reference = found["entry"], found["reference"]
    if difference["low"] is None:
        return f"{name} − {reference}: {gap}, on one seed, so nothing is called better."
    ends = " to ".join(number_text(difference[end], metric) for end in ("low", "high"))
    span = f"{gap}, 95 % interval {ends}, p = {found['corrected_p']:.2g}"
    if found["verdict"] in ("better", "worse"):
        return f"{name} is {found['verdict']} than {reference} ({span})."
    return f"Between {name} and {reference} no difference is shown ({span})."


def _caveats(entries: Sequence[Entry], difference: str) -> str:
    found = []
    if difference:
        found.append(
            f"these runs differ in more than their method ({difference}), so nothing here ranks "
            "them"
        )
    seeds = sorted({len(entry.runs) for entry in entries})
    if seeds[0] == 1:
        found.append("some entries have a single seed, whose luck is part of every number")
    elif seeds[0] < 5:
        found.append(f"{seeds[0]} seeds give wide intervals, and small differences stay unseen")
    rules = {str(entry.runs[0].summary["newcomer_rule"]) for entry in entries}
    if len(rules) > 1:
        given = " or ".join(sorted(RULES[rule] for rule in rules))
        found.append(f"newcomers do not give the same everywhere ({given})")
    found.append("clients of one seed share a training run and are not independent")
    text = "; ".join(found)
    return f"{text[:1].upper()}{text[1:]}."
