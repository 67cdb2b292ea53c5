"""The sections about the codes of one run: separation, maps, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl

from duotone.report.maps import MOST_POINTS, code_maps, comparable, is_alive
from duotone.report.page import Block, Grid, Note, Panel, Picture, Section, View
from duotone.report.pictures import (
    StoredPicture,
    generated_clients,
    restyle_pairs,
    stored_pictures,
    swap_table,
)
from duotone.report.separation import map_figure, probe_figure, swap_figure
from duotone.report.subject import Subject
from duotone.report.tables import PROBES, measure_of, probe_table
from duotone.runs.result_tables import NOTHING, PlainTable

_DISENTANGLEMENT = {
    "mig": "MIG",
    "sap": "SAP",
    "modularity": "modularity",
    "disentanglement": "disentanglement (DCI)",
    "completeness": "completeness (DCI)",
    "informativeness": "informativeness (DCI)",
}
_GROUPS = {"nmi": "NMI", "ari": "ARI", "silhouette": "silhouette"}
_SWAP_WORDS = {
    "": "swapped",
    ".unswapped": "reconstructed",
    ".judge": "real samples",
    ".without_local": "without local part",
    ".newcomers": "swapped with newcomers",
}
_GROUP_WORDS = {
    "": "local code",
    ".shared": "shared code",
    ".untrained": "untrained network",
    ".fedavg": "plain FedAvg",
}
_PROBE_WORDS = {
    "mlp": "MLP",
    "linear": "linear",
    "samples": "samples",
    "newcomers": "newcomers",
    "chance": "chance",
    "label": "label alone",
    "control": "permuted",
    "untrained": "untrained",
}
_GENERATED = {
    "fd": "Fréchet distance",
    "own_style": "own style",
    "labels": "effective labels",
    "same_content": "same label, new style",
    "same_style": "same label, new content",
    "across_clients": "same label at two clients",
    "seen_label": "label asked for, seen",
    "unseen_label": "label asked for, unseen",
    "unseen_style": "own style, unseen label",
}
_RESTYLED = {
    "label_kept": "label kept",
    "target_style": "style of the target",
    "attacker": "source named, by an attacker who knows real samples",
    "attacker_informed": "source named, by one who knows re-styled samples",
}
_PICTURES = {
    "samples": "Samples",
    "restyled": "Re-styled",
    "swaps": "Swaps",
    "manifolds": "Manifolds",
    "traversals": "Traversals",
}


def separation_section(subject: Subject) -> Section:
    """Return what probes, disentanglement and group scores say about the parts."""
    scores: Mapping[str, Mapping[str, Any]] = subject.summary["scores"]
    probes = probe_table(scores)
    blocks: list[Block] = []
    if probes.is_empty():
        blocks.append(Note("No probe was trained on this run's codes, so nothing is said here."))
    else:
        blocks += [
            Panel(
                "probes",
                "What can be read from each part",
                (View((), probe_figure(probes)),),
                "Filled marks right of the grey ones: that part gives the answer away. A good "
                "split has client and group far right for local and at chance for shared, and the "
                "label the other way round.",
                "A probe at chance shows that this probe failed, not that nothing is there; a mark "
                "right of chance but left of the untrained network was in the data from the start. "
                "Bars are 95 % intervals over samples, not over seeds. Naming one of a few "
                "newcomers is easier than naming a member.",
                probes,
                min_width=560,
            ),
            Grid("probe-numbers", probe_numbers(probes), is_folded=True),
        ]
    found = [
        disentanglement_table(scores),
        group_table(scores),
        swaps_table(scores),
        generation_table(scores),
        restyle_table(scores),
    ]
    blocks += [Grid(f"scores-{i}", item) for i, item in enumerate(found) if item is not None]
    return Section(
        "separation",
        "Separation",
        "Probes are small classifiers that try to read something from a code. They are trained on "
        "some samples of the members and scored on others.",
        blocks,
    )


def probe_numbers(probes: pl.DataFrame) -> PlainTable:
    """Return all probes as a table, one row per question and part."""
    shown = [name for name in PROBES if name in probes["probe"].unique()]
    rows = []
    for (question, part), own in probes.group_by("question", "part", maintain_order=True):
        values = {row["probe"]: row for row in own.to_dicts()}
        measure = own["measure"][0]
        cells = [_value(values.get(name), measure) for name in shown]
        rows.append((f"{question} from {part}", measure, *cells))
    return PlainTable(
        "All probes in numbers",
        ("question", "measure", *(f">{_PROBE_WORDS[name]}" for name in shown)),
        tuple(rows),
        "In brackets the 95 % bootstrap interval. Permuted: the same probe trained on shuffled "
        "answers. Untrained: on the codes of a network that was never trained. Newcomers: the "
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


def disentanglement_table(scores: Mapping[str, Mapping[str, Any]]) -> PlainTable | None:
    """Return disentanglement over parts and over dimensions; ``None`` if there is none."""
    over = {
        prefix: words
        for prefix, words in (("parts", "parts"), ("dims", "dimensions"))
        if any(f"{prefix}.{name}" in scores for name in _DISENTANGLEMENT)
    }
    if not over:
        return None
    rows = tuple(
        (words, *(_plain(scores.get(f"{prefix}.{name}")) for prefix in over))
        for name, words in _DISENTANGLEMENT.items()
        if any(f"{prefix}.{name}" in scores for prefix in over)
    )
    dependence = [
        f"{words} {_plain(scores[name])}"
        for name, words in (
            ("parts.hsic", "HSIC"),
            ("parts.total_correlation", "total correlation"),
        )
        if name in scores
    ]
    note = "From 0 to 1, higher is better, against all known factors: the two parts taken as two "
    note += "dimensions, and every dimension for itself."
    if dependence:
        note += f" Dependence between the parts (0: none): {', '.join(dependence)}."
    return PlainTable("Disentanglement", ("score", *(f">{w}" for w in over.values())), rows, note)


def group_table(scores: Mapping[str, Mapping[str, Any]]) -> PlainTable | None:
    """Return how clients' mean codes gather by group; ``None`` if that was not measured."""
    variants = {
        suffix: words
        for suffix, words in _GROUP_WORDS.items()
        if any(f"groups.{name}{suffix}" in scores for name in _GROUPS)
    }
    if not variants:
        return None
    rows = tuple(
        (words, *(_plain(scores.get(f"groups.{name}{suffix}")) for suffix in variants))
        for name, words in _GROUPS.items()
    )
    note = "Clients' mean codes against their true groups; 1 is a perfect match. A high score says "
    note += "something only where plain FedAvg and an untrained network score lower."
    newcomers = scores.get("groups.newcomers")
    if newcomers is not None:
        note += f" {100 * newcomers['value']:.0f} % of the newcomers lie nearest to a member of "
        note += "their own group."
    return PlainTable("Groups", ("score", *(f">{w}" for w in variants.values())), rows, note)


def swaps_table(scores: Mapping[str, Mapping[str, Any]]) -> PlainTable | None:
    """Return what judges read from swapped codes; ``None`` if nothing was swapped."""
    questions = dict.fromkeys(
        name.split(".")[1]
        for name in scores
        if name.startswith("swap.") and name != "swap.local_effect"
    )
    if not questions:
        return None
    asked = sorted(questions, key=lambda name: (name not in ("label", "style"), name))
    rows = tuple(
        (
            name,
            measure_of(next(key for key in scores if key.split(".")[:2] == ["swap", name]), scores),
            *(_plain(scores.get(f"swap.{name}{suffix}")) for suffix in _SWAP_WORDS),
        )
        for name in asked
    )
    note = "The shared part of one sample with the local part of another, decoded and read by "
    note += "judges that were trained on real samples: accuracy, the mean cosine of angles, or R². "
    note += "A style that is as high without the local part comes from the decoder, not the code."
    effect = scores.get("swap.local_effect")
    if effect is not None:
        note += f" Inside a client the local code makes {100 * effect['value']:.0f} % of what "
        note += "varies in decoded samples; 0 would be a dead code."
    heads = ("read", "measure", *(f">{w}" for w in _SWAP_WORDS.values()))
    return PlainTable("Swaps", heads, rows, note)


def generation_table(scores: Mapping[str, Mapping[str, Any]]) -> PlainTable | None:
    """Return what judges read from generated samples; ``None`` if none were generated."""
    rows = _judged(scores, "generate", _GENERATED)
    if not rows:
        return None
    note = "Samples that members' models generate, read by judges that were trained on real "
    note += "samples. Chance is what samples would get that ignore the question. The Fréchet "
    note += "distance is in the features of these judges: not comparable between data sets."
    heads = ("read", ">generated", ">real samples", ">chance", ">by newcomers")
    return PlainTable("Generated samples", heads, rows, note)


def restyle_table(scores: Mapping[str, Mapping[str, Any]]) -> PlainTable | None:
    """Return what judges and attackers read from re-styled samples; ``None`` if there are none."""
    rows = _judged(scores, "restyle", _RESTYLED)
    if not rows:
        return None
    note = "Members' test samples drawn as other members would have them. An attacker says whose a "
    note += "sample is; chance is what labels alone tell. Samples that fool the first attacker and "
    note += "not the second look like another client's and are not anonymous."
    if "restyle.label_kept" not in scores:
        note += " Label and style are those of the swaps."
    heads = ("read", ">re-styled", ">originals", ">chance", ">with newcomers")
    return PlainTable("Re-styled samples", heads, rows, note)


def restyled_pairs(folder: Path) -> PlainTable | None:
    """Return the same for every pair of clients; ``None`` if nothing was re-styled."""
    pairs = restyle_pairs(folder)
    note = "Where all are of one style, the style of the target says nothing."
    names = [f"{row['source']} as {row['target']}" for row in pairs]
    return _listed("Re-styled samples, pair by pair", names, pairs, _RESTYLED, note)


def generation_clients(folder: Path) -> PlainTable | None:
    """Return the same for every single client; ``None`` if nothing was generated."""
    clients = generated_clients(folder)
    words = {"fd": "Fréchet distance", "floor": "of real samples", **_GENERATED}
    note = "Distances of different clients cannot be compared, each only with that of real samples."
    names = [f"{row['kind']} {row['client']} ({row['style']})" for row in clients]
    return _listed("Generated samples, client by client", names, clients, words, note)


def _judged(
    scores: Mapping[str, Mapping[str, Any]], prefix: str, words: Mapping[str, str]
) -> tuple[tuple[str, ...], ...]:
    """Return a row for each score that is there, with what stands beside it."""
    return tuple(
        (
            words[name],
            *(
                _plain(scores.get(f"{prefix}.{name}{end}"))
                for end in ("", ".floor" if name == "fd" else ".judge", ".chance", ".newcomers")
            ),
        )
        for name in words
        if f"{prefix}.{name}" in scores
    )


def _listed(
    title: str,
    names: Sequence[str],
    found: Sequence[Mapping[str, Any]],
    words: Mapping[str, str],
    note: str,
) -> PlainTable | None:
    """Return a table with a row for each finding; ``None`` if there is nothing to show."""
    shown = [name for name in words if any(name in row for row in found)]
    if not shown:
        return None
    rows = tuple(
        (name, *(NOTHING if row.get(key) is None else f"{row[key]:.2f}" for key in shown))
        for name, row in zip(names, found, strict=True)
    )
    return PlainTable(title, ("client", *(f">{words[key]}" for key in shown)), rows, note)


def _plain(score: Mapping[str, Any] | None) -> str:
    if score is None:
        return NOTHING
    text = f"{score['value']:.2f}"
    if score.get("low") is None:
        return text
    return f"{text} [{score['low']:.2f}, {score['high']:.2f}]"


def map_section(subject: Subject) -> Section | None:
    """Return maps of both parts; ``None`` if no codes were kept."""
    latents = subject.latents
    if latents is None:
        return None
    colours = ["client", "label"]
    if len(set(latents["group"])) not in (1, len(set(latents["client"]))):
        colours.append("group")
    maps = code_maps(latents, subject.config.seed)
    blocks: list[Block] = []
    if maps:
        points = pl.concat([m.points.with_columns(pl.lit(m.name).alias("map")) for m in maps])
        count = maps[0].points.select("client", "index", "split").unique().height
        views = [View((m.name, c), map_figure(m.points, c, m.axes)) for m in maps for c in colours]
        blocks.append(
            Panel(
                "map",
                f"Each dot is a sample ({count} of them)",
                tuple(views),
                "Coloured by client, a shared part should look mixed and a local part sorted; "
                "coloured by label, the other way round. Open marks are newcomers.",
                "A flat map drops most of the code: what looks mixed may be cleanly apart in "
                "another direction, so trust the probes. In t-SNE (perplexity 30, started from "
                "PCA) distances, sizes and gaps mean nothing, and noise has clusters too.",
                points,
                ("projection", "coloured by"),
                min_width=620,
            )
        )
    for part in ("shared", "local"):
        code = comparable(latents, part)
        if code.shape[1] == 0:
            blocks.append(Note(f"This run has no {part} code, so there is no map of it."))
        elif not is_alive(code):
            blocks.append(Note(f"The {part} code is the same for every sample: it is dead."))
        elif f"common_{part}" in latents:
            blocks.append(
                Note(
                    f"Clients encode the {part} part with parameters of their own, so all samples "
                    "were passed through one member's encoder: codes of different encoders have no "
                    "common axes."
                )
            )
    intro = f"The codes of at most {MOST_POINTS:,} samples, evenly many of each client, laid flat."
    return Section("maps", "Maps", intro, blocks)


def _gathered(pictures: Sequence[StoredPicture], words: str) -> list[Block]:
    """Return pictures as blocks; those whose titles begin alike up to a colon stand together."""
    found: list[Block] = []
    for title, items in groupby(pictures, key=lambda item: item.title.partition(": ")[0]):
        several = list(items)
        first = several[0]
        images = tuple((item.title.partition(": ")[2], item.uri) for item in several)
        found.append(Picture(f"{words}: {title}", images, first.look, first.mislead))
    return found


def picture_section(folder: Path) -> Section:
    """Return the pictures a method left in its run folder, and the swap matrix."""
    pictures, left_out = stored_pictures(folder)
    blocks: list[Block] = []
    for name in _PICTURES:
        blocks += _gathered([item for item in pictures if item.section == name], _PICTURES[name])
    by_client = generation_clients(folder)
    if by_client is not None:
        blocks.append(Grid("generated", by_client))
    by_pair = restyled_pairs(folder)
    if by_pair is not None:
        blocks.append(Grid("restyled", by_pair, is_folded=True))
    pairs = swap_table(folder)
    if pairs is not None:
        views = tuple(View((s,), swap_figure(pairs, s)) for s in ("label", "style"))
        blocks.append(
            Panel(
                "swap-matrix",
                "Swaps for each pair of clients",
                views,
                "Rows or columns that stand out: content that survives no swap, or a local part "
                "that nobody can be given.",
                "A local part that does nothing passes for the label; compare the style, and the "
                "scores without the local part. Judges make mistakes of their own.",
                pairs,
                ("judged by",),
                min_width=480,
            )
        )
    if left_out:
        blocks.append(
            Note(f"Too large for this page, see the run's figures: {', '.join(left_out)}.")
        )
    if not blocks:
        blocks.append(
            Note(
                "Traversals, manifolds and swap sheets come with methods that have a decoder, and "
                "samples with those that draw them; this run has left none."
            )
        )
    return Section(
        "pictures", "Pictures", "What the parts do when samples are made from them.", blocks
    )
