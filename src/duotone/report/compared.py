"""The report on several runs: entries beside each other, seeds pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from duotone.measures import all_measures
from duotone.measures.measure import Entry as ShownEntry
from duotone.measures.metrics import number_text, value_text
from duotone.measures.panels import (
    NOTHING,
    Block,
    Grid,
    Note,
    Picture,
    PlainTable,
    Section,
    Sentence,
    Tile,
    count_text,
)
from duotone.report.leading import headline, leads_of
from duotone.report.page import Page
from duotone.report.record import read_record
from duotone.report.sections import MOST_LEADS, command_text, leads, verdict
from duotone.runs.pooled import Entry, differing, identity, inequality
from duotone.runs.result_tables import result_tables
from duotone.types import ROLES
from duotone.words import RULES


def compared_page(entries: Sequence[Entry], results: Mapping[str, Any]) -> Page:
    """Return the report on several entries.

    Args:
        entries: Runs by entry.
        results: What :func:`duotone.runs.compare.compare_entries` says about them.
    """
    found = inequality([run for entry in entries for run in entry.runs])
    difference = "" if found is None else found.difference
    shown = [ShownEntry(entry.name, [read_record(run) for run in entry.runs]) for entry in entries]
    measured = [measure.compared(shown) for measure in all_measures()]
    sections = [
        score_section(results, difference),
        *(section for section in measured if section is not None),
        settings_section(entries),
        origin_section(entries),
    ]
    pictures = pictures_of(shown)
    if len(pictures) > MOST_LEADS:
        intro = "What the first run of each entry shows at the top of its own report."
        sections.insert(1, Section("pictures", "Pictures", intro, pictures))
    runs = sum(len(entry.runs) for entry in entries)
    first = entries[0].runs[0].config
    return Page(
        title=" · ".join(entry.name for entry in entries[:4]) + (" …" if len(entries) > 4 else ""),
        subtitle=f"{len(entries)} entries, {runs} runs"
        + ("" if difference else f" · {first.data} · {first.partition['scheme']} partition"),
        verdict=verdict(sections, caveats(entries, difference)),
        sections=sections,
        tiles=[] if difference else [*(lead.tile for lead in leads_of(results)), _count(results)],
        headline=headline(results, difference),
        leads=pictures[-MOST_LEADS:],
    )


def pictures_of(entries: Sequence[ShownEntry]) -> list[Picture]:
    """Return what each entry's own report would open with, by its first run."""
    return [
        replace(picture, title=f"{entry.name} · {picture.title}")
        for entry in entries
        for picture in leads(entry.records[0])
    ]


def _count(results: Mapping[str, Any]) -> Tile:
    seeds = sorted({len(entry["seeds"]) for entry in results["entries"]})
    several = f"{seeds[0]} to {seeds[-1]} seeds"
    each = several if len(seeds) > 1 else count_text(seeds[0], "seed")
    return Tile("entries", str(len(results["entries"])), f"{each} each")


def score_section(results: Mapping[str, Any], difference: str) -> Section:
    """Return the tables of scores and tests."""
    blocks: list[Block] = [
        Grid(f"table-{i}", table) for i, table in enumerate(result_tables(results))
    ]
    if difference:
        blocks.insert(
            0, Note(f"Shown beside each other, not ranked: {difference}. Nothing is tested.")
        )
    intro = "Means over seeds of means over clients, and each entry against the reference."
    return Section("scores", "Scores", intro, blocks, _sentences(results))


_OUTCOMES = {
    "better": "better",
    "worse": "worse",
    "not shown": "no difference shown",
    "exploratory": "not declared before the runs, so nothing is called better",
    "one seed": "one seed, so nothing is called better",
}


def _sentences(results: Mapping[str, Any]) -> list[Sentence]:
    """Return the comparison in a sentence for members and one for newcomers."""
    metric = str(results["headline"])
    found: list[Sentence] = []
    for role in ROLES:
        compared = [c for c in results["comparisons"] if c["role"] == role]
        text = _comparisons_text(compared, metric) if compared else ""
        text = text or _score_text(results, f"{role}.{metric}", metric)
        if text:
            found.append(Sentence(f"{role.capitalize()}s", text))
    return found


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
    for outcome in _OUTCOMES:
        names = [
            f"{found['entry']} ({_gap(found, metric)})"
            for found in comparisons
            if found["verdict"] == outcome
        ]
        clauses += [f"{_OUTCOMES[outcome]}: {', '.join(names)}"] if names else []
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
    span = f"{gap}, 95 % interval {ends}"
    if found["corrected_p"] is None:
        return f"{name} − {reference}: {span}; not declared before the runs, so no verdict."
    span += f", p = {found['corrected_p']:.2g}"
    if found["verdict"] in ("better", "worse"):
        return f"{name} is {found['verdict']} than {reference} ({span})."
    return f"Between {name} and {reference} no difference is shown ({span})."


def caveats(entries: Sequence[Entry], difference: str) -> list[str]:
    """Return what keeps a comparison from saying more."""
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
    return found


def settings_section(entries: Sequence[Entry]) -> Section:
    """Return the settings in which entries differ."""
    identities = [identity(entry.runs[0].config) for entry in entries]
    rows = tuple(
        (name, *(str(own.get(name, NOTHING)) for own in identities))
        for name in differing(identities)
    )
    blocks: list[Block] = []
    if rows:
        columns = ("setting", *(entry.name for entry in entries))
        blocks.append(Grid("settings", PlainTable("Settings that differ", columns, rows)))
    else:
        blocks.append(Note("The runs differ in their seed only."))
    return Section("settings", "Settings", "What was not the same.", blocks)


def origin_section(entries: Sequence[Entry]) -> Section:
    """Return where each run comes from."""
    rows = []
    for entry in entries:
        for run in entry.runs:
            facts = run.folder.facts()
            rows.append(
                (
                    entry.name,
                    str(run.config.seed),
                    str(facts["duotone"]),
                    str(facts["data_fingerprint"]),
                    str(facts["partition_fingerprint"]),
                    command_text(facts["command"]) or NOTHING,
                )
            )
    columns = ("entry", ">seed", "duotone", "data", "partition", "command")
    note = "Data and partition by their fingerprints. Each run folder has a config.toml: "
    note += "duotone run --config config.toml repeats it."
    table = PlainTable("Runs", columns, tuple(rows), note)
    return Section("repeat", "Repeat it", "Where the numbers come from.", [Grid("runs", table)])
