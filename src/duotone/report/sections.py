"""The sections of a report on one run."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

from duotone.data.dataset import Array
from duotone.federation.election import Election
from duotone.measures.inks import titled
from duotone.partition.lines import Example
from duotone.report import figures, tables
from duotone.report.concepts import concept_section
from duotone.report.holdings import partition_figure
from duotone.report.maps import comparable, is_alive
from duotone.report.page import Block, Grid, Note, Page, Panel, Picture, Section, Tile, View
from duotone.report.pictures import png_uri
from duotone.report.record import repeat_section, traffic_section
from duotone.report.representations import map_section, picture_section, separation_section
from duotone.report.subject import Subject
from duotone.report.tables import count_text
from duotone.report.verdict import Evidence, value_text, verdict, worst_client
from duotone.runs.result_tables import PlainTable
from duotone.words import RULES


def run_page(subject: Subject, folder: Path) -> Page:
    """Return the report on one run.

    Args:
        subject: What is known about it.
        folder: Its folder, for the pictures in it.
    """
    evidence = evidence_of(subject)
    facts = subject.facts
    counts = (
        f"{count_text(facts['members'], 'member')}, {count_text(facts['newcomers'], 'newcomer')}"
    )
    style = "" if subject.config.style == "none" else f" with style {subject.config.style}"
    sections = (
        setup_section(subject),
        learning_section(subject),
        client_section(subject),
        newcomer_section(subject),
        concept_section(subject, folder),
        separation_section(subject),
        map_section(subject),
        picture_section(folder),
        traffic_section(subject),
        repeat_section(subject),
    )
    return Page(
        title=f"{subject.method} on {_data_name(subject.config.data)}{style}",
        subtitle=f"{counts} · {subject.config.partition['scheme']} partition · "
        f"{count_text(subject.summary['rounds'], 'round')} · seed {subject.config.seed} · "
        f"{str(facts['created'])[:10]}",
        verdict=verdict(evidence),
        sections=[section for section in sections if section is not None],
        tiles=tiles(evidence),
    )


def _data_name(data: str) -> str:
    return data.removeprefix("object:") if "/" not in data else Path(data).stem


def evidence_of(subject: Subject) -> Evidence:
    """Return what the verdict on a run rests on."""
    curves = tables.learning_curves(subject.metrics, subject.metric)
    latents = subject.latents
    widths = None
    is_dead = False
    if latents is not None:
        codes = {part: comparable(latents, part) for part in ("shared", "local")}
        widths = {part: code.shape[1] for part, code in codes.items()}
        is_dead = widths["local"] > 0 and not is_alive(codes["local"])
    return Evidence(
        scores=subject.summary["scores"],
        metric=subject.metric,
        rule=str(subject.summary["newcomer_rule"]),
        last=tables.last_values(subject.metrics, subject.metric, subject.summary["rounds"]),
        curve=curves.filter(pl.col("kind") == "member"),
        widths=widths,
        is_dead=is_dead,
        shared_parameters=int(subject.facts["parts"]["shared"]["parameters"]),
        local_parameters=int(subject.facts["parts"]["local"]["parameters"]),
    )


def tiles(found: Evidence) -> list[Tile]:
    """Return the numbers a reader wants first."""
    result: list[Tile] = []
    for role in ("member", "newcomer"):
        score = found.scores.get(f"{role}.{found.metric}")
        if score is not None:
            worst = worst_client(found.last, role, found.metric)
            note = f"worst: client {worst[0]}, {value_text(worst[2], found.metric)}"
            value = value_text(score["value"], found.metric)
            result.append(Tile(f"{role}s, {found.metric}", value, note))
    for question, part in (("client", "shared"), ("client", "local"), ("group", "local")):
        name = f"probe.{question}_from_{part}"
        score, chance = found.scores.get(name), found.scores.get(f"{name}.chance")
        if score is not None and len(result) < 4:
            note = f"chance {value_text(chance['value'], 'accuracy')}" if chance else "MLP probe"
            value = value_text(score["value"], "accuracy")
            result.append(Tile(f"{question} read from the {part} part", value, note, part))
    return result


def setup_section(subject: Subject) -> Section:
    """Return who holds what, and what is trained."""
    parts = subject.facts["parts"]
    config = subject.config
    rows = [
        ("data", f"{config.data}, style {config.style}"),
        ("partition", ", ".join(f"{k} = {v}" for k, v in config.partition.items())),
        ("model", str(config.model)),
        ("method", ", ".join(f"{k} = {v}" for k, v in config.method.items())),
        ("each round", f"{config.sampled} of {subject.facts['members']} members train"),
        ("newcomers give", RULES[subject.summary["newcomer_rule"]]),
        *(
            [("adjusted to inputs", Election.from_json(subject.summary["election"]).said)]
            if "election" in subject.summary
            else []
        ),
        *(
            (
                f"{part} part",
                f"{parts[part]['parameters']:,} parameters and {parts[part]['buffers']:,} buffer "
                f"values ({tables.size_text(parts[part]['bytes'])})",
            )
            for part in ("shared", "local")
        ),
    ]
    blocks: list[Block] = [Note(line) for line in subject.summary.get("warnings", [])]
    blocks += [Grid("setup", PlainTable("What was run", ("setting", "value"), tuple(rows)))]
    holdings = subject.holdings
    if holdings.lines:
        data = pl.DataFrame(
            [
                {
                    "client": line.name,
                    "group": line.group,
                    "kind": line.role,
                    "samples": float(np.median(line.sizes)),
                    **{f"{holdings.heading} {i}": share for i, share in enumerate(line.shares)},
                }
                for line in holdings.lines
            ]
        )
        view = View((), partition_figure(holdings.lines, holdings.heading))
        blocks.append(
            Panel(
                "partition",
                "Who holds what",
                (view,),
                "Rows with different dark cells: those clients see different labels. Lines part "
                "groups; newcomers, at the bottom, take no part in training. " + holdings.note,
                "Shades are shares of one client's samples; a pale row may still be a large "
                "client. How samples look is not in this picture.",
                data,
                min_width=560,
            )
        )
    else:
        blocks.append(Note(holdings.note))
    if holdings.examples:
        blocks.append(_examples(holdings.examples))
    return Section("set-up", "Set-up", "What was trained, on whose samples.", blocks)


def _examples(examples: Sequence[Example]) -> Picture:
    return Picture(
        "What samples look like",
        tuple((example.name, png_uri(_png(example.images))) for example in examples),
        "What sets clients apart beyond their labels.",
        "Eight samples do not show a distribution. They are real samples of these clients: pass "
        "the page on only to those who may see them.",
    )


def _png(image: Array) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image.astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def learning_section(subject: Subject) -> Section:
    """Return the curves of members, newcomers and groups."""
    metric = subject.metric
    curves = tables.learning_curves(subject.metrics, metric)
    panels = [
        Panel(
            "learning",
            f"{titled(metric)} by round",
            (View((), figures.learning_figure(curves, metric)),),
            "Whether the curves have levelled off, and how far newcomers stay behind members. "
            "The shade is one standard deviation over clients.",
            "A mean hides who loses; the shade is spread between clients, not the uncertainty of "
            f"the mean. Only evaluated rounds are drawn ({curves['round'].n_unique()} of "
            f"{subject.summary['rounds']}), each on test samples: choosing a round by this curve "
            "would be choosing on test data.",
            curves,
        )
    ]
    groups = tables.learning_curves(subject.metrics, metric, ("kind", "group"))
    if groups["group"].n_unique() > 1:
        shown = len(figures.hardest_groups(groups, metric))
        cut = f" The {shown} groups that ended worst are drawn." if shown == 16 else ""
        panels.append(
            Panel(
                "groups",
                f"{titled(metric)} by round, group by group",
                (View((), figures.group_figure(groups, metric)),),
                "Groups that learn late, or fall while the mean rises." + cut,
                "A group may be a single client, and then has no shade. Groups differ in their "
                "labels, so equal heights are not equally hard to reach.",
                groups,
                min_width=680,
            )
        )
    losses = tables.learning_curves(subject.metrics, "train_loss")
    intro = "How the clients' scores on their own test samples changed over the rounds."
    if not losses.is_empty():
        first, last = losses["mean"][0], losses["mean"][-1]
        intro += f" The mean training loss went from {first:.3g} to {last:.3g}."
    return Section("learning", "Learning", intro, panels)


def client_section(subject: Subject) -> Section:
    """Return every client's score, the worst named."""
    metric = subject.metric
    values = tables.last_values(subject.metrics, metric, subject.summary["rounds"])
    if subject.holdings.tested:
        tested = [subject.holdings.tested[client] for client in values["client"]]
        values = values.with_columns(pl.Series("test_samples", tested))
    cut = ""
    if values.height > figures.MOST_BARS:
        cut = f" Of {values.height} clients the {figures.MOST_BARS} worst are drawn."
    panel = Panel(
        "clients",
        f"{titled(metric)} of every client at the last round",
        (View((), figures.client_figure(values, metric)),),
        "The lower end, and whether newcomers gather there. Vertical lines are the means." + cut,
        "A client with few test samples is high or low by luck; the pointer shows how many it has. "
        "Clients with one or two labels have an easier task.",
        values,
    )
    return Section("clients", "Clients", "A mean never shows who is left behind.", [panel])


def newcomer_section(subject: Subject) -> Section | None:
    """Return how newcomers fare by what they give; ``None`` without newcomers."""
    points = tables.newcomer_points(subject.metrics, subject.metric)
    if points.is_empty():
        return None
    panel = Panel(
        "newcomer-curve",
        f"Newcomers' {subject.metric} by what they give",
        (View((), figures.newcomer_figure(points, subject.metric)),),
        "How many labelled samples it takes to reach the members. “all” is every training sample, "
        "“unlabelled” the same without labels.",
        "A method that learns nothing from newcomers' samples is drawn flat: it is as good with "
        f"them as without. Bars are the standard deviation over "
        f"{count_text(int(points['clients'].max()), 'newcomer')}.",  # type: ignore[arg-type]
        points,
    )
    intro = (
        "Newcomers join when training is over. In all other numbers of this page they give "
        f"{RULES[subject.summary['newcomer_rule']]}."
    )
    return Section("newcomers", "Newcomers", intro, [panel])
