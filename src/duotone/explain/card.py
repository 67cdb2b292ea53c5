"""The card of one answer: data, and the words for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from duotone.data.dataset import Array
from duotone.explain.card_page import html_page, html_part
from duotone.explain.layers import LayerShares
from duotone.explain.neighbours import Neighbourhood
from duotone.explain.pixels import Attribution
from duotone.explain.through_input import ThroughInput

SMALL = 0.1
"""A part of a probability below it is not worth a sentence."""


@dataclass(frozen=True, slots=True)
class ClassParts:
    """What one output is made of; the four parts add up to the answer.

    Attributes:
        name: The class, or "value" for a number.
        answer: What the client says.
        mean: What the reference says of anything.
        sample: What the reference says of this sample, less the mean.
        habit: What the client says of anything, less the mean.
        reading: The rest: what the client sees in this sample that others do not.
    """

    name: str
    answer: float
    mean: float
    sample: float
    habit: float
    reading: float

    @property
    def anybody(self) -> float:
        """What the reference says of this sample."""
        return self.mean + self.sample


@dataclass(frozen=True, slots=True)
class Control:
    """Another client, asked about the same sample beside the one that was asked about.

    Attributes:
        client: Who it is.
        relation: "same group" or "other group" of the client whose answer is explained.
        answer: What it says.
        differs: Whether that is another class.
    """

    client: str
    relation: str
    answer: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """Why two clients differ on one sample.

    Attributes:
        against: The other client.
        answer: What it says.
        probability: Of that class, or its number.
        margin: What is shared out among layers.
        before: The margin with the client's own layers.
        after: The margin with the other's.
        layers: How much of the change each local layer makes; ``None`` with fewer than two.
        only: The only layer in which they differ, if there is one.
        flips: The client nearest in how it answers that decides differently, if any.
        controls: Other clients beside.
        picture: The sample as the other client would have it, where the method can draw.
        picture_answer: What the client says of that picture.
    """

    against: str
    answer: str
    probability: float
    margin: str
    before: float
    after: float
    layers: LayerShares | None
    only: str | None
    flips: str | None
    controls: tuple[Control, ...]
    picture: Array | None = None
    picture_answer: str | None = None


@dataclass(frozen=True, slots=True)
class CodeShares:
    """What the shared code and each local dimension or concept add to an answer.

    Attributes:
        names: "shared code", and the local ones.
        values: Shapley values; they add up to ``total``.
        total: The answer less that to codes of other clients' samples.
        faithfulness: As for layers.
        exchanged: What the answer loses with local codes of other clients' samples.
        placebo: What it loses with local codes of the client's own samples.
    """

    names: tuple[str, ...]
    values: tuple[float, ...]
    total: float
    faithfulness: float
    exchanged: float
    placebo: float


@dataclass(frozen=True, slots=True)
class Card:
    """Why a client answers one sample as it does.

    Print it, show it in a notebook, or take :meth:`as_json` and :meth:`html`.

    Attributes:
        client: Whose answer it is.
        method: The method of the run.
        answer: The class, or the number as text.
        truth: The true label, if the sample is one of the client's own test samples.
        reference: Whom the answer is compared with, in words.
        classes: The outputs with the largest parts, the answer first.
        sentences: The explanation in plain words.
        layers: Which local layers make the answer another than the reference's, if several do.
        codes: What codes add to it, where the method has them.
        through_input: What would be said if other clients had sent the sample.
        sample_pixels: Where in the input the reference's answer comes from.
        reading_pixels: Where the client's own part comes from.
        support: The client's own nearest samples; nobody else's are ever shown.
        difference: Why it differs from another client, if that was asked.
        faithfulness: Scores that say how far the card can be trusted, by what they check.
        needed: What was needed for it.
        notes: What could not be said, and why.
        picture: The sample, if it is an image.
        text: The sample, if it is text.
    """

    client: str
    method: str
    answer: str
    truth: str | None
    reference: str
    classes: tuple[ClassParts, ...]
    sentences: tuple[str, ...]
    layers: LayerShares | None
    codes: CodeShares | None
    through_input: ThroughInput | None
    sample_pixels: Attribution | None
    reading_pixels: Attribution | None
    support: Neighbourhood | None
    difference: Difference | None
    faithfulness: dict[str, float]
    needed: tuple[str, ...]
    notes: tuple[str, ...]
    picture: Array | None = None
    text: str | None = None

    def __str__(self) -> str:
        return "\n".join(card_lines(self))

    def as_json(self) -> dict[str, Any]:
        """Return everything but pictures of own samples, for machines."""
        bare = replace(self, picture=None)
        if bare.support is not None:
            bare = replace(bare, support=replace(bare.support, pictures=np.zeros(0)))
        content: dict[str, Any] = plain(asdict(bare))
        content.pop("picture")
        if content["support"] is not None:
            content["support"].pop("pictures")
        return content

    def html(self) -> str:
        """Return the card as a page that needs nothing else."""
        return html_page(f"Why client {self.client} says {self.answer}", html_part(self))

    def _repr_html_(self) -> str:
        return html_part(self)


def plain(value: Any) -> Any:
    """Return a value as JSON knows it."""
    if isinstance(value, dict):
        return {key: plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [plain(own) for own in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def card_lines(card: Card) -> list[str]:
    """Return a card as text."""
    lines = [" ".join(card.sentences), ""]
    if card.text is not None:
        lines[:0] = [f"After: {card.text!r}"]
    if card.truth is not None:
        lines[1:1] = [f"The true label is {card.truth}."]
    width = max(8, *(len(own.name) for own in card.classes))
    heads = ("answer", "mean", "sample", "habit", "reading")
    lines.append(" " * width + "".join(f"{head:>9}" for head in heads))
    for own in card.classes:
        signed = (f"{v:+9.3f}" for v in (own.sample, own.habit, own.reading))
        lines.append(f"{own.name:<{width}}{own.answer:9.3f}{own.mean:9.3f}{''.join(signed)}")
    lines.append(f"answer = mean + sample + habit + reading, against {card.reference}.")
    if card.layers is not None:
        lines += ["", "Own layers instead of others':", *_bars(card.layers)]
    if card.codes is not None:
        lines += ["", "Codes:", *_bars(card.codes)]
        lines.append(
            f"  Its local code is worth {card.codes.exchanged:+.3f} against those of other "
            f"clients' samples, {card.codes.placebo:+.3f} against its own samples'."
        )
    if card.through_input is not None and card.through_input.speaks:
        said = ", ".join(f"{name}: {label}" for name, label in card.through_input.answers.items())
        lines += ["", f"As if it were a sample of another client: {said}."]
    if card.support is not None:
        told = ", ".join(f"{own.label} (#{own.number})" for own in card.support.nearest)
        near = f"{card.support.agree} of {len(card.support.nearest)} agree"
        lines += ["", f"Nearest own training samples: {told}; {near}."]
    if card.difference is not None:
        lines += ["", *_difference_lines(card.difference)]
    if card.faithfulness:
        scores = ", ".join(f"{name} {value:.2f}" for name, value in card.faithfulness.items())
        lines += ["", f"Faithfulness (1 is best): {scores}."]
    lines += ["", f"Needed: {'; '.join(card.needed)}."]
    return [*lines, *card.notes]


def _bars(shares: LayerShares | CodeShares) -> list[str]:
    pairs: Sequence[tuple[str, float]] = list(zip(shares.names, shares.values, strict=True))
    width = max(len("together"), *(len(name) for name, _ in pairs))
    return [
        *(f"  {name:<{width}} {value:+8.3f}" for name, value in pairs),
        f"  {'together':<{width}} {shares.total:+8.3f}",
    ]


def _difference_lines(found: Difference) -> list[str]:
    lines = [
        f"Against {found.against}, which says {found.answer} ({found.probability:.2f}):",
        f"  {found.margin}: {found.before:+.3f} with its own layers, {found.after:+.3f} with "
        f"{found.against}'s.",
    ]
    if found.layers is not None:
        lines += _bars(found.layers)
    elif found.only is not None:
        lines.append(f"  They differ in one layer only: {found.only}.")
    if found.flips is not None:
        lines.append(f"  The nearest client that decides differently is {found.flips}.")
    if found.picture_answer is not None:
        lines.append(f"  Drawn as {found.against} would have it, it is {found.picture_answer}.")
    for control in found.controls:
        same = "another answer" if control.differs else "the same answer"
        lines.append(f"  Beside, {control.client} ({control.relation}): {control.answer}, {same}.")
    return lines
