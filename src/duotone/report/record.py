"""The record of a run: what travelled, and how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from duotone.config import write_toml
from duotone.report import figures, tables
from duotone.report.page import Block, Code, Grid, Note, Panel, Section, View
from duotone.report.subject import Subject
from duotone.report.tables import count_text
from duotone.runs.result_tables import PlainTable


def traffic_section(subject: Subject) -> Section:
    """Return what travelled, and what left each client."""
    table, ledger = tables.traffic(subject.metrics), tables.ledger(subject.metrics)
    shared, local = (subject.facts["parts"][part] for part in ("shared", "local"))
    stays = f"{local['parameters']:,} local parameters" if local["parameters"] else "no parameter"
    intro = (
        f"The shared part is {shared['parameters']:,} parameters and {shared['buffers']:,} buffer "
        f"values, {tables.size_text(shared['bytes'])}; besides its samples, a client keeps {stays} "
        "to itself."
    )
    sent, received = (float(table[name].sum()) for name in ("bytes_up", "bytes_down"))
    if sent + received == 0:
        note = Note("Nothing travelled: this method trains every client alone.")
        return Section("communication", "Communication", intro, [note])
    extra = max(ledger["bytes_up"] / ledger["rounds"]) - shared["bytes"]
    if extra > 0.5:
        intro += f" An upload carries {tables.size_text(extra)} more than that."
    rows = tuple(
        (
            client,
            str(rounds),
            *(tables.size_text(total) for total in totals),
        )
        for client, rounds, *totals in ledger.iter_rows()
    )
    blocks: list[Block] = [
        Panel(
            "traffic",
            "What travelled in each round",
            (View((), figures.traffic_figure(table)),),
            f"The total: {tables.size_text(sent)} up and "
            f"{tables.size_text(received)} down in "
            f"{count_text(table.height, 'round')}.",
            "These are the tensors themselves, uncompressed and without protocol or encryption. "
            "That local parameters never leave says nothing about what shared ones reveal.",
            table,
        ),
        Grid(
            "ledger",
            PlainTable(
                "Ledger: what left each client",
                ("client", ">rounds", ">sent", ">received"),
                rows,
                "Updates of the shared part, and what the method's statistics add; samples and "
                "local parameters never leave.",
            ),
            is_folded=len(rows) > 12,
        ),
    ]
    return Section("communication", "Communication", intro, blocks)


def repeat_section(subject: Subject) -> Section:
    """Return everything needed to repeat the run."""
    facts = subject.facts
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    rows = [
        ("seed", str(subject.config.seed)),
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
    given = [name for name in ("data", "model") if _is_object(getattr(subject.config, name))]
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
        Code("config.toml", write_toml(subject.config.model_dump()), is_folded=True),
    ]
    intro = (
        "The same seed, data and versions give the same numbers bit for bit on the same machine; "
        "another processor may differ by rounding."
    )
    return Section("repeat", "Repeat it", intro, blocks)


def _is_object(name: str | None) -> bool:
    return str(name).startswith("object:")


def command_text(command: Sequence[str]) -> str:
    """Return a command as it can be typed; empty for a run that was started from Python."""
    return shlex.join(command)
