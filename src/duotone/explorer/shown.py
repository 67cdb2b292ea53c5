"""Answers and samples in the form a page shows."""

from __future__ import annotations

from typing import Any, SupportsFloat

from torch import Tensor

from duotone.data.text import text_of
from duotone.explain.card_page import picture_uri
from duotone.measures.asked import as_answers
from duotone.measures.sheet import pixels
from duotone.runs.client import Client
from duotone.types import DataInfo


def shown_samples(x: Tensor, info: DataInfo) -> list[str | None]:
    """Return samples as addresses that hold a picture; ``None`` for rows of a table."""
    if not info.is_image:
        return [None] * len(x)
    return [picture_uri(image) for image in pixels(x.cpu())]


def shown_features(x: Tensor, client: Client) -> list[tuple[str, float | str]] | None:
    """Return a row of a table with the names of its features, or a text; ``None`` for images."""
    info, preparation = client.facts.info, client.facts.preparation
    if info.is_image:
        return None
    if info.is_text:
        return [("text", text_of(x[0].numpy(), info.alphabet))]
    names = preparation.features if preparation is not None else map(str, range(info.shape[0]))
    return [(name, float(value)) for name, value in zip(names, x[0], strict=True)]


def shown_answers(scores: Tensor, client: Client) -> list[dict[str, Any]]:
    """Return answers: the class with all probabilities, or the number."""
    names = client.class_names
    found = []
    for row in as_answers(scores, client.facts.info):
        if not names:
            found.append({"answer": f"{row[0]:.4g}", "value": float(row[0])})
            continue
        top = int(row.argmax())
        shares = [round(float(share), 5) for share in row]
        found.append({"answer": names[top], "probability": shares[top], "probabilities": shares})
    return found


def shown_label(label: SupportsFloat, client: Client) -> str | None:
    """Return a true label in words; ``None`` where it is not known."""
    names = client.class_names
    if names:
        return names[int(float(label))] if float(label) >= 0 else None
    return f"{float(label):.4g}"
