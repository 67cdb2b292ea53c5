"""Are generated samples like the client's own, and does each draw decide its part?"""

from __future__ import annotations

from duotone.federation.protocols import Generates
from duotone.measures.drawing import asks_labels
from duotone.measures.generated import generation_scores
from duotone.measures.judging import every_class_in_every_style, judges_of_made, judges_of_newcomers
from duotone.measures.measure import Findings, Measure, Record, Scene
from duotone.measures.panels import Block, Grid, PlainTable, Section, gathered, judged_rows, listed
from duotone.measures.sheets import generation_sheets

_WORDS = {
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


class Generation(Measure):
    """Samples that clients' models draw, read by judges."""

    name = "generation"
    file = "generate"
    ahead = (judges_of_made, judges_of_newcomers)

    def applies(self, scene: Scene) -> bool:
        """Say whether the method draws samples, and codes are kept."""
        return isinstance(scene.method, Generates) and bool(scene.config.latents and scene.clients)

    def measure(self, scene: Scene) -> Findings:
        """Let clients draw, and have judges look at it."""
        found = generation_scores(
            scene,
            scene.once(judges_of_made),
            unseen=scene.once(every_class_in_every_style),
            for_newcomers=scene.once(judges_of_newcomers),
        )
        sheets = []
        if scene.population.info.is_image:
            assert isinstance(scene.method, Generates)
            conditional = asks_labels(scene.method, scene.population)
            sheets = generation_sheets(found, scene.population, conditional=conditional)
        table = {"clients": found.clients, "pairs": found.pairs}
        return Findings(found.scores, scene.rows(found.scores), table, sheets=sheets)

    def section(self, record: Record) -> Section | None:
        """Return what generated samples look like, and what judges read from them."""
        rows = judged_rows(record.scores, "generate", _WORDS)
        if not rows:
            return None
        note = "Samples that members' models generate, read by judges that were trained on real "
        note += "samples. Chance is what samples would get that ignore the question. The Fréchet "
        note += "distance is in the features of these judges: not comparable between data sets."
        heads = ("read", ">generated", ">real samples", ">chance", ">by newcomers")
        blocks: list[Block] = [*gathered(record.pictures_of("samples"))]
        blocks.append(Grid("generate", PlainTable("Generated samples", heads, rows, note)))
        clients = record.tables["generate"]["clients"]
        by_client = listed(
            "Generated samples, client by client",
            [f"{own['kind']} {own['client']} ({own['style']})" for own in clients],
            clients,
            {"fd": "Fréchet distance", "floor": "of real samples", **_WORDS},
            "Distances of different clients cannot be compared, each only with that of real "
            "samples.",
        )
        if by_client is not None:
            blocks.append(Grid("generated", by_client))
        intro = "What members' models draw from the same random draws."
        return Section("generation", "Generated samples", intro, blocks)
