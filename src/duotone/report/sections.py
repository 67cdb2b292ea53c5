"""The report on one run: what was run, what each measure shows, how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from polars.exceptions import PolarsError

from duotone.config import write_toml
from duotone.errors import RunError
from duotone.federation.election import Election
from duotone.measures import all_measures
from duotone.measures.measure import Measure, Record
from duotone.measures.metrics import value_text
from duotone.measures.panels import (
    Block,
    Code,
    Grid,
    Note,
    Picture,
    PlainTable,
    Section,
    Sentence,
    count_text,
    size_text,
)
from duotone.measures.score import Key
from duotone.report.page import Page
from duotone.runs.published import rounds_text
from duotone.types import ROLES
from duotone.words import RULES

MOST_TILES = 3
MOST_LEADS = 2


def run_page(record: Record) -> Page:
    """Return the report on one run."""
    found = [section_of(measure, record) for measure in all_measures()]
    sections = [section for section in found if section is not None]
    facts, config = record.facts, record.config
    counts = (
        f"{count_text(facts['members'], 'member')}, {count_text(facts['newcomers'], 'newcomer')}"
    )
    style = "" if config.style == "none" else f" with style {config.style}"
    return Page(
        title=f"{config.method['name']} on {_data_name(config.data)}{style}",
        subtitle=f"{counts} · {config.partition['scheme']} partition · "
        f"{rounds_text(config)} · seed {config.seed} · {str(facts['created'])[:10]}",
        verdict=verdict(sections),
        sections=[setup_section(record), *sections, repeat_section(record)],
        tiles=[tile for section in sections for tile in section.tiles][:MOST_TILES],
        headline=headline(record),
        leads=leads(record)[:MOST_LEADS],
        inks=inks(record),
    )


def leads(record: Record) -> list[Picture]:
    """Return the pictures that measures would open a report with."""
    found = [measure.lead(record) for measure in all_measures()]
    return [picture for picture in found if picture is not None]


def inks(record: Record) -> tuple[int, int]:
    """Return how many parameters are shared and local."""
    parts = record.facts["parts"]
    return int(parts["shared"]["parameters"]), int(parts["local"]["parameters"])


def headline(record: Record) -> str:
    """Say in two sentences what the reader got."""
    shared, local = inks(record)
    if not shared:
        parts = "they share nothing, so each has a model of its own"
    elif not local:
        parts = "in training they share one network"
    else:
        parts = "they share a part of one network, and each keeps the rest"
    members = count_text(record.facts["members"], "client")
    trained = f"{members} trained {record.config.method['name']} for "
    trained += f"{count_text(record.rounds, 'round')}; {parts}."
    reached = [
        f"{who} reach {value_text(record.scores[key].value, record.metric)} {record.metric}"
        for role, who in zip(ROLES, ("Members", "newcomers"), strict=True)
        if (key := Key("accuracy", record.metric, role=role)) in record.scores
    ]
    return f"{trained} {' and '.join(reached)} on their own test samples." if reached else trained


def section_of(measure: Measure, record: Record) -> Section | None:
    """Return what a measure shows of a run.

    Raises:
        RunError: The details that the measure left in the run folder are damaged.
    """
    try:
        return measure.section(record)
    except (LookupError, TypeError, ValueError, AttributeError, PolarsError) as error:
        if measure.file not in record.tables:
            raise
        raise RunError(f"{measure.file}.json is damaged: {error!r}.") from error


def verdict(sections: Sequence[Section], caveats: Sequence[str] = ()) -> list[Sentence]:
    """Return what all sections say in short, and last what they do not allow to say.

    Args:
        sections: The sections.
        caveats: More caveats, which come first.
    """
    said = [sentence for section in sections for sentence in section.sentences]
    doubts = [*caveats, *(doubt for section in sections for doubt in section.caveats)]
    text = "; ".join(doubts)
    return [*said, Sentence("Caveats", f"{text[:1].upper()}{text[1:]}.")] if doubts else said


def _data_name(data: str) -> str:
    return data.removeprefix("object:") if "/" not in data else Path(data).stem


def setup_section(record: Record) -> Section:
    """Return what was run."""
    parts, config, summary = record.facts["parts"], record.config, record.summary
    rows = [
        ("data", f"{config.data}, style {config.style}"),
        ("partition", ", ".join(f"{k} = {v}" for k, v in config.partition.items())),
        ("model", str(config.model)),
        ("method", ", ".join(f"{k} = {v}" for k, v in config.method.items())),
        ("each round", f"{config.sampled} of {record.facts['members']} members train"),
        ("newcomers give", RULES[summary["newcomer_rule"]]),
    ]
    if "election" in summary:
        rows.append(("adjusted to inputs", Election.from_json(summary["election"]).said))
    rows += [
        (
            f"{part} part",
            f"{parts[part]['parameters']:,} parameters and {parts[part]['buffers']:,} buffer "
            f"values ({size_text(parts[part]['bytes'])})",
        )
        for part in ("shared", "local")
    ]
    blocks: list[Block] = [Note(line) for line in summary.get("warnings", [])]
    blocks.append(Grid("setup", PlainTable("What was run", ("setting", "value"), tuple(rows))))
    return Section("set-up", "Set-up", "What was trained.", blocks)


def repeat_section(record: Record) -> Section:
    """Return everything needed to repeat the run."""
    facts, config = record.facts, record.config
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    rows = [
        ("seed", str(config.seed)),
        ("duotone", str(facts["duotone"])),
        ("python", f"{facts['python']} on {facts['platform']}, device {facts['device']}"),
        ("libraries", versions),
        ("data fingerprint", str(facts["data_fingerprint"])),
        ("partition fingerprint", str(facts["partition_fingerprint"])),
        ("started", str(facts["created"])),
        ("time", f"{facts['seconds']:.0f} s"),
    ]
    blocks: list[Block] = [
        Grid("facts", PlainTable("What it depends on", ("fact", "value"), tuple(rows)))
    ]
    given = [name for name in ("data", "model") if str(getattr(config, name)).startswith("object:")]
    if given:
        blocks.append(
            Note(
                f"The {' and '.join(given)} of this run was given in Python and must be given "
                "again to repeat it."
            )
        )
    command = command_text(facts["command"])
    if command:
        blocks.append(Code("The command it was made with", command))
    blocks += [
        Code("Repeat it from its configuration", "duotone run --config config.toml"),
        Code("config.toml", write_toml(config.model_dump()), is_folded=True),
    ]
    intro = (
        "The same seed, data and versions give the same numbers bit for bit on the same machine; "
        "another processor may differ by rounding."
    )
    return Section("repeat", "Repeat it", intro, blocks)


def command_text(command: Sequence[str]) -> str:
    """Return a command as it can be typed; empty for a run that was started from Python."""
    return shlex.join(command)
