"""What can be read from each part? Leakage probes, and what they must be judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from duotone.measures.measure import Entry, Findings, Measure, Record, Scene
from duotone.measures.panels import (
    NOTHING,
    Block,
    Grid,
    Note,
    Panel,
    PlainTable,
    Section,
    Sentence,
    View,
)
from duotone.measures.probe_figures import probe_figure, probes_of_entries_figure
from duotone.measures.probe_words import (
    MEASURES,
    caveats,
    local_sentence,
    shared_sentence,
    tiles,
)
from duotone.measures.readings import readings
from duotone.measures.score import Scores

_WORDS = {
    "mlp": "MLP",
    "linear": "linear",
    "samples": "samples",
    "newcomers": "newcomers",
    "chance": "chance",
    "label": "label alone",
    "control": "dealt",
    "control95": "dealt, 95 %",
    "bar": "bar",
    "untrained": "untrained",
}
_ORDER = {"client": 0, "group": 1, "label": 2}
_SCHEMA = {
    "question": pl.String,
    "part": pl.String,
    "probe": pl.String,
    "measure": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "n": pl.Int64,
}


class Probes(Measure):
    """Small networks that try to read something from a code."""

    name = "probes"
    ahead = (readings,)

    def applies(self, scene: Scene) -> bool:
        """Say whether codes are kept."""
        return bool(scene.config.latents and scene.clients)

    def measure(self, scene: Scene) -> Findings:
        """Train the probes on some samples of the members and score them on others."""
        scores = scene.once(readings).scores
        return Findings(scores, scene.rows(scores))

    def section(self, record: Record) -> Section:
        """Return what probes read, beside chance, controls and an untrained network."""
        probes = probe_table(record.scores)
        blocks: list[Block] = [Note("No probe was trained on this run's codes.")]
        if not probes.is_empty():
            blocks = [
                Panel(
                    "probes",
                    "What can be read from each part",
                    (View((), probe_figure(probes)),),
                    "Filled marks right of the bar: that part gives the answer away. A good "
                    "split has client and group far right for local and at chance for shared, and "
                    "the label the other way round.",
                    "A probe at chance shows that this probe failed, not that nothing is there; a "
                    "mark right of chance but left of the untrained network was in the data from "
                    "the start. Bars are 95 % intervals over samples, not over seeds. Naming one "
                    "of a few newcomers is easier than naming a member.",
                    probes,
                    min_width=560,
                ),
                Grid("probe-numbers", probe_numbers(probes), is_folded=True),
            ]
        return Section(
            "separation",
            "Separation",
            "Probes are small classifiers that try to read something from a code. They are trained "
            f"on some samples of the members and scored on others. {_learnt_on(record.scores)}",
            blocks,
            [shared_sentence(record), local_sentence(record)],
            caveats(record.scores),
            tiles(record.scores),
        )

    def compared(self, entries: Sequence[Entry]) -> Section | None:
        """Return every probe with all entries side by side."""
        found = [
            probe_table(record.scores).with_columns(pl.lit(entry.name).alias("entry"))
            for entry in entries
            for record in entry.records
        ]
        every = pl.concat(found)
        if every.is_empty():
            return None
        pooled = every.group_by("entry", "question", "part", "probe", maintain_order=True).agg(
            pl.col("value").mean(), *_ends(), pl.len().cast(pl.Int64).alias("seeds")
        )
        asked = pooled.select("question", "part").unique(maintain_order=True).rows()
        views = []
        for question, part in asked:
            own = pooled.filter((pl.col("question") == question) & (pl.col("part") == part))
            view = View((f"{question} from {part}",), probes_of_entries_figure(own, question, part))
            views.append(view)
        panel = Panel(
            "probes",
            "What can be read from each part",
            tuple(views),
            "Client and group should be at chance for the shared part and high for the local one.",
            "Bars are the range over seeds, or of a single seed the 95 % interval over samples. "
            "Probes of different methods read codes of different widths.",
            pooled,
            ("question",),
        )
        read = pooled.filter(
            (pl.col("question") == "client")
            & (pl.col("part") == "shared")
            & (pl.col("probe") == "mlp")
        )
        named = ", ".join(f"{e} {v:.1%}" for e, v in read.select("entry", "value").iter_rows())
        words = f"The client is read from the shared code (MLP probe, lower is better): {named}."
        sentences = [Sentence("Shared part", words.replace("%", " %"), "shared")] if named else []
        intro = "The same probes on every entry's codes."
        return Section("separation", "Separation", intro, [panel], sentences)


def _learnt_on(scores: Scores) -> str:
    """Say whether the encoder knew the samples that probes learnt from."""
    found = {score.learnt_on for key, score in scores.items() if key.measure == "probe"}
    if "training samples" in found:
        return (
            "The encoder was trained on those that probes learnt from, because clients have too "
            "few others: its codes may say more about them than about new ones."
        )
    return "The encoder was trained on none of them." if "held-out samples" in found else ""


def _ends() -> list[pl.Expr]:
    """Return the ends of a bar: the range over several seeds, or a single one's own interval."""
    several = pl.len() > 1
    value = pl.col("value")
    return [
        pl.when(several).then(value.min()).otherwise(pl.col("low").first()).alias("low"),
        pl.when(several).then(value.max()).otherwise(pl.col("high").first()).alias("high"),
    ]


# -- tables


def probe_table(scores: Scores) -> pl.DataFrame:
    """Return ``question, part, probe, measure, value, low, high, n`` of all probes of a run.

    Questions come in the order client, group, label, other factors. The measure is the accuracy, or
    R² for what is continuous.
    """
    rows: list[dict[str, Any]] = []
    for key, score in scores.items():
        probe = "newcomers" if key.role == "newcomer" else key.variant or "mlp"
        if key.measure != "probe" or probe not in _WORDS:
            continue
        rows.append(
            {
                "question": key.question,
                "part": key.part,
                "probe": probe,
                "measure": MEASURES.get(score.unit, "score"),
                "value": score.value,
                "low": score.low,
                "high": score.high,
                "n": score.n,
            }
        )
    rows.sort(
        key=lambda row: (
            _ORDER.get(row["question"], len(_ORDER)),
            row["question"],
            row["part"] == "local",
            list(_WORDS).index(row["probe"]),
        )
    )
    return pl.DataFrame(rows, schema=_SCHEMA)


def probe_numbers(probes: pl.DataFrame) -> PlainTable:
    """Return all probes as a table, one row per question and part."""
    shown = [name for name in _WORDS if name in probes["probe"].unique()]
    rows = []
    for (question, part), own in probes.group_by("question", "part", maintain_order=True):
        values = {row["probe"]: row for row in own.to_dicts()}
        measure = own["measure"][0]
        cells = [_value(values.get(name), measure) for name in shown]
        rows.append((f"{question} from {part}", measure, *cells))
    return PlainTable(
        "All probes in numbers",
        ("question", "measure", *(f">{_WORDS[name]}" for name in shown)),
        tuple(rows),
        "In brackets the 95 % bootstrap interval. Dealt: mean and 95 % point of what a probe "
        "scores when answers are dealt out at random, those of whole clients among clients. Bar: "
        "what must be exceeded to count as read, so that one run in twenty in which nothing can "
        "be read has a question above it. Untrained: on the codes of a network that was never "
        "trained. Newcomers: the "
        "members' probe, asked about newcomers; who they are is asked among themselves, which is "
        "easier the fewer they are.",
    )


def _value(row: Mapping[str, Any] | None, measure: str) -> str:
    if row is None:
        return NOTHING
    scale, digits = (100, 1) if measure == "accuracy" else (1, 2)
    unit = " %" if measure == "accuracy" else ""
    text = f"{row['value'] * scale:.{digits}f}{unit}"
    if row["low"] is None or row["high"] is None:
        return text
    return f"{text} [{row['low'] * scale:.{digits}f}, {row['high'] * scale:.{digits}f}]"
