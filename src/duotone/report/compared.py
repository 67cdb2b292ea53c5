"""The report on several runs: entries beside each other, seeds pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from duotone.errors import RunError
from duotone.measures.inks import titled
from duotone.report import figures, tables
from duotone.report.compared_verdict import compared_verdict
from duotone.report.page import Block, Grid, Note, Page, Panel, Section, View
from duotone.report.record import command_text
from duotone.report.separation import probes_of_entries_figure
from duotone.runs.pooled import Entry, differing, identity, refuse_unequal
from duotone.runs.result_tables import NOTHING, PlainTable, result_tables


def compared_page(entries: Sequence[Entry], results: Mapping[str, Any]) -> Page:
    """Return the report on several entries.

    Args:
        entries: Runs by entry.
        results: What :func:`duotone.runs.compare.compare_entries` says about them.
    """
    difference = why_unequal(entries)
    runs = sum(len(entry.runs) for entry in entries)
    first = entries[0].runs[0].config
    sections = (
        score_section(results, difference),
        curve_section(entries, results),
        probe_section(entries),
        cost_section(entries),
        settings_section(entries),
        origin_section(entries),
    )
    return Page(
        title=" · ".join(entry.name for entry in entries[:4]) + (" …" if len(entries) > 4 else ""),
        subtitle=f"{len(entries)} entries, {runs} runs"
        + ("" if difference else f" · {first.data} · {first.partition['scheme']} partition"),
        verdict=compared_verdict(entries, results, difference),
        sections=[section for section in sections if section is not None],
    )


def why_unequal(entries: Sequence[Entry]) -> str:
    """Return in what data or partition differ between runs; empty if they are the same."""
    try:
        refuse_unequal([run for entry in entries for run in entry.runs])
    except RunError as error:
        return str(error).partition("cannot be compared: ")[2].partition(". A difference")[0]
    return ""


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
    return Section("scores", "Scores", intro, blocks)


def curve_section(entries: Sequence[Entry], results: Mapping[str, Any]) -> Section:
    """Return the learning curves over each other."""
    metric = str(results["headline"])
    pooled = pl.concat([entry_curves(entry, metric) for entry in entries])
    views = [
        View((f"{role}s",), figures.overlaid_figure(own, metric))
        for role in ("member", "newcomer")
        if not (own := pooled.filter(pl.col("kind") == role)).is_empty()
    ]
    panel = Panel(
        "curves",
        f"{titled(metric)} by round",
        tuple(views),
        "Which entry learns fast, and which ends high: that need not be the same one.",
        "The shade is one standard deviation over seeds; a single seed has none, which is not "
        "certainty. Overlapping shades do not prove equality, nor separate ones a difference: see "
        "the tests.",
        pooled,
        ("clients",),
    )
    return Section("curves", "Curves", "Mean over clients, then over seeds.", [panel])


def entry_curves(entry: Entry, metric: str) -> pl.DataFrame:
    """Return ``entry, role, round, mean, std, seeds`` of the rounds that all seeds have."""
    seeds = pl.concat([tables.learning_curves(run.metrics, metric) for run in entry.runs])
    return (
        seeds.group_by("kind", "round")
        .agg(
            pl.col("mean").mean(),
            pl.col("mean").std(ddof=0).alias("std"),
            pl.len().cast(pl.Int64).alias("seeds"),
        )
        .filter(pl.col("seeds") == len(entry.runs))
        .select(pl.lit(entry.name).alias("entry"), "kind", "round", "mean", "std", "seeds")
        .sort("kind", "round")
    )


def probe_section(entries: Sequence[Entry]) -> Section | None:
    """Return every probe with all entries side by side; ``None`` if there are no probes."""
    found = [
        tables.probe_table(run.summary["scores"]).with_columns(
            pl.lit(entry.name).alias("entry"), pl.lit(run.config.seed).alias("seed")
        )
        for entry in entries
        for run in entry.runs
    ]
    every = pl.concat(found)
    if every.is_empty():
        return None
    pooled = every.group_by("entry", "question", "part", "probe", maintain_order=True).agg(
        pl.col("value").mean(),
        # Over several seeds their range is shown; of a single one its own interval over samples.
        pl.when(pl.len() > 1)
        .then(pl.col("value").min())
        .otherwise(pl.col("low").first())
        .alias("low"),
        pl.when(pl.len() > 1)
        .then(pl.col("value").max())
        .otherwise(pl.col("high").first())
        .alias("high"),
        pl.len().cast(pl.Int64).alias("seeds"),
    )
    asked = pooled.select("question", "part").unique(maintain_order=True).rows()
    views = [
        View(
            (f"{question} from {part}",),
            probes_of_entries_figure(
                pooled.filter((pl.col("question") == question) & (pl.col("part") == part)),
                question,
                part,
            ),
        )
        for question, part in asked
    ]
    panel = Panel(
        "probes",
        "What can be read from each part",
        tuple(views),
        "Client and group should be at chance for the shared part and high for the local one.",
        "Bars are the range over seeds, or of a single seed the 95 % interval over samples. Probes "
        "of different methods read codes of different widths.",
        pooled,
        ("question",),
    )
    return Section("separation", "Separation", "The same probes on every entry's codes.", [panel])


def cost_section(entries: Sequence[Entry]) -> Section:
    """Return what each entry cost."""
    rows = []
    for entry in entries:
        runs = entry.runs
        totals = [tables.traffic(run.metrics) for run in runs]
        facts = runs[0].folder.facts()
        rows.append(
            (
                entry.name,
                *(
                    tables.size_text(sum(float(t[name].sum()) for t in totals) / len(runs))
                    for name in ("bytes_up", "bytes_down")
                ),
                *(f"{facts['parts'][part]['parameters']:,}" for part in ("shared", "local")),
                f"{sum(run.folder.facts()['seconds'] for run in runs) / len(runs):.0f} s",
            )
        )
    table = PlainTable(
        "Cost of one run",
        ("entry", ">sent by clients", ">received", ">shared parameters", ">local", ">time"),
        tuple(rows),
        "Mean over seeds. Times are those of the machine that ran it, and of what else ran there.",
    )
    return Section("communication", "Communication", "What travelled.", [Grid("cost", table)])


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
