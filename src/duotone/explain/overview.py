"""The card of a federation: how much of all answers is sample, habit and reading."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from duotone.errors import RunError
from duotone.explain.card import plain
from duotone.explain.card_page import html_page, html_part
from duotone.explain.witnesses import read_answers
from duotone.measures.decomposition import PARTS
from duotone.runs import Run
from duotone.runs.opened import OpenedRun

_FLIPS = ("answers.flips", "answers.flips.same_group", "answers.flips.other_group")


@dataclass(frozen=True, slots=True)
class FederationCard:
    """What all answers of a federation are made of.

    Attributes:
        method: The method of the run.
        members: How many members were asked.
        samples: About how many samples.
        shares: Of the variance, by part: value and the ends of its interval.
        flips: How often exchanging the local part changes a decision, by whose part it is.
        sentences: The card in plain words.
    """

    method: str
    members: int
    samples: int
    shares: dict[str, tuple[float, float, float]]
    flips: dict[str, float]
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        lines = [" ".join(self.sentences), ""]
        for part, (value, low, high) in self.shares.items():
            lines.append(f"{part:<8}{value:7.1%}  [{low:.1%}, {high:.1%}]")
        for words, share in self.flips.items():
            lines.append(f"decisions changed by {words}: {share:.1%}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """Return the card for machines."""
        content: dict[str, Any] = plain(asdict(self))
        return content

    def html(self) -> str:
        """Return the card as a page that needs nothing else."""
        return html_page("What the answers are made of", self._repr_html_())

    def _repr_html_(self) -> str:
        return html_part(self, "federation.html.j2")


def federation_card(run: Run) -> FederationCard:
    """Return the card of a finished run.

    Raises:
        RunError: It is not finished, or has not measured its answers.
    """
    OpenedRun(run)  # refuses what is not finished
    table = read_answers(run)
    scores = run.summary["scores"]
    if table is None or "answers.sample" not in scores:
        raise RunError(
            f"{run.path} has not measured its answers: it has fewer than two members, or an "
            "earlier version of duotone made it. Explain single answers with --client and --sample."
        )
    found = {part: scores[f"answers.{part}"] for part in PARTS}
    shares = {
        part: (own["value"], own.get("low", own["value"]), own.get("high", own["value"]))
        for part, own in found.items()
    }
    words = ("another member's local part", "one of the same group", "one of another group")
    flips = {
        word: scores[name]["value"]
        for name, word in zip(_FLIPS, words, strict=True)
        if name in scores
    }
    own = shares["habit"][0] + shares["reading"][0]
    method = run.config.method["name"]
    told = (
        f"With {method}, all clients answer alike."
        if own < 0.005
        else f"With {method}, {own:.0%} of what is said depends on who is asked: "
        f"{shares['habit'][0]:.0%} is habit and {shares['reading'][0]:.0%} reading."
    )
    return FederationCard(str(method), len(table.members), table.samples, shares, flips, (told,))
