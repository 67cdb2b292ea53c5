"""Do the shared and the local code do what they are named for? One part is swapped."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
import polars as pl

from duotone.federation.backends.serial import one_thread
from duotone.federation.protocols import Decodes
from duotone.measures.decoding import holders
from duotone.measures.inks import PART, faded, figure, natural, short
from duotone.measures.judging import judges_of_made
from duotone.measures.measure import Findings, Measure, Record, Scene
from duotone.measures.panels import (
    Block,
    Grid,
    Panel,
    Picture,
    PlainTable,
    Section,
    View,
    gathered,
    score_text,
)
from duotone.measures.probe_words import MEASURES
from duotone.measures.score import Key, Score
from duotone.measures.sheets import draw_sheets
from duotone.measures.swapped import swap_scores

_PAIRS = {
    "content_client": pl.String,
    "style_client": pl.String,
    "label": pl.Float64,
    "style": pl.Float64,
}
_VARIANTS = {
    "": "swapped",
    "unswapped": "reconstructed",
    "judge": "real samples",
    "without_local": "without local part",
}


class Swaps(Measure):
    """Codes swapped between clients, decoded, and read by judges."""

    name = "swaps"
    file = "swap"
    ahead = (judges_of_made,)

    def applies(self, scene: Scene) -> bool:
        """Say whether the method decodes, and codes are kept."""
        return isinstance(scene.method, Decodes) and bool(scene.config.latents and scene.clients)

    def measure(self, scene: Scene) -> Findings:
        """Swap codes between some members and newcomers."""
        method, population = scene.method, scene.population
        assert isinstance(method, Decodes)
        chosen = scene.once(holders)
        readers = scene.once(judges_of_made)
        found = swap_scores(method, readers, chosen, population, scene.serving.info)
        table = {"matrix": found.matrix, "local_effect": found.local_effect}
        sheets = []
        if population.info.is_image:
            with one_thread():
                sheets = draw_sheets(method, chosen, population)
        return Findings(found.scores, scene.rows(found.scores), table, sheets=sheets)

    def section(self, record: Record) -> Section | None:
        """Return what judges read from swapped codes, and what they look like."""
        found = record.of("swap")
        table = record.tables.get("swap")
        if not found or table is None:
            return None
        pairs = pl.DataFrame(table["matrix"], schema=_PAIRS, strict=False)
        views = tuple(View((score,), swap_figure(pairs, score)) for score in ("label", "style"))
        matrix = Panel(
            "swap-matrix",
            "Swaps for each pair of clients",
            views,
            "Rows or columns that stand out: content that survives no swap, or a local part that "
            "nobody can be given.",
            "A local part that does nothing passes for the label; compare the style, and the "
            "scores without the local part. Judges make mistakes of their own.",
            pairs,
            ("judged by",),
            min_width=480,
        )
        pictures = gathered(record.pictures_of("swaps", "manifolds", "traversals"))
        intro = "The shared part of one sample with the local part of another, decoded."
        blocks: list[Block] = [*pictures, Grid("swaps", _table(found)), matrix]
        return Section("swaps", "Swaps", intro, blocks)

    def lead(self, record: Record) -> Picture | None:
        """Return everybody's content in everybody's style."""
        return next(iter(gathered(record.pictures_of("swaps"))), None)


def _table(found: Mapping[Key, Score]) -> PlainTable:
    effect = found.get(Key("swap", "local_effect"))
    questions = dict.fromkeys(key.question for key in found if key.question != "local_effect")
    asked = sorted(questions, key=lambda name: (name not in ("label", "style"), name))
    rows = []
    for name in asked:
        unit = next(score.unit for key, score in found.items() if key.question == name)
        cells = [score_text(found.get(Key("swap", name, variant=v))) for v in _VARIANTS]
        new = score_text(found.get(Key("swap", name, role="newcomer")))
        rows.append((name, MEASURES.get(unit, "score"), *cells, new))
    note = "Read by judges that were trained on real samples: accuracy, the mean cosine of angles, "
    note += "or R². A style that is as high without the local part comes from the decoder, not the "
    note += "code."
    if effect is not None:
        note += f" Inside a client the local code makes {100 * effect.value:.0f} % of what varies "
        note += "in decoded samples; 0 would be a dead code."
    heads = (*(f">{words}" for words in _VARIANTS.values()), ">swapped with newcomers")
    return PlainTable("Swaps", ("read", "measure", *heads), tuple(rows), note)


def swap_figure(pairs: pl.DataFrame, score: str) -> go.Figure:
    """Draw a score for each pair of clients: content of the row, local part of the column.

    Args:
        pairs: ``content_client, style_client`` and the score, from 0 to 1.
        score: Which column; the label is what the shared part should keep.
    """
    names = sorted({*pairs["content_client"], *pairs["style_client"]}, key=natural)
    places = {name: place for place, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), np.nan)
    for content, style, value in pairs.select("content_client", "style_client", score).iter_rows():
        matrix[places[content], places[style]] = np.nan if value is None else value
    shown = [short(name, 14) for name in names]
    ink = PART["shared" if score == "label" else "local"]
    result = figure(max(300, 110 + 26 * len(names)))
    result.add_heatmap(
        z=matrix,
        x=shown,
        y=shown,
        zmin=0,
        zmax=1,
        colorscale=[(0, faded(ink, 0.04)), (1, ink)],
        colorbar={"title": {"text": score}, "thickness": 10},
        hovertemplate="content of %{y}, local part of %{x}: %{z:.2f}<extra></extra>",
        hoverongaps=False,
        texttemplate="%{z:.2f}" if len(names) <= 12 else None,
    )
    result.update_xaxes(type="category", title={"text": "local part of"}, showgrid=False)
    result.update_yaxes(
        type="category", title={"text": "content of"}, autorange="reversed", showgrid=False
    )
    return result
